"""The quadlet units for Podman: they fit together, and name existing things."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from sidecar.config.keys import KEYS
from sidecar.decide.container.labels import NAMES

FOLDER = Path(__file__).parents[2] / "compose/podman"
UNITS = sorted(FOLDER.iterdir())


def read(path: Path) -> dict[str, dict[str, list[str]]]:
    """Return the sections of a unit file, each key with all of its values (systemd.syntax(7))."""
    sections: dict[str, dict[str, list[str]]] = {}
    section = ""
    for line in path.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            section = line.strip("[]")
            sections[section] = defaultdict(list)
        else:
            key, equals, value = line.partition("=")
            assert equals, line
            sections[section][key].append(value)
    return sections


def test_each_unit_is_a_quadlet() -> None:
    """Its suffix determines its section."""
    assert [path.name for path in UNITS] == [
        "cpuset-sidecar.container",
        "cpuset-state.volume",
        "workload.container",
    ]
    for path in UNITS:
        assert path.suffix[1:].capitalize() in read(path)


def test_the_sidecar_is_given_settings_that_exist() -> None:
    """And no privilege but its engine's socket, the host's cgroups and its priority."""
    container = read(FOLDER / "cpuset-sidecar.container")["Container"]
    known = {f"CPUSET_SIDECAR_{key.upper()}" for key in KEYS}
    assert {setting.partition("=")[0] for setting in container["Environment"]} <= known
    assert container["DropCapability"] == ["all"]
    assert (container["ReadOnly"], container["NoNewPrivileges"]) == (["true"], ["true"])
    assert container["AddCapability"] == ["DAC_OVERRIDE", "SYS_NICE"]
    assert container["PodmanArgs"] == ["--cgroupns=host --cpuset-cpus=0"]
    assert "CPUSET_SIDECAR_RESERVED=0" in container["Environment"]
    assert "/sys/fs/cgroup:/sys/fs/cgroup" in container["Volume"]
    assert "%t/cpuset-sidecar:/run/cpuset-sidecar" in container["Volume"]
    assert read(FOLDER / "cpuset-sidecar.container")["Service"]["RuntimeDirectory"] == ["cpuset-sidecar"]
    [socket] = [volume for volume in container["Volume"] if volume.startswith("/run/")]
    assert f"CPUSET_SIDECAR_ENGINE=unix://{socket.partition(':')[2]}" in container["Environment"]


@pytest.mark.parametrize("path", [path for path in UNITS if path.suffix == ".container"], ids=lambda path: path.name)
def test_volumes_that_are_mounted_are_there(path: Path) -> None:
    """A quadlet names another by its file."""
    for volume in read(path)["Container"]["Volume"]:
        source = volume.partition(":")[0]
        assert source.startswith(("/", "%t/")) or (FOLDER / source).exists()


def test_the_workload_asks_in_the_words_of_the_labels() -> None:
    """It mounts its own directory of projections, read-only, and makes it first."""
    container = read(FOLDER / "workload.container")["Container"]
    assert {label.partition("=")[0] for label in container["Label"]} <= set(NAMES)
    own = "%t/cpuset-sidecar/by-name/workload"
    assert container["Volume"] == [f"{own}:/run/cpus:ro,z"]
    assert "cpuset.projection=workload" in container["Label"]
    assert read(FOLDER / "workload.container")["Service"]["ExecStartPre"] == [f"mkdir -p {own}"]
