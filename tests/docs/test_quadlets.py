"""The quadlets of compose/podman and of the pages, as Podman's own generator and systemd judge them.

The generator is asked for what it would write: nothing is installed.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import ROOT
from tests.docs.units import PAGES, blocks, judged, slices

GENERATOR: Final = "/usr/libexec/podman/quadlet"
SHIPPED: Final = {path.name: path.read_text() for path in (ROOT / "compose/podman").iterdir()}
IN_SLICE: Final = next(
    text for text in blocks(PAGES / "confine-everybody-at-once.md") if text.startswith("[Container]")
)

pytestmark = pytest.mark.skipif(
    not os.access(GENERATOR, os.X_OK), reason="needs Podman's generator of quadlets (4.4): see `make vm-test`"
)


def generated(folder: Path, quadlets: Mapping[str, str], *words: str) -> tuple[dict[str, str], str]:
    """Return the units that the generator makes of these files, and what it says besides."""
    folder.mkdir(exist_ok=True)
    for name, text in quadlets.items():
        (folder / name).write_text(text)
    done = subprocess.run(
        (GENERATOR, "-dryrun", *words),
        env={**os.environ, "QUADLET_UNIT_DIRS": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    parts = re.split(r"^---(.+)---\n", done.stdout, flags=re.MULTILINE)
    said = [line for line in done.stderr.splitlines() if "Loading source unit file" not in line]
    return dict(zip(parts[1::2], parts[2::2], strict=True)), "\n".join(
        [*said, *([] if done.returncode == 0 else ["failed"])]
    )


@pytest.mark.parametrize("words", [(), ("-user",)], ids=["root", "user"])
def test_the_shipped_quadlets_are_units_without_a_complaint(words: tuple[str, ...], tmp_path: Path) -> None:
    """The generator understands every key, and systemd the units that it makes, one with another."""
    units, complaint = generated(tmp_path / "quadlets", SHIPPED, *words)
    assert complaint == ""
    assert set(units) == {"cpuset-sidecar.service", "cpuset-state-volume.service", "workload.service"}
    (tmp_path / "units").mkdir()
    assert judged(tmp_path / "units", units) == ""
    assert "Requires=cpuset-state-volume.service" in units["cpuset-sidecar.service"]
    assert "--label cpuset.exclusive=2" in units["workload.service"]


def test_the_quadlet_of_the_shared_slice_puts_its_service_in_it(tmp_path: Path) -> None:
    """Podman is told to put the container below the service."""
    units, complaint = generated(tmp_path / "quadlets", {"game.container": IN_SLICE})
    assert complaint == ""
    (tmp_path / "units").mkdir()
    assert judged(tmp_path / "units", {**units, **slices()}) == ""
    assert "Slice=sidecar-shared.slice" in units["game.service"]
    assert "--cgroups=split" in units["game.service"]


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_a_mistake_in_any_of_them_is_seen(name: str, tmp_path: Path) -> None:
    """So that silence means something."""
    quadlets = {**SHIPPED, name: SHIPPED[name].replace("=", "Wrong=")}
    if name.endswith(".volume"):
        quadlets[name] += "LabelWrong=x\n"
    units, complaint = generated(tmp_path / "quadlets", quadlets)
    assert name in complaint
    assert len(units) < len(SHIPPED)
