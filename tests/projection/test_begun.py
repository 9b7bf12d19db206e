"""The first files of a container whose start is held, written for the runtime that mounts them."""

from __future__ import annotations

import os
from pathlib import Path

from sidecar.projection.projections import Projections
from state.projection import read
from tests.projection.test_projections import A, a, opened, told


def test_it_begins_once_and_by_id_alone(tmp_path: Path) -> None:
    """Which container has a name is decided in the turn of its age."""
    projections, root = opened(tmp_path / "p"), tmp_path / "p"
    projections.begin(A, told(A, "2-3"))
    projections.begin(A, told(A, "1"))
    assert read(root / "by-id" / a).cpus == told(A, "2-3").cpus
    assert not os.path.exists(root / "by-name" / "voice")
    projections.write(A, ["voice"], told(A, "2-3"))
    assert read(root / "by-name" / "voice") == read(root / "by-id" / a)


def test_one_of_an_earlier_run_stays_as_it_is(tmp_path: Path) -> None:
    earlier: Projections = opened(tmp_path / "p")
    earlier.write(A, ["voice"], told(A, "2-3"))
    opened(tmp_path / "p").begin(A, told(A, "1"))
    assert read(tmp_path / "p" / "by-id" / a).cpus == told(A, "2-3").cpus
