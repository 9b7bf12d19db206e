"""A redeploy keeps its CPUs: the successor takes over what its predecessor held, and no other container loses by it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sidecar.decide.facts import Purpose
from sidecar.decide.placement.options import STRICT_CPU_RESERVATION
from sidecar.decide.settings import PolicyName
from state.refusal import RefusalCode
from state.topology import uniform
from tests.support.decide import strictstarts
from tests.support.decide.real import Real
from tests.support.decide.stories import Story, compose, where

WAIT = {"cpuset.on-shortage": "wait"}


def task(slot: str, id: str) -> dict[str, str]:
    """Return the labels of a task of Swarm."""
    return {"com.docker.swarm.task.id": id, "com.docker.swarm.task.name": f"{slot}.{id}"}


def gone(story: Story, real: Real) -> None:
    """Stop and remove it, as a redeploy does."""
    story.end(real)
    story.away(real)


def vacancy_over(story: Story) -> None:
    """End all timers of rests and vacancies."""
    while lingering := [n for n, timer in enumerate(story.timers) if timer.purpose is Purpose.LINGER]:
        story.time_out(lingering[0])
    story.settle()


@pytest.mark.parametrize("policy", [PolicyName.STATIC, PolicyName.DYNAMIC])
def test_a_recreated_container_of_compose_gets_the_same_cpus(policy: PolicyName) -> None:
    """Created beside the old one, which is removed before the new one starts; nothing else moves."""
    story = Story(policy=policy)
    plain = story.arrive("plain")
    story.arrive("db", 2, labels=compose(service="db"))
    old = story.arrive("old", 4, labels=compose())
    story.settle()
    new = story.arrive("new", 4, labels=compose(), starts=False)
    assert story.refusal(new).code is RefusalCode.AWAITS_PLACE
    assert story.why_refused(new) == "it replaces old, and gets CPUs 3-6 when that is gone"
    moves = len(story.updates(plain))
    gone(story, old)
    story.settle()
    assert where(new) == "stopped 3-6"
    story.again(new)
    story.settle()
    assert (where(new), story.is_settled(new)) == ("3-6", True)
    assert len(story.updates(plain)) == moves


@pytest.mark.parametrize(("floor", "granted"), [(2, "1,3"), (3, None)])
def test_a_successor_does_not_get_what_another_is_pinned_to_by_hand(floor: int, granted: str | None) -> None:
    """Nor is it told that it will."""
    story = Story(uniform(cores=4), policy=PolicyName.DYNAMIC)
    labels = compose() | {"cpuset.min": str(floor)}
    old = story.arrive("old", 3, labels=labels)
    story.settle()
    stranger = story.arrive("pinned", cpuset="2")
    story.end(stranger)
    new = story.arrive("new", 3, labels=labels, starts=False)
    told = "gets CPUs 1,3" if granted else "asks again"
    assert story.why_refused(new) == f"it replaces old, and {told} when that is gone"
    gone(story, old)
    assert story.granted(new) == granted


def test_a_smaller_successor_is_told_what_it_will_get() -> None:
    """And not all that its predecessor has."""
    story = Story()
    old = story.arrive("old", 5, labels=compose())
    new = story.arrive("new", 2, labels=compose(), starts=False)
    assert story.why_refused(new) == "it replaces old, and gets CPUs 1-2 when that is gone"
    gone(story, old)
    story.settle()
    assert story.granted(new) == "1-2"


@pytest.mark.parametrize("policy", [PolicyName.STATIC, PolicyName.DYNAMIC])
def test_a_successor_that_can_never_be_served_waits_for_nothing(policy: PolicyName) -> None:
    """It is told so at once, before its start as well as at it."""
    story = Story(policy=policy)
    story.arrive("old", 2, labels=compose())
    new = story.arrive("new", 8, labels=compose(), starts=False)
    assert "this machine can give 7 at most" in story.why_refused(new)
    story.again(new)
    assert "this machine can give 7 at most" in story.why_refused(new)


def test_a_successor_waits_for_its_place_even_if_other_cpus_are_free() -> None:
    """So that shared containers are not moved twice; once it starts it asks like any other."""
    story = Story()
    old = story.arrive("old", 2, labels=compose())
    new = story.arrive("new", 2, labels=compose(), starts=False)
    story.settle()
    assert story.granted(new) is None
    story.again(new)
    story.settle()
    assert (story.granted(old), story.granted(new)) == ("1-2", "3-4")


def test_a_rolling_update_that_starts_the_new_task_first_shares_no_cpu() -> None:
    """The new task runs in the shared pool until the old one has ended; it is not stopped for that."""
    story = Story()
    old = story.arrive("web.1.a", 5, labels=task("web.1", "a"))
    new = story.arrive("web.1.b", 5, labels={**task("web.1", "b"), "cpuset.on-shortage": "stop"})
    story.settle()
    assert (where(old), where(new), story.stops()) == ("1-5", "0,6-7", [])
    story.end(old)
    story.settle()
    assert where(new) == "1-5"


def test_a_task_that_ended_leaves_its_place_to_the_next_one_of_its_slot() -> None:
    """And not to one that waits: the new task comes a moment later."""
    story = Story()
    old = story.arrive("web.1.a", 5, labels=task("web.1", "a"))
    waiting = story.arrive("waiting", 5, labels=WAIT)
    story.end(old)
    story.settle()
    assert story.granted(waiting) is None
    new = story.arrive("web.1.b", 5, labels=task("web.1", "b"))
    assert (story.granted(new), story.granted(waiting)) == ("1-5", None)


def test_a_vacancy_without_a_successor_goes_to_the_queue_after_a_while() -> None:
    story = Story()
    old = story.arrive("old", 5, labels=compose())
    waiting = story.arrive("waiting", 5, labels=WAIT)
    gone(story, old)
    story.settle()
    assert story.granted(waiting) is None
    vacancy_over(story)
    assert story.granted(waiting) == "1-5"
    assert story.world.state.vacancies == {}


@pytest.mark.parametrize(("waits", "granted"), [(True, (None, "1-5")), (False, ("1-5", None))])
def test_a_newcomer_ends_a_vacancy_and_overtakes_no_container(waits: bool, granted: tuple[str | None, ...]) -> None:
    """CPUs are kept against the queue alone, and then in its order."""
    story = Story()
    old = story.arrive("old", 5, labels=compose())
    waiting = story.arrive("waiting", 5, labels=WAIT) if waits else None
    gone(story, old)
    newcomer = story.arrive("newcomer", 5)
    story.settle()
    assert (story.granted(newcomer), story.granted(waiting) if waiting else None) == granted


def test_what_is_asked_again_in_vain_ends_no_vacancy_of_a_name() -> None:
    """It keeps no CPU from any container: the next one of this name gets the same CPUs, not the first free ones."""
    story = Story()
    first, old, _ = story.arrive("first", 1), story.arrive("old", 2), story.arrive("last", 2)
    large = story.unseen("large", 6, starts=False)
    assert refuses(story, large)
    gone(story, first)
    vacancy_over(story)
    gone(story, old)
    assert story.refusal(large).code is RefusalCode.NOT_ENOUGH
    assert story.granted(story.arrive("old", 2)) == "2-3"


def test_one_that_shares_until_its_next_start_keeps_no_vacancy_from_others() -> None:
    """It was refused for lack of CPUs, and promised none: it succeeds nobody before it starts again."""
    story = Story()
    large = story.arrive("large", 7)
    old = story.arrive("old", 1, labels=compose(), starts=False)
    new = story.arrive("new", 1, labels=compose())
    gone(story, large)
    story.settle()
    assert (where(old), story.refusal(new).code) == ("stopped 1", RefusalCode.NOT_ENOUGH)
    story.away(old)
    story.settle()
    late = story.arrive("late", 7)
    story.settle()
    assert (where(late), where(new)) == ("1-7", "0")


@pytest.mark.parametrize("size", [3, 5, 6])
def test_a_successor_with_another_number_gets_what_is_right_for_it(size: int) -> None:
    """Fewer of the same CPUs, or the same and more; a waiting container is not served from them meanwhile."""
    story = Story()
    old = story.arrive("old", 5, labels=compose())
    waiting = story.arrive("waiting", 5, labels=WAIT)
    new = story.arrive("new", size, labels=compose(), starts=False)
    gone(story, old)
    story.settle()
    assert story.granted(new) == f"1-{size}"
    assert story.granted(waiting) is None


def test_a_successor_that_asks_for_too_much_leaves_the_place_to_the_queue() -> None:
    story = Story()
    old = story.arrive("old", 5, labels=compose())
    waiting = story.arrive("waiting", 5, labels=WAIT)
    new = story.arrive("new", 8, labels=compose(), starts=False)
    gone(story, old)
    story.settle()
    assert (story.granted(waiting), story.granted(new)) == ("1-5", None)
    assert "this machine can give 7 at most" in story.why_refused(new)


def test_what_a_successor_does_not_take_goes_to_the_queue_in_its_order() -> None:
    """One that waits longer is asked before a later one, though the successor came after both."""
    story = Story()
    old = story.arrive("old", 7, labels=compose())
    first = story.arrive("first", 3, starts=False)
    new = story.arrive("new", 2, labels=compose(), starts=False)
    last = story.arrive("last", 3, starts=False)
    gone(story, old)
    story.settle()
    assert (story.granted(new), story.granted(first), story.granted(last)) == ("1-2", "3-5", None)


def test_of_two_successors_the_first_takes_over() -> None:
    story = Story()
    old = story.arrive("old", 5, labels=compose())
    first = story.arrive("first", 5, labels=compose(), starts=False)
    second = story.arrive("second", 5, labels=compose(), starts=False)
    gone(story, old)
    story.settle()
    assert (story.granted(first), story.granted(second)) == ("1-5", None)


def test_only_the_first_of_several_successors_is_promised_the_cpus() -> None:
    """It alone gets them; when it goes, the next one is promised them."""
    story = Story(uniform(cores=3))
    old = story.arrive("old", 1, labels=compose())
    plain = story.arrive("plain", 1)
    story.settle()
    first, second, third = (story.arrive(name, 1, labels=compose(), starts=False) for name in ("b", "c", "d"))
    assert story.why_refused(first) == "it replaces old, and gets CPU 1 when that is gone"
    for other in (second, third):
        assert story.why_refused(other) == "it replaces old, and asks again when that is gone"
    story.away(first)
    story.settle()
    assert story.why_refused(second) == "it replaces old, and gets CPU 1 when that is gone"
    assert story.why_refused(third) == "it replaces old, and asks again when that is gone"
    gone(story, old)
    assert (story.granted(second), story.granted(third), story.granted(plain)) == ("1", None, "2")


def test_another_number_of_a_service_is_no_successor() -> None:
    """Nor is a container of `docker compose run`, which is numbered like the first."""
    story = Story()
    story.arrive("web-1", 2, labels=compose())
    assert story.granted(story.arrive("web-2", 2, labels=compose(2), starts=False)) == "3-4"
    run = {**compose(), "com.docker.compose.oneoff": "True"}
    assert story.granted(story.arrive("run", 2, labels=run, starts=False)) == "5-6"


def test_a_container_that_claims_to_be_a_successor_gains_nothing_by_a_restart() -> None:
    """Labels are free to choose: a stopped container keeps its CPUs for its next start."""
    story = Story()
    victim = story.arrive("victim", 5, labels=compose())
    claimant = story.arrive("claimant", 5, labels={**compose(), **WAIT})
    story.end(victim)
    story.settle()
    assert (story.granted(victim), story.granted(claimant)) == ("1-5", None)
    story.again(victim)
    story.settle()
    assert where(victim) == "1-5"


def unit(name: str) -> dict[str, str]:
    return {"PODMAN_SYSTEMD_UNIT": f"{name}.service"}


@pytest.mark.parametrize(("labels", "kept"), [(unit("app"), True), ({}, False)], ids=["unit", "name"])
def test_a_container_that_is_replaced_under_its_name_gets_the_same_cpus(labels: dict[str, str], kept: bool) -> None:
    """Removed before it is created again. Only for a unit, which will, are they kept from a waiting container."""
    story = Story()
    other = story.arrive("other", 1)
    app = story.arrive("app", 3, labels=labels)
    story.settle()
    story.away(other)
    story.away(app)
    again = story.arrive("app", 3, labels=labels)
    story.settle()
    assert where(again) == "2-4"
    waiting = story.arrive("waiting", 7, labels=WAIT)
    story.away(again)
    story.settle()
    assert (story.granted(waiting) is None) is kept


def test_growth_waits_for_a_successor_too() -> None:
    """An elastic container would have to leave again, with notice."""
    story = Story(policy=PolicyName.DYNAMIC)
    batch = story.arrive("batch", 1, labels={"cpuset.min": "1", "cpuset.max": "9"})
    old = story.arrive("old", 3, labels=compose())
    story.settle()
    vacancy_over(story)
    before = story.granted(batch)
    gone(story, old)
    story.settle()
    assert story.granted(batch) == before
    vacancy_over(story)
    assert story.granted(batch) == "1-7"


def test_a_restart_of_the_sidecar_forgets_no_vacancy() -> None:
    """Even if the predecessor was removed meanwhile."""
    story = Story()
    old = story.arrive("old", 5, labels=compose())
    waiting = story.arrive("waiting", 5, labels=WAIT)
    story.settle()
    story.stop(old)
    story.remove(old)
    new = story.create({"cpuset.exclusive": "5", **compose()})
    story.crash([True])
    story.settle()
    assert (story.granted(new), story.granted(waiting)) == ("1-5", None)


def refuses(story: Story, real: Real) -> bool:
    real.asks = True
    strictstarts.hold(story, real)
    return story.new_answers[-1].refusal is not None


def settings_change(story: Story) -> None:
    story.change_settings(shared_min=2)


def cpu_goes(story: Story) -> None:
    story.toggle_cpu(7)
    story.read_topology()


@pytest.mark.parametrize(("happens", "kept"), [(settings_change, True), (cpu_goes, False)])
def test_a_vacancy_stands_unless_the_machine_changes(happens: Callable[[Story], None], kept: bool) -> None:
    """Grants that lost CPUs come before a successor that may not come."""
    story = Story()
    gone(story, story.arrive("old", 3, labels=compose()))
    happens(story)
    assert bool(story.world.state.vacancies) is kept


@pytest.mark.parametrize(("labels", "kept"), [(compose(), False), ({}, True)])
def test_a_vacancy_ends_if_other_settings_leave_the_pool_too_little_beside_it(
    labels: dict[str, str], kept: bool
) -> None:
    """The owner that runs keeps its CPUs. What has no role keeps none from the pool, and does not end."""
    story = Story()
    owner = story.arrive("owner", 4)
    gone(story, story.arrive("old", 3, labels=labels))
    story.change_settings(options=(STRICT_CPU_RESERVATION,))
    assert (story.granted(owner), bool(story.world.state.vacancies)) == ("1-4", kept)


def test_a_strict_successor_does_not_start_beside_its_predecessor_unless_both_fit() -> None:
    story = Story()
    story.arrive("old", 4, labels=compose())
    new = story.unseen("new", 4, labels=compose(), starts=False)
    assert refuses(story, new)
    assert story.refusal(new).code is RefusalCode.AWAITS_PLACE
