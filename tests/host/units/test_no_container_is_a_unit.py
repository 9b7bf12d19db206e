"""The law of units, on random trees of cgroups with random properties that systemd keeps: what is a container's, or
holds one, is never a unit of the host; and everything else is.

Each planted fault is seen to break it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidecar.host.units import host_units, unit_groups
from sidecar.host.units.unit_groups import PARENTS, UnitGroups
from sidecar.host.units.unit_properties import UnitDescription
from state.cpuset import CPUSet

ALL: Final = CPUSet.parse("0-3")
CONTAINERS: Final = tuple(
    f"{kind}{digit * 64}{end}"
    for digit in "1f"
    for kind, end in (("docker-", ".scope"), ("libpod-", ".scope"), ("", ""))
)
PODS: Final = tuple(f"machine-libpod_pod_{digit * 64}.slice" for digit in "2e")
SLICES: Final = ("system.slice", "machine.slice", "user.slice", "my.slice", "my-own.slice")
STARTED: Final = ("ssh.service", "user@7.service", "session-1.scope", f"libpod-conmon-{'1' * 64}.scope")
NAMES: Final = (*CONTAINERS, *PODS, *SLICES, *STARTED)

Tree = dict[str, "Tree"]


def is_units(path: str) -> bool:
    """Return whether it can be a unit of this systemd: in slices alone. No two have one name."""
    return all(part.endswith(".slice") for part in path.split("/")[1:-1])


def with_unique_names(tree: Tree) -> Tree:
    seen: set[str] = set()

    def kept(tree: Tree) -> Tree:
        found: Tree = {}
        for name, below in tree.items():
            if name in seen:
                continue
            seen.add(name)
            found[name] = kept(below) if name.endswith(".slice") else below
        return found

    return kept(tree)


def below(children: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.dictionaries(st.sampled_from(NAMES), children, max_size=4)


TREES: Final = st.dictionaries(
    st.sampled_from((*SLICES, "init.scope", "docker")), st.recursive(st.just({}), below, max_leaves=8), max_size=5
).map(with_unique_names)


class Systemd:
    """Obeys."""

    async def allow_cpus(self, unit: str, cpus: CPUSet) -> None:
        await trio.lowlevel.checkpoint()

    async def stop(self, unit: str) -> None:
        raise AssertionError("no unit is stopped here")

    async def kill(self, unit: str, signal: int) -> None:
        raise AssertionError("no unit is signalled here")

    async def described(self, units: Sequence[str]) -> dict[str, UnitDescription]:
        await trio.lowlevel.checkpoint()
        return dict.fromkeys(units, UnitDescription())


def paths(tree: Tree, above: str = "") -> list[str]:
    return [path for name, below in tree.items() for path in (f"{above}/{name}", *paths(below, f"{above}/{name}"))]


def is_of_containers(path: str) -> bool:
    return any(part in (*CONTAINERS, *PODS) for part in path.split("/"))


def faults(tree: Tree, kept: set[str]) -> list[str]:
    """Return what breaks the law in this tree, where systemd keeps CPUs for units of these names."""
    with tempfile.TemporaryDirectory() as made:
        root, control = Path(made) / "cgroup", Path(made) / "control"
        there = paths(tree)
        for path in there:
            (root / path.strip("/")).mkdir(parents=True, exist_ok=True)
        for name in kept:
            (control / f"{name}.d").mkdir(parents=True)
            (control / f"{name}.d" / "50-AllowedCPUs.conf").write_text("[Unit]\nAllowedCPUs=1\n")
        those = UnitGroups(str(root), Systemd(), lambda: ALL, control=(str(control),))

        async def looked() -> dict[str, str]:
            found = those.all()
            looks = {name: await those.look(name) for name in {*found, *kept}}
            return {name: look.cgroup for name, look in looks.items() if look is not None}

        units = trio.run(looked)
        with_containers = [path for path in there if path.rpartition("/")[2] in (*CONTAINERS, *PODS)]
        found = []
        for name, path in units.items():
            if name in (*CONTAINERS, *PODS) or is_of_containers(path):
                found.append(f"{name} is a container's")
            if not is_units(path):
                found.append(f"{name} at {path} is another systemd's")
            if any(each.startswith(f"{path}/") for each in with_containers if path):
                found.append(f"{name} at {path} holds a container")
            if not path and any(each.endswith(f"/{name}") and is_units(each) for each in there):
                found.append(f"{name} has a group, and seems to rest")
        at = set(units.values()) - {""}
        for path in there:
            above = ["/".join(path.split("/")[:count]) for count in range(2, path.count("/") + 2)]
            is_hosts = path.endswith((".service", ".scope")) and not is_of_containers(path)
            is_in_hole = any(each.rpartition("/")[2] in those.holes() for each in above)
            if (
                is_hosts
                and is_units(path)
                and path.count("/") > 1
                and not is_in_hole
                and not any(each in at for each in above)
            ):
                found.append(f"{path} is not confined")
        return found


@settings(deadline=None)
@example(tree={"my.slice": {PODS[0]: {"my-own.slice": {}}}}, kept={"my-own.slice"})
@given(tree=TREES, kept=st.sets(st.sampled_from(NAMES), max_size=4))
def test_what_is_a_containers_is_no_units_and_all_else_is(tree: Tree, kept: set[str]) -> None:
    """Wherever an engine makes it: below any parent, in a pod, within a user's manager; pinned by hand or not."""
    assert faults(tree, kept) == []


SCOPE: Final = CONTAINERS[0]
"""That of a container which is pinned by hand."""


@pytest.mark.parametrize(
    ("tree", "kept", "module", "name", "planted"),
    [
        ({"my.slice": {SCOPE: {}}}, {SCOPE}, unit_groups, "is_container", lambda _: False),
        ({"my.slice": {SCOPE: {}}}, {"my.slice"}, unit_groups, "holds_container", lambda *_: False),
        ({"my.slice": {"ssh.service": {}}}, {"ssh.service"}, unit_groups, "paths_of", lambda *_: {}),
        (
            {"my.slice": {"user@7.service": {"ssh.service": {}}}},
            {"ssh.service"},
            unit_groups,
            "paths_of",
            lambda *_: {"ssh.service": "/my.slice/user@7.service/ssh.service"},
        ),
        ({"machine.slice": {PODS[0]: {}}}, set(), host_units, "_POD", host_units._CONTAINER),
        ({"user.slice": {SCOPE: {}, "ssh.service": {}}}, set(), host_units, "holds_container", lambda *_: False),
    ],
    ids=[
        "a container is a unit",
        "its parent is",
        "one that runs rests",
        "a user's unit is the host's",
        "a pod is a unit",
        "containers are not seen",
    ],
)
def test_each_planted_fault_breaks_the_law(
    monkeypatch: pytest.MonkeyPatch, tree: Tree, kept: set[str], module: object, name: str, planted: object
) -> None:
    assert faults(tree, kept) == []
    monkeypatch.setattr(module, name, planted)
    assert faults(tree, kept) != []


def test_engines_make_containers_in_these_slices_by_default() -> None:
    """As the trees have them."""
    assert set(PARENTS) <= set(SLICES)
