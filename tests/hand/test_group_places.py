"""The name of a group stands for a container where that is, on each hand, and elsewhere for nobody."""

from __future__ import annotations

import msgspec
import pytest

from sidecar.decide.orders import Update
from sidecar.failures import CgroupGone
from state.cpuset import EMPTY
from tests.hand.test_contract import ANSWERS, LAST, ONE, OWN, POOL, THREE, TWO, at, begun, born, has, view_of
from tests.support.hand.stages import Stage
from tests.support.keys import docker

ELSEWHERE = msgspec.structs.replace(
    ANSWERS,
    own={docker(TWO): OWN, docker(THREE): OWN, docker(LAST): None},
    named={docker(THREE): "/tenants", docker(LAST): f"/docker/{ONE}"},
)
"""Of one container that names no parent, one that does, and one that is left alone and inside another one."""


def test_a_name_elsewhere_stands_for_nobody(stage: Stage) -> None:
    """A tenant names a parent that is called like another container: that one's CPUs and freedom are its own."""
    begun(stage, answers=None)
    stage.hand.hold(ELSEWHERE, ["/tenants"])
    stage.make("/tenants")
    for path in (f"/tenants/{TWO}", at(THREE), at(LAST)):
        stage.make(path)
        has(stage, path, "0")
        assert born(stage) == ("", path)
        stage.overwrite(path, "0-1")
        has(stage, path, "0")
    for id in (TWO, THREE, LAST):
        with pytest.raises(CgroupGone):
            stage.hand.write(view_of(id), Update(cpus=OWN))
        stage.hand.release(id)
    stage.hand.hold(msgspec.structs.replace(ELSEWHERE, others=OWN, owned=EMPTY), ["/tenants"])
    assert [stage.cpus(path) for path in (f"/tenants/{TWO}", at(THREE), at(LAST))] == ["1", "1", "1"]


def test_a_name_stands_for_a_container_where_that_is(stage: Stage) -> None:
    begun(stage, answers=None)
    stage.hand.hold(ELSEWHERE, ["/tenants"])
    stage.make("/tenants")
    for id, path in ((TWO, at(TWO)), (THREE, f"/tenants/{THREE}")):
        stage.make(path)
        has(stage, path, "1")
        assert born(stage) == (id, path)
        assert stage.hand.write(view_of(id), Update(cpus=POOL)) == POOL


def test_one_whose_place_is_not_known_may_be_anywhere(stage: Stage) -> None:
    """It was only glanced at, or the hand has not been told of it."""
    begun(stage, answers=None)
    stage.hand.hold(msgspec.structs.replace(ELSEWHERE, unplaced=frozenset({docker(TWO)})), ["/tenants"])
    stage.make("/tenants")
    for path in (at(TWO), f"/tenants/{TWO}"):
        stage.make(path)
        has(stage, path, "1")
        assert born(stage) == (TWO, path)
    stage.make(f"/tenants/{ONE}")
    assert born(stage) == (ONE, f"/tenants/{ONE}")


def test_what_is_known_later_of_a_place_counts_from_then_on(stage: Stage) -> None:
    """The group was there before its name was known to be a container's that is elsewhere."""
    begun(stage, answers=None)
    stage.hand.hold(msgspec.structs.replace(ELSEWHERE, unplaced=frozenset({docker(TWO)})), ["/tenants"])
    stage.make("/tenants")
    stage.make(f"/tenants/{TWO}")
    has(stage, f"/tenants/{TWO}", "1")
    assert born(stage) == (TWO, f"/tenants/{TWO}")
    assert stage.hand.write(view_of(TWO), Update(cpus=OWN)) == OWN
    stage.hand.hold(ELSEWHERE, ["/tenants"])
    assert stage.cpus(f"/tenants/{TWO}") == "0"
