"""The units of the host that hold no container, in a tree of cgroups as systemd makes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.host.units.host_units import HostUnit, holds_unit, host_units, is_container
from state.cpuset import CPUSet
from tests.support.deep_groups import nested

ID = "a1" * 32
ALL = CPUSet.parse("0-3")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "cpuset.cpus.effective").write_text("0-3\n")
    return tmp_path


USER = "/user.slice/user-1000.slice"


def group(root: Path, path: str, cpus: str = "") -> None:
    at = root / path
    at.mkdir(parents=True, exist_ok=True)
    if cpus:
        (at / "cpuset.cpus.effective").write_text(f"{cpus}\n")


def test_a_slice_without_containers_is_one_unit(root: Path) -> None:
    """What is below it is confined with it."""
    group(root, "system.slice/ssh.service", "0")
    group(root, "system.slice", "0-1")
    group(root, "init.scope")
    assert list(host_units(str(root), ALL)) == [
        HostUnit("init.scope", ALL, path="/init.scope"),
        HostUnit("system.slice", CPUSet.parse("0-1"), path="/system.slice"),
    ]


def test_the_parent_of_a_container_is_never_a_unit_to_confine(root: Path) -> None:
    """Neither directly nor further up; its other guests are."""
    group(root, f"system.slice/docker-{ID}.scope", "3")
    group(root, "system.slice/ssh.service", "0-2")
    group(root, "system.slice/nested.slice/deep.service")
    group(root, f"user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container")
    group(root, "user.slice/user-1000.slice/session-1.scope")
    assert list(host_units(str(root), ALL)) == [
        HostUnit("nested.slice", ALL, path="/system.slice/nested.slice"),
        HostUnit("ssh.service", CPUSet.parse("0-2"), path="/system.slice/ssh.service"),
        HostUnit("session-1.scope", ALL, path=f"{USER}/session-1.scope"),
        HostUnit("user@1000.service", ALL, has_containers=True, path=f"{USER}/user@1000.service"),
    ]


def test_a_slice_that_systemd_calls_otherwise_has_its_own_name(root: Path) -> None:
    """And what a runtime makes of that name is no unit."""
    group(root, "_io.slice/io-heavy.slice")
    group(root, "io.slice/io-heavy.slice")
    assert list(host_units(str(root), ALL)) == [HostUnit("io.slice", ALL, path="/_io.slice")]


def test_groups_of_engines_are_no_units(root: Path) -> None:
    """Under the cgroupfs driver they are beside the slices."""
    group(root, f"docker/{ID}")
    group(root, f"libpod_parent/libpod-{ID}")
    assert not list(host_units(str(root), ALL))


def test_a_step_and_a_monitor_are_processes_of_the_host() -> None:
    """Only a full id names a container, and conmon is not part of it."""
    names = [ID, f"docker-{ID}.scope", f"libpod-{ID}", f"cri-containerd-{ID}.scope"]
    assert all(is_container(name) for name in names)
    assert not any(is_container(name) for name in (f"libpod-conmon-{ID}.scope", "docker-x1.scope", ID[:-1]))


def test_a_tree_that_is_gone_has_no_units(tmp_path: Path) -> None:
    """A unit may end while the tree is read."""
    assert not list(host_units(str(tmp_path / "gone"), ALL))


def test_a_unit_without_a_cpuset_may_run_everywhere(tmp_path: Path) -> None:
    """Where the controller is enabled nowhere, nothing is confined: that must not look like confinement."""
    group(tmp_path, "system.slice")
    assert list(host_units(str(tmp_path), ALL)) == [HostUnit("system.slice", ALL, path="/system.slice")]


def test_the_slice_of_an_engine_is_looked_into_before_its_first_container(root: Path) -> None:
    """What comes later must not be born into confinement."""
    group(root, "system.slice/ssh.service", "0-2")
    found = list(host_units(str(root), ALL, ("system.slice",)))
    assert found == [HostUnit("ssh.service", CPUSet.parse("0-2"), path="/system.slice/ssh.service")]


def test_no_depth_of_slices_ends_the_search(root: Path) -> None:
    """A tenant has an engine make them, as a parent of its container's cgroup: as deep as a path may be long."""
    names = ["a.slice"] * ((4000 - len(str(root))) // 8)
    with nested(root / "a.slice", [*names, "ssh.service"]):
        assert holds_unit(str(root / "a.slice"), {"ssh.service"})
        (found,) = host_units(str(root), ALL, asking={"ssh.service"})
        assert (found.name, found.path.count("/")) == ("ssh.service", len(names) + 2)
