"""A timer runs if and only if the world wants it."""

from __future__ import annotations

import pytest

from sidecar.decide.facts import Phase, Purpose
from sidecar.decide.orders import StartTimer
from sidecar.decide.world import replace
from state.topology import uniform
from tests.decide.moves.test_starts import strict
from tests.support.decide import strictstarts
from tests.support.decide.dynamic import Dynamic
from tests.support.decide.real import Real
from tests.support.decide.stories import Story, compose, cpus


def lingers(story: Story) -> list[StartTimer]:
    return [order for order in story.given if isinstance(order, StartTimer) and order.purpose is Purpose.LINGER]


def rested(story: Story) -> Real:
    """Return a container that had two exclusive CPUs, and ended."""
    real = story.arrive("rt", 2)
    story.settle()
    story.end(real)
    story.settle()
    return real


def test_a_rest_without_a_grant_is_not_timed() -> None:
    """A reservation that grew took its CPUs: a timer that still fires has no effect."""
    story = Story()
    real = rested(story)
    assert Purpose.LINGER in story.world.timers[real.key]
    story.change_settings(reserved_cpus=cpus("0-6"))
    assert story.granted(real) is None
    assert real.key not in story.world.timers
    story.time_out(0)
    assert not story.known(real).is_lapsed


def test_a_rest_whose_time_was_over_without_a_grant_is_timed_again_with_one() -> None:
    """Its CPUs went offline while the engine was away, and its time ended. Later it is granted CPUs again."""
    story = Story(uniform(cores=4))
    real = story.arrive("rt", 2, starts=False)
    story.settle()
    story.disconnect()
    for cpu in (2, 3):
        story.toggle_cpu(cpu)
    story.read_topology()
    assert story.granted(real) is None
    story.time_out(0)
    for cpu in (2, 3):
        story.toggle_cpu(cpu)
    story.read_topology()
    story.connect()
    assert story.granted(real) is not None
    story.settle()
    story.time_out(0)
    assert story.granted(real) is None


def test_each_rest_is_timed_from_its_beginning() -> None:
    """A start in between, even one that was seen only together with its end, restarts the time."""
    story = Story()
    real = rested(story)
    story.again(real)
    story.end(real)
    _, one, two = lingers(story)
    assert one.number != two.number
    story.time_out(story.timers.index(one))
    assert story.granted(real) == "1-2"
    story.time_out(story.timers.index(two))
    assert story.granted(real) is None


def test_a_run_that_ended_before_it_was_looked_at_restarts_the_time() -> None:
    """Its time stamp says that it ran. A second look at the same rest restarts nothing."""
    story = Story()
    real = rested(story)
    story.start(real)
    story.end(real)
    story.look(real)
    _, one, two = lingers(story)
    story.time_out(story.timers.index(one))
    assert story.granted(real) == "1-2"
    story.time_out(story.timers.index(two))
    assert story.granted(real) is None


def test_what_was_waited_for_is_forgotten_with_what_is_waited_for() -> None:
    """A cooled-down growth and a finished take leave no timer behind."""
    story = Dynamic()
    story.elastic("batch", 1, least=1, most=6)
    running = story.world.timers
    assert [set(each) for each in running.values()] == [{Purpose.COOLDOWN}]
    newcomer = story.elastic("newcomer", 4)
    assert any(Purpose.GRACE in each for each in story.world.timers.values())
    while story.timers:
        story.time_out(0)
        story.settle()
    assert story.granted(newcomer) is not None
    assert story.world.timers == {}


def test_a_rest_that_ends_while_the_engine_is_away_is_remembered() -> None:
    """By a sidecar that is restarted meanwhile, too: a container that never started rests on."""
    story = Story()
    real = story.arrive("rt", 2, starts=False)
    story.settle()
    story.disconnect()
    story.time_out(0)
    assert story.granted(real) == "1-2"
    story.crash([True])
    assert story.known(real).is_lapsed
    assert story.granted(real) is None


def test_a_rest_is_timed_in_full_after_a_grant_was_lost_and_its_time_ended_while_the_engine_was_away() -> None:
    """Else it would keep the CPUs that it is granted next for ever."""
    story = Story()
    real = story.arrive("rt", 2, starts=False)
    story.settle()
    story.disconnect()
    story.hotplug(*range(1, 8))
    assert story.granted(real) is None
    story.time_out(0)
    story.hotplug(*range(1, 8))
    story.connect()
    story.settle()
    assert story.granted(real) == "1-2"
    assert len(lingers(story)) == 2
    story.time_out(0)
    assert story.granted(real) is None


def test_what_went_dead_before_its_first_start_rests_on() -> None:
    """Its removal failed while the engine was away. A sidecar that is restarted meanwhile remembers its rest, too."""
    story = Story()
    real = story.arrive("rt", 2, starts=False)
    story.settle()
    story.disconnect()
    story.time_out(0)
    real.phase = Phase.DEAD
    story.begin_look(real.key)
    story.deliver_look(-1)
    assert story.granted(real) == "1-2"
    story.crash([True])
    assert story.granted(real) is None


def test_what_ran_meanwhile_has_another_rest() -> None:
    """It was started and ended while the engine was away: a sidecar that is restarted times that rest in full."""
    story = Story()
    real = story.arrive("rt", 2, starts=False)
    story.settle()
    story.disconnect()
    story.time_out(0)
    story.start(real)
    story.end(real)
    story.crash([True])
    assert not story.known(real).is_lapsed
    assert story.granted(real) == "1-2"


@pytest.mark.parametrize(("runs_again", "granted"), [(False, None), (True, "1-2")])
def test_a_rest_after_a_run_is_remembered_too(granted: str | None, *, runs_again: bool) -> None:
    """The engine was away when it was over. If the container ran again meanwhile, its next rest is timed in full."""
    story = Story()
    real = story.arrive("rt", 2)
    story.settle()
    story.end(real)
    story.disconnect()
    story.time_out(-1)
    if runs_again:
        story.start(real)
        story.stop(real)
    assert story.granted(real) == "1-2"
    story.crash([True])
    assert story.granted(real) == granted


def test_what_was_only_glanced_at_does_not_rest() -> None:
    """An earlier sidecar may have answered its start, which is under way. Its rest is timed from the first look."""
    story = Story()
    real = strict(story, exclusive=2)
    story.look(real)
    strictstarts.hold(story, real)
    story.crash([True])
    assert story.known(real).view.is_glance
    assert Purpose.LINGER not in story.world.timers.get(real.key, {})
    assert story.granted(real) == "1-2"
    strictstarts.go_on(story, real, fails=True)
    story.look(real)
    assert Purpose.LINGER in story.world.timers[real.key]
    story.time_out(0)
    assert story.granted(real) is None


def test_a_notice_is_what_it_was_announced_to_be_whatever_is_configured_since() -> None:
    """The grace is configured shorter, and the sidecar restarts: what was promised is a minimum."""
    story = Dynamic(grace_seconds=20)
    batch = story.elastic("batch", 2, 1, 7)
    story.over(Purpose.COOLDOWN, batch)
    story.elastic("server", 2)
    assert [timer.seconds for timer in story.waiting(Purpose.GRACE)] == [20]
    assert story.told(batch).deadline_seconds == 20
    story.read_settings(replace(story.settings, grace_seconds=1.0))
    assert story.told(batch).deadline_seconds == 20
    story.crash([True])
    assert [timer.seconds for timer in story.waiting(Purpose.GRACE)] == [20]
    assert story.told(batch).deadline_seconds == 20


def test_a_short_notice_ends_no_longer_one_before_it() -> None:
    """The grace is configured shorter between two takes: each has its own."""
    story = Dynamic(grace_seconds=20)
    batch = story.elastic("batch", 2, 1, 7)
    story.over(Purpose.COOLDOWN, batch)
    story.elastic("server", 2)
    first = story.leaving(batch)
    story.read_settings(replace(story.settings, grace_seconds=1.0))
    story.elastic("other", 1)
    long, short = story.waiting(Purpose.GRACE)
    assert (long.seconds, short.seconds) == (20, 1)
    story.time_out(story.timers.index(short))
    story.settle()
    assert story.leaving(batch) == first
    story.time_out(story.timers.index(long))
    story.settle()
    assert story.leaving(batch) == ""


@pytest.mark.parametrize("linger", [0.0, 1.0])
def test_a_stopped_container_keeps_its_cpus_as_long_as_promised(linger: float) -> None:
    """`linger` is configured shorter after the stop, and the sidecar restarts. After another start, that counts."""
    story = Story(linger_seconds=30)
    real = rested(story)
    story.read_settings(replace(story.settings, linger_seconds=linger))
    assert story.granted(real)
    story.crash([True])
    story.settle()
    assert story.granted(real)
    assert lingers(story)[-1].seconds == 30
    story.again(real)
    story.settle()
    story.end(real)
    assert [timer.seconds for timer in lingers(story)] == [30, 30, 30, *([linger] if linger else [])]


@pytest.mark.parametrize("starts", [True, False])
def test_what_ran_and_ended_while_the_sidecar_was_down_rests_anew(starts: bool) -> None:
    story = Story(linger_seconds=5)
    real = rested(story)
    if starts:
        story.start(real)
        story.stop(real)
    story.settings = replace(story.settings, linger_seconds=30)
    story.crash([True])
    assert lingers(story)[-1].seconds == (30 if starts else 5)


def test_a_created_container_keeps_its_cpus_as_long_as_promised() -> None:
    story = Story(linger_seconds=60)
    real = story.arrive("rt", 2, starts=False)
    story.settle()
    story.settings = replace(story.settings, linger_seconds=0.0)
    story.crash([True])
    story.settle()
    assert story.granted(real)
    assert [timer.seconds for timer in lingers(story)] == [60, 60]


def test_a_vacancy_is_kept_as_long_as_promised() -> None:
    """From the removal on: what was promised to the container at its stop ended with it."""
    story = Story(linger_seconds=60)
    real = story.arrive("rt", 2, labels=compose(service="db"))
    story.settle()
    story.end(real)
    story.read_settings(replace(story.settings, linger_seconds=30.0))
    story.away(real)
    story.read_settings(replace(story.settings, linger_seconds=1.0))
    story.crash([True])
    assert [timer.seconds for timer in lingers(story)] == [60, 60, 30, 30]
