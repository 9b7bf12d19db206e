"""Faults of notices that need other settings, or another machine, between two takes, each planted in an example."""

from __future__ import annotations

from contextlib import suppress

import pytest

from sidecar.decide.facts import Purpose
from sidecar.decide.world import replace
from tests.decide.lawbook import laws, takelaws
from tests.decide.lawbook.dynamic_faults import (
    ends_the_notice_of_earlier_takes,
    tells_the_end_of_the_last_take,
)
from tests.decide.lawbook.refit_faults import gives_notice_of_what_was_never_had
from tests.support.decide.dynamic import Dynamic
from tests.support.decide.stories import where
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


@pytest.mark.parametrize("is_broken", [True, False])
def test_a_deadline_of_the_last_take_alone_is_caught(is_broken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first take ends after 1 s, and the second after 20 s."""
    story = Dynamic(grace_seconds=1)
    batch = story.elastic("batch", 2, 1, 7)
    story.over(Purpose.COOLDOWN, batch)
    story.elastic("server", 2)
    story.read_settings(replace(story.settings, grace_seconds=20.0))
    if is_broken:
        tells_the_end_of_the_last_take(monkeypatch)
    with suppress(AssertionError):
        story.elastic("other", 1)
    assert bool(breaches([takelaws.DEADLINES], story, When.STEP)) == is_broken


@pytest.mark.parametrize("is_broken", [True, False])
def test_a_notice_of_what_another_is_still_leaving_is_caught(is_broken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last CPU goes offline, so the kernel lets it run on those too that were granted to it and not left yet."""
    story = Dynamic(shared_min=2)
    story.elastic("batch", 2, most=6)
    late = story.elastic("late", 3, least=1)
    assert (story.granted(late), where(late)) == ("5-6", "0")
    if is_broken:
        gives_notice_of_what_was_never_had(monkeypatch)
    story.toggle_cpu(0)
    story.look(late)
    with suppress(AssertionError):
        story.read_topology()
    assert story.granted(late) == "5"
    assert bool(breaches([laws.NEVER_HAD], story, When.STEP)) == is_broken
