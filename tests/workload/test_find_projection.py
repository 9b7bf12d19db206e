"""A container's directory, found by its name, its ID, or its projection name; and what is said if there is none."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sidecar.failures import SidecarError
from sidecar.projection.projections import Projections
from sidecar.workload.find_projection import directory_of, projected
from state.cpuset import CPUSet
from state.projection import Projection

A, B = "a" * 64, "b" * 64


@pytest.fixture
def root(tmp_path: Path) -> Path:
    projections = Projections(tmp_path, clock=time.time)
    for container, name in ((A, "svc-10"), (B, "svc-2")):
        projections.write(container, ["game"], Projection(container=container, name=name, cpus=CPUSet.of(1)))
    return tmp_path


@pytest.mark.parametrize(
    ("wanted", "place"),
    [
        ("svc-10", "by-id/" + A[:12]),
        ("/svc-2", "by-id/" + B[:12]),
        ("bbb", "by-id/" + B[:12]),
        ("game", "by-name/game"),
    ],
)
def test_a_name_an_id_and_a_projection_name_are_found(root: Path, wanted: str, place: str) -> None:
    assert directory_of(str(root), wanted) == str(root / place)


@pytest.mark.parametrize("wanted", ["nope", "", "..", "."])
def test_an_error_names_the_containers_in_their_order(root: Path, wanted: str) -> None:
    with pytest.raises(SidecarError, match="containers with a projection: svc-2, svc-10"):
        directory_of(str(root), wanted)


def test_of_many_containers_it_names_the_first(tmp_path: Path) -> None:
    projections = Projections(tmp_path, clock=time.time)
    for number in range(25):
        id = f"{number:02}" + "c" * 62
        projections.write(id, (), Projection(container=id, name=f"svc-{number}", cpus=CPUSet.of(1)))
    with pytest.raises(SidecarError, match="svc-19 and 5 more"):
        directory_of(str(tmp_path), "other")


def test_without_a_root_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(SidecarError, match="there is no projection of any container below"):
        directory_of(str(tmp_path / "none"), "svc-2")
    assert projected(str(tmp_path / "none")) == []
