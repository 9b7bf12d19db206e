"""A lost order may land just before the next one, so the next order repeats the limits."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sidecar.decide.container.grip import Guarded
from sidecar.decide.moves.settled import is_quota_lifted, is_settled
from sidecar.projection.projection_of import projection_of
from sidecar.simulation.model_limits import Limits
from tests.support.decide import strictstarts
from tests.support.decide.real import Real
from tests.support.decide.stories import GIGA, Story, cpus, static


def test_a_limit_that_a_lost_order_would_bring_back_is_lifted_again() -> None:
    """The shared pool's order, with the limit, is lost; it lands after the grant, and before the grant's order."""
    story = Story()
    real = story.create({"cpuset.exclusive": "2"}, quota=200_000)
    story.start(real)
    story.begin_look(real.key)
    while story.go_on():
        pass
    assert (real.effective, real.cpu_quota) == (cpus("1-2"), -1)
    # Another tool moves it, so that an order is due; that is lost, and lands late.
    story.tamper(real, cpus("0-7"))
    story.begin_look(real.key)
    story.deliver_look(0)
    story.deliver(0, "lost-late")
    assert story.late[0].update.cpu_quota is None
    while story.go_on():
        pass
    restated = [order.update.cpu_quota for order in story.given if hasattr(order, "update") and order.update]
    assert restated[-1] == -1
    assert (real.effective, real.cpu_quota) == (cpus("1-2"), -1)


def test_a_limit_in_cpus_is_said_again_too() -> None:
    """The same, for a limit that was given in CPUs; the engine accepts at most as many as it has."""
    story = Story()
    real = story.create({"cpuset.exclusive": "2"}, nano_cpus=2 * GIGA)
    story.start(real)
    story.begin_look(real.key)
    while story.go_on():
        pass
    story.tamper(real, cpus("0-7"))
    story.begin_look(real.key)
    story.deliver_look(0)
    story.deliver(0, "lost-late")
    while story.go_on():
        pass
    restated = [order.update.nano_cpus for order in story.given if hasattr(order, "update") and order.update]
    assert restated[-1] == 8 * GIGA


@pytest.mark.parametrize(
    ("had", "limit"),
    [({}, {"quota": 5_000}), ({}, {"nano_cpus": GIGA // 2}), ({"nano_cpus": 2 * GIGA}, {"nano_cpus": GIGA // 2})],
    ids=["a quota", "CPUs", "fewer CPUs than before"],
)
def test_a_limit_that_people_set_while_it_has_its_cpus_is_lifted_too(
    had: dict[str, int], limit: dict[str, int]
) -> None:
    """It is not alone until then: its quota would throttle it, whether or not it had one before."""
    story = Story()
    real = story.create({"cpuset.exclusive": "2"}, **had)
    story.start(real)
    story.begin_look(real.key)
    while story.go_on():
        pass
    story.update(real, Limits(nano_cpus=limit.get("nano_cpus", 0), cpu_quota=limit.get("quota", 0)))
    story.look(real)
    container = story.world.containers[real.key]
    assert projection_of(story.world, container).alone is False
    assert not is_quota_lifted(story.world, container, story.world.state.assignments[real.key])
    while story.go_on():
        pass
    assert (real.cpu_quota, real.nano_cpus) in ((-1, 0), (0, 8 * GIGA))
    assert projection_of(story.world, story.world.containers[real.key]).alone


@pytest.mark.parametrize("outcome", ["outstanding", "lost-late"])
@pytest.mark.parametrize("limit", [{"nano_cpus": GIGA}, {"quota": 100_000}])
def test_a_record_that_is_not_over_lifts_no_limit(limit: dict[str, int], outcome: str) -> None:
    """An engine shows an update before the kernel has it: until then what the hand moved is throttled there."""
    story = Story()
    real = story.create({"cpuset.exclusive": "1"}, **limit)
    story.start(real)
    story.look(real)
    index = next(at for at, order in enumerate(story.flight) if order.container == real.key)
    story.land(index)
    story.look(real)
    if outcome != "outstanding":
        story.deliver(index, outcome)
    container = story.world.containers[real.key]
    guarded = replace(container, grip=Guarded(story.world.state.assignments[real.key].cpus))
    assert (real.nano_cpus, real.cpu_quota) != (real.had.nano_cpus, real.had.cpu_quota)
    assert not is_settled(story.world, guarded)
    while story.go_on():
        pass
    assert projection_of(story.world, story.world.containers[real.key]).alone


def started(**limit: int) -> tuple[Story, Real]:
    """Return a container with a grant and a limit, whose runtime has lifted that at its start: no order has."""
    story = Story()
    real = story.create({"cpuset.exclusive": "2"}, **limit)
    real.asks = True
    strictstarts.hold(story, real)
    strictstarts.go_on(story, real, fails=False)
    assert (str(real.effective), story.updates(real)) == ("1-2", [])
    return story, real


def limits_ordered(story: Story, real: Real) -> list[tuple[int | None, int | None]]:
    return [(update.nano_cpus, update.cpu_quota) for update in story.updates(real)]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("limit", "restored"), [({"nano_cpus": 2 * GIGA}, (2 * GIGA, None)), ({"quota": 200_000}, (None, 200_000))]
)
def test_a_limit_lifted_at_a_start_is_restored_though_the_engine_shows_it(
    limit: dict[str, int], restored: tuple[int | None, int | None], *, restarts: bool
) -> None:
    """The grant ends before any order, and the sidecar may be restarted just then. It is written once."""
    story, real = started(**limit)
    if restarts:
        story.settings = static(reserved_cpus=cpus("0-6"))
        story.crash([True])
    else:
        story.change_settings(reserved_cpus=cpus("0-6"))
        story.look(real)
    story.settle()
    assert story.granted(real) is None
    assert limits_ordered(story, real) == [restored]
    story.take_inventory()
    story.settle()
    assert limits_ordered(story, real) == [restored]


def test_a_limit_that_the_engine_shows_lifted_is_restored_once() -> None:
    """The grant ends after its order: nothing is written twice."""
    story, real = started(nano_cpus=2 * GIGA)
    story.look(real)
    story.settle()
    story.change_settings(reserved_cpus=cpus("0-6"))
    story.settle()
    story.crash([True])
    story.settle()
    assert limits_ordered(story, real) == [(8 * GIGA, None), (2 * GIGA, None)]
