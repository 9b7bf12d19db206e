"""Names of slices and the cgroups that systemd makes of them."""

from __future__ import annotations

import pytest

from sidecar.systemd_names import (
    group_named,
    is_group_of_pod,
    is_slice,
    misread_by_runtimes,
    names_what_may_ask,
    parent_in,
    pod_in,
    slice_path,
    unit_named,
)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("-.slice", ""),
        ("pool.slice", "/pool.slice"),
        ("sidecar-shared.slice", "/sidecar.slice/sidecar-shared.slice"),
        ("a-b-c.slice", "/a.slice/a-b.slice/a-b-c.slice"),
        ("cpuset-sidecar-shared.slice", "/_cpuset.slice/cpuset-sidecar.slice/cpuset-sidecar-shared.slice"),
        ("a-cpu.slice", "/a.slice/a-cpu.slice"),
        ("cpusets-shared.slice", "/cpusets.slice/cpusets-shared.slice"),
    ],
)
def test_a_slice_lies_where_systemd_puts_it(name: str, path: str) -> None:
    """Nested by dashes; a first part that is a controller's name gets an underscore (seen with systemd 257)."""
    assert slice_path(name) == path


def test_a_name_that_begins_with_a_controllers_is_misread_by_runtimes() -> None:
    """They leave the underscore out: pause then freezes an empty cgroup."""
    assert misread_by_runtimes("cpuset-sidecar-shared.slice")
    assert misread_by_runtimes("memory.slice")
    assert not misread_by_runtimes("sidecar-shared.slice")


@pytest.mark.parametrize(
    ("group", "unit"),
    [
        ("ssh.service", "ssh.service"),
        ("_cpu.slice", "cpu.slice"),
        ("_memory.service", "memory.service"),
        ("__own.service", "_own.service"),
        ("cpu.slice", ""),
    ],
)
def test_a_group_tells_its_unit(group: str, unit: str) -> None:
    """What looks like a file of a controller is no group of systemd's: a runtime made it (seen with Docker 26)."""
    assert unit_named(group) == unit
    assert not unit or group_named(unit) == group


@pytest.mark.parametrize(
    "name", ["", "slice", ".slice", "-a.slice", "a-.slice", "a--b.slice", "a/b.slice", "a b.slice"]
)
def test_what_is_no_name_of_a_slice(name: str) -> None:
    """systemd would refuse it, too."""
    assert not is_slice(name)


@pytest.mark.parametrize(
    ("pattern", "is_possible"),
    [
        ("ssh.service", True),
        ("db-*.slice", True),
        ("db@[12].service", True),
        ("*", True),
        ("db-*", True),
        ("db*ice", True),
        ("db.servic?", True),
        ("db", False),
        ("db-*.scope", False),
        ("db*.socket", False),
    ],
)
def test_a_pattern_is_perhaps_that_of_a_unit_that_can_ask(pattern: str, is_possible: bool) -> None:
    """Services and slices can; what no wildcard stands for at its end must be the end of such a name."""
    assert names_what_may_ask(pattern) == is_possible


ID, POD = "c" * 64, "b" * 64


@pytest.mark.parametrize(
    ("group", "parent", "pod"),
    [
        ("", "", ""),
        (ID, "", ""),
        (f"/docker/{ID}", "/docker", ""),
        (f"/docker/{POD}/{ID}", f"/docker/{POD}", ""),
        (f"a:b:c/{ID}", "a:b:c", ""),
        (f"system.slice:docker:{ID}", "system.slice", ""),
        (f":libpod:{ID}", "", ""),
        (f"/libpod_parent/libpod-{ID}", "/libpod_parent", ""),
        (f"/libpod_parent/{POD}/libpod-{ID}", f"/libpod_parent/{POD}", POD),
    ],
)
def test_what_a_runtime_is_given_tells_the_parent(group: str, parent: str, pod: str) -> None:
    """Of Docker and of Podman, under either driver. Only Podman has pods, and it calls its containers another way."""
    assert (parent_in(group), pod_in(group)) == (parent, pod)


@pytest.mark.parametrize(
    ("path", "is_its"),
    [
        (f"/libpod_parent/{'a' * 64}", True),
        (f"/machine.slice/machine-libpod_pod_{'a' * 64}.slice", True),
        (f"/{'a' * 64}/other", False),
        ("", False),
        (f"/libpod_parent/{'b' * 64}", False),
    ],
)
def test_the_group_of_a_pod_is_the_last_of_its_path(path: str, is_its: bool) -> None:
    """Whichever driver has named it."""
    assert is_group_of_pod(path, "a" * 64) is is_its
