"""Whose file is written anew before orders leave, because they may let another container in beside it."""

from __future__ import annotations

import pytest

from sidecar.decide.orders import ApplyCpuset, Update
from sidecar.decide.settings import TenantRight
from sidecar.decide.world import replace, without
from sidecar.projection.opened import gone, joined
from tests.support.decide.stories import Story, cpus


@pytest.mark.parametrize(("pin", "back", "expected"), [("0,7", "1-2", True), ("0,7", "0,7", False), ("", "0-7", False)])
def test_an_owner_is_told_before_one_that_rests_is_put_back_to_its_pin(pin: str, back: str, *, expected: bool) -> None:
    """It counts where it would start, and the owner stops being told that it is alone before that can be there. One
    without a pin counts only while it runs.
    """
    story = Story(may=(TenantRight.PIN,))
    owner, other = story.arrive("owner", 2), story.arrive("other", starts=False, cpuset=pin)
    story.settle()
    order = ApplyCpuset(other.key, 99, Update(cpus=cpus(back)), live=False)
    assert list(joined(story.world, [order])) == ([owner.key] if expected else [])


def test_what_an_owner_is_given_itself_lets_nobody_in() -> None:
    """Others have left it before it is sent there."""
    story = Story()
    owner, second = story.arrive("owner", 2), story.arrive("second", 2)
    story.settle()
    order = ApplyCpuset(second.key, 99, Update(cpus=cpus("1-4")), live=True)
    assert owner.key in story.world.state.assignments
    assert list(joined(story.world, [order])) == []


def test_an_owner_that_is_gone_is_withdrawn_with_the_decision_that_ends_its_grant() -> None:
    """Whether it was known, or is one that the books alone had; not one that only rests, or was looked at again."""
    story = Story()
    owner, other = story.arrive("owner", 2), story.arrive("other", 2)
    story.settle()
    before = story.world
    unseen = replace(before, containers=without(before.containers, owner.key))
    story.away(owner)
    after = story.world
    assert owner.key not in after.state.assignments
    assert list(gone(before, after)) == list(gone(unseen, after)) == [owner.key]
    assert list(gone(after, after)) == list(gone(before, unseen)) == []
    assert other.key in after.state.assignments
