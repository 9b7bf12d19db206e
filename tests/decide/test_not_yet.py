"""What the decisions do not do yet: each is known from a random history, and says so when it is done."""

from __future__ import annotations

import pytest

from sidecar.decide.facts import EngineConnected, EngineInfo
from sidecar.decide.orders import ApplyCpuset
from tests.support.decide.real import ENGINE
from tests.support.decide.stories import Story

pytestmark = pytest.mark.xfail(strict=True)


def test_a_pinned_member_that_moves_with_its_group_is_told_where_it_is() -> None:
    """The group's new CPUs move it, and no event says so: it is looked at before the next inventory."""
    story = Story(shared_slice="pool.slice")
    member = story.create({}, cpuset="3", is_member=True)
    story.start(member)
    rt = story.arrive("rt", 3)
    story.look(member)
    story.settle()
    story.take_inventory()
    assert str(member.effective) == "0,4-7"
    story.remove(rt)
    story.begin_look(rt.key)
    story.settle()
    assert str(member.effective) == "3"
    assert story.world.sure_of(story.known(member)) == member.effective


def test_what_an_older_inventory_brings_back_is_not_ordered_at_once() -> None:
    """Its last order was answered with its being gone, after that inventory began: it is asked about, not ordered."""
    story = Story()
    rt = story.unseen("rt", 2)
    story.look(rt)
    story.disconnect()
    story.feed(EngineConnected(EngineInfo(name=ENGINE, version="1", api_version="1.41", ncpu=8), story.ticket()))
    story.is_reached = True
    story.begin_inventory()
    story.remove(rt)
    story.deliver(0, "ok")
    given = len(story.given)
    story.deliver_inventory(0)
    assert not [order for order in story.given[given:] if isinstance(order, ApplyCpuset)]
