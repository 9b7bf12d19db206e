"""A lost order may land just before the next one, so the next order repeats the limits."""

from __future__ import annotations

from tests.support.decide.stories import GIGA, Story, cpus


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
