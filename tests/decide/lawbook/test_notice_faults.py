"""Faults of notices that need a change of settings between two takes, each planted in an example."""

from __future__ import annotations

from contextlib import suppress

import pytest

from sidecar.decide.facts import Purpose
from sidecar.decide.world import replace
from tests.decide.lawbook import laws
from tests.decide.lawbook.dynamic_faults import ends_the_notice_of_earlier_takes
from tests.support.decide.dynamic import Dynamic
from tests.support.laws import When, breaches


@pytest.mark.parametrize("is_broken", [True, False])
def test_a_short_notice_that_ends_a_longer_one_is_caught(is_broken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Dynamic(grace_seconds=20)
    batch = story.elastic("batch", 2, 1, 7)
    story.over(Purpose.COOLDOWN, batch)
    story.elastic("server", 2)
    story.read_settings(replace(story.settings, grace_seconds=1.0))
    story.elastic("other", 1)
    _, short = story.waiting(Purpose.GRACE)
    if is_broken:
        ends_the_notice_of_earlier_takes(monkeypatch)
    with suppress(AssertionError):
        # A story checks all laws itself.
        story.time_out(story.timers.index(short))
    assert bool(breaches([laws.NOTICE], story, When.STEP)) == is_broken
