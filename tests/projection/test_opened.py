"""Whose file is written anew before orders leave, because they may let another container in beside it."""

from __future__ import annotations

import pytest

from sidecar.decide.orders import ApplyCpuset, Update
from sidecar.decide.settings import TenantRight
from sidecar.projection.opened import joined
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
