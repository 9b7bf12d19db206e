"""A pod that is pinned to CPUs of another one: those in it are moved off, and it is as before after a release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.orders import Answers, Update
from sidecar.failures import CgroupClosed
from sidecar.hand.group_names import ParentKind
from sidecar.hand.groups import GroupTable, Parent
from sidecar.hand.pinned_pods import is_pod
from state.cpuset import CPUSet
from tests.support.hand.stages import FileStage, until, v1_stage, v2_stage

POD, ONE, TWO = "c" * 64, "a" * 64, "b" * 64
POOL, OWN = CPUSet.of(0), CPUSet.of(1)
ANSWERS = Answers(others=POOL, owned=OWN)


def view_of(id: str) -> ContainerView:
    """Return what an engine tells of a running container."""
    return ContainerView(id=id, name=id[:4], phase=Phase.RUNNING)


@pytest.fixture
def v1(tmp_path: Path) -> Iterator[FileStage]:
    """Yield the kernel's cpusets with Podman's parent and a pod that is pinned to the owner's CPU, and a hand."""
    with v1_stage(tmp_path, None) as stage:
        stage.make("/libpod_parent")
        stage.make(f"/libpod_parent/{POD}")
        stage.overwrite(f"/libpod_parent/{POD}", "1")
        stage.begin()
        stage.hand.hold(ANSWERS)
        yield stage


def in_pod(id: str) -> str:
    """Return the path of a container's group in the pod."""
    return f"/libpod_parent/{POD}/libpod-{id}"


def test_an_order_moves_what_is_in_it_and_a_birth_does_not(v1: FileStage) -> None:
    """Whether those in it may be pinned there is not known at their birth."""
    v1.make(in_pod(ONE))
    v1.make(in_pod(TWO))
    until(lambda: len(v1.hand._table.by_id) == 2)
    assert (v1.cpus(f"/libpod_parent/{POD}"), v1.cpus(in_pod(ONE))) == ("1", "1")
    assert v1.hand.write(view_of(ONE), Update(cpus=POOL)) == POOL
    assert v1.cpus(f"/libpod_parent/{POD}") == "0-1"
    until(lambda: v1.cpus(in_pod(TWO)) == "0")


def test_orders_for_many_widen_it_as_well(v1: FileStage) -> None:
    for each in (ONE, TWO):
        v1.make(in_pod(each))
    until(lambda: len(v1.hand._table.by_id) == 2)
    assert v1.hand.write_many([(view_of(each), Update(cpus=POOL)) for each in (ONE, TWO)]) == [POOL, POOL]


def test_it_is_narrowed_again_with_the_last_that_is_put_back(v1: FileStage) -> None:
    """As the kernel demands."""
    v1.make(in_pod(ONE))
    until(lambda: len(v1.hand._table.by_id) == 1)
    v1.hand.write(view_of(ONE), Update(cpus=POOL))
    v1.hand.hold(Answers(others=None))
    assert v1.cpus(f"/libpod_parent/{POD}") == "0-1"
    v1.overwrite(in_pod(ONE), "1")
    v1.hand.hold(Answers(others=None))
    assert (v1.cpus(f"/libpod_parent/{POD}"), v1.cpus(in_pod(ONE))) == ("1", "1")


def test_nothing_else_is_widened(v1: FileStage) -> None:
    """A parent that people made, and pinned, is theirs."""
    v1.make("/tenants")
    v1.overwrite("/tenants", "1")
    v1.hand.hold(ANSWERS, parents=("/tenants",))
    v1.make(path := f"/tenants/libpod-{ONE}")
    until(lambda: ONE in v1.hand._table.by_id)
    with pytest.raises(CgroupClosed):
        v1.hand.write(view_of(ONE), Update(cpus=POOL))
    assert (v1.cpus("/tenants"), v1.cpus(path)) == ("1", "1")


def test_on_version_2_it_is_widened_too(tmp_path: Path) -> None:
    """There the kernel takes the line of one in it, and runs it where the pod is."""
    pod = f"/machine.slice/machine-libpod_pod_{POD}.slice"
    with v2_stage(tmp_path, None) as stage:
        stage.make("/machine.slice")
        stage.make(pod)
        stage.overwrite(pod, "1")
        stage.make(f"{pod}/libpod-{ONE}.scope")
        stage.begin()
        stage.hand.hold(ANSWERS)
        stage.hand.write_many([(view_of(ONE), Update(cpus=POOL))])
        assert (stage.cpus(pod), stage.cpus(f"{pod}/libpod-{ONE}.scope")) == ("0-1", "0")
        stage.hand.hold(Answers(others=None))
        assert stage.cpus(pod) == "1"


@pytest.mark.parametrize(
    ("path", "above", "is_so"),
    [
        (f"/libpod_parent/{POD}", ParentKind.PODS, True),
        (f"/machine.slice/machine-libpod_pod_{POD}.slice", ParentKind.GUESTS, True),
        (f"/docker/{POD}", ParentKind.OWN, False),
        ("/libpod_parent/side", ParentKind.PODS, False),
        ("/docker", None, False),
    ],
)
def test_what_a_pod_is_called(path: str, above: ParentKind | None, is_so: bool) -> None:
    table, at = GroupTable(), path.rpartition("/")[0]
    if above:
        table.parents[at] = Parent(at, above, -1)
    assert is_pod(table, Parent(path, ParentKind.OWN, -1)) is is_so
