"""When the time of a notice begins, and what is announced of CPUs that are still on their way."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sidecar.decide.container.terms import Terms
from sidecar.decide.facts import Purpose, ResizeRequested
from sidecar.decide.world import replace
from sidecar.status.deadlines import Deadlines
from sidecar.status.describe import status_of
from tests.support.decide.dynamic import Dynamic, elastic_labels
from tests.support.decide.stories import where


def test_a_grace_of_its_own_is_what_it_gets() -> None:
    story = Dynamic(grace_seconds=5)
    short = story.elastic("short", 1, 1, 4, grace="500ms")
    long = story.elastic("long", 1, 1, 4)
    story.elastic("web", 3)
    assert {timer.container: timer.seconds for timer in story.waiting(Purpose.GRACE)} == {short.key: 0.5, long.key: 5}


def test_no_notice_is_longer_than_the_owner_allows() -> None:
    """So long at most a neighbour keeps an arrival from its CPUs; the owner's own word for all others is not cut."""
    story = Dynamic(grace_seconds=30, longest_notice_seconds=3)
    long = story.elastic("long", 1, 1, 4, grace="60s")
    usual = story.elastic("usual", 1, 1, 3)
    story.settle()
    grants = story.world.state.assignments
    assert [Terms(story.world.settings, grants[real.key].demand).grace_seconds for real in (long, usual)] == [3, 30]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(("first", "second"), [(20.0, 1.0), (1.0, 20.0)])
def test_of_takes_of_different_lengths_the_shortest_is_the_deadline(
    first: float, second: float, *, restarts: bool
) -> None:
    """A workload is told of the first CPUs to go; people are told until when it may use any."""
    story = Dynamic(grace_seconds=first)
    batch = story.elastic("batch", 2, 1, 7)
    story.over(Purpose.COOLDOWN, batch)
    story.elastic("server", 2)
    story.read_settings(replace(story.settings, grace_seconds=second))
    story.elastic("other", 1)
    if restarts:
        story.crash([])
        story.take_inventory()
        story.settle()
    assert [timer.seconds for timer in story.waiting(Purpose.GRACE)] == [first, second]
    assert story.told(batch).deadline_seconds == 1
    (told_of,) = [each for each in status_of(story.world).containers if each.name == "batch"]
    assert told_of.leaving is not None
    assert told_of.leaving.notice_seconds == 20
    assert any("for 20 s at most" in each for each in told_of.explanation)
    ends = Deadlines(lambda: datetime(2000, 1, 1, tzinfo=UTC)).of(story.world)
    assert list(ends.values()) == ["2000-01-01T00:00:20.000+00:00"]


def test_the_grace_of_what_is_only_just_coming_begins_when_it_can_be_told() -> None:
    """The CPUs are no longer wanted while the order that adds them is outstanding: they arrive, they are announced as
    leaving, and only then their time begins.
    """
    story = Dynamic(cooldown_seconds=0)
    batch = story.elastic("batch", 1, 1, 4, scale="manual")
    story.feed(ResizeRequested(batch.key, 4))
    [grown] = story.flight
    story.feed(ResizeRequested(batch.key, 1))
    assert story.flight == [grown]
    assert (str(story.told(batch).cpus), str(story.told(batch).leaving)) == ("1", "")
    assert story.waiting(Purpose.GRACE) == []
    story.settle()
    told = story.told(batch)
    assert (str(told.cpus), str(told.leaving), told.deadline_seconds) == ("1-4", "2-4", 2.0)
    story.over(Purpose.GRACE, batch)
    assert (where(batch), story.leaving(batch)) == ("1", "")


def test_a_later_take_does_not_overtake_one_that_cannot_be_told_yet() -> None:
    """The first take is of CPUs that are still on their way; the second, of other CPUs, begins with it, and neither is
    lost.
    """
    story = Dynamic(cooldown_seconds=0)
    batch = story.elastic("batch", 1, 1, 5, scale="manual")
    story.resized(batch, 3)
    story.feed(ResizeRequested(batch.key, 5))
    story.feed(ResizeRequested(batch.key, 3))
    story.feed(ResizeRequested(batch.key, 2))
    assert (story.leaving(batch), str(story.told(batch).leaving)) == ("3-5", "3")
    assert story.waiting(Purpose.GRACE) == []
    story.settle()
    assert str(story.told(batch).leaving) == "3-5"
    assert len(story.waiting(Purpose.GRACE)) == 2
    story.over(Purpose.GRACE, batch)
    assert (where(batch), story.leaving(batch)) == ("1-3", "3")
    story.over(Purpose.GRACE, batch)
    assert (where(batch), story.leaving(batch)) == ("1-2", "")


def test_no_container_is_settled_on_more_than_its_files_name() -> None:
    """A look that was overtaken by an order leaves a doubt: until the next look, added CPUs are not announced, and the
    container is not called settled.
    """
    story = Dynamic(cooldown_seconds=0)
    batch = story.elastic("batch", 1, 1, 4, scale="manual")
    story.feed(ResizeRequested(batch.key, 4))
    story.look(batch)
    story.deliver(0, "ok")
    told = story.told(batch)
    assert (str(told.cpus), told.settled) == ("1", False)
    story.settle()
    told = story.told(batch)
    assert (str(told.cpus), told.settled) == ("1-4", True)


def test_what_was_never_written_to_a_created_container_is_not_written_after_it_was_taken() -> None:
    """The order that brings all its CPUs fails, and meanwhile another container is granted some of them: the next order
    is without these.
    """
    story = Dynamic(cooldown_seconds=0)
    batch = story.arrive("batch", 4, starts=False, labels=elastic_labels(1, 4, scale="manual"))
    story.deliver(0, "failed")
    story.feed(ResizeRequested(batch.key, 1))
    assert story.leaving(batch) == "2-4"
    story.elastic("web", 5)
    story.retry(0)
    story.settle()
    assert [str(update.cpus) for update in story.updates(batch)] == ["1-4", "1"]
    assert (batch.cpuset, story.leaving(batch)) == ("1", "")


def test_a_created_container_keeps_what_was_written_until_its_notice_is_over() -> None:
    """It may start at any moment, and would be moved at once otherwise."""
    story = Dynamic(cooldown_seconds=0)
    batch = story.arrive("batch", 4, starts=False, labels=elastic_labels(1, 4, scale="manual"))
    story.settle()
    story.feed(ResizeRequested(batch.key, 1))
    assert story.leaving(batch) == "2-4"
    assert story.flight == []
    story.over(Purpose.GRACE, batch)
    assert (batch.cpuset, story.leaving(batch)) == ("1", "")


def test_nothing_is_leaving_that_was_granted_and_not_entered() -> None:
    """A created container gives its CPUs up, asks for them again at its start, and another was granted them between."""
    story = Dynamic()
    batch = story.elastic("batch", 1, 1, 4)
    web = story.arrive("web", 5, starts=False)
    story.settle()
    story.over(Purpose.GRACE, batch)
    assert (where(batch), story.leaving(batch)) == ("1-2", "")
    rest = [each for each in story.waiting(Purpose.LINGER) if each.container == web.key][-1]
    story.time_out(story.timers.index(rest))
    assert (str(story.grant(batch).cpus), where(batch)) == ("1-4", "1-2")
    story.again(web)
    assert (story.granted(web), str(story.grant(batch).cpus), story.leaving(batch)) == ("3-7", "1-2", "")
