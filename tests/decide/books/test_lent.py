"""The shared pool keeps its minimum in force: it gives a CPU away once the one that replaces it has been left."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.decide.books.lent import with_lent
from sidecar.decide.contacts import Contact, Ready
from sidecar.decide.facts import Purpose
from sidecar.decide.orders import AnswerStart
from sidecar.decide.placement.options import FULL_PCPUS_ONLY, STRICT_CPU_RESERVATION
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from sidecar.words.explanations import waits_for
from state.cpuset import EMPTY
from state.demand import Demand
from state.key import ContainerKey
from state.leaving import Leaving
from state.model import Assignment, State
from state.refusal import Said
from state.topology import uniform
from tests.decide.lawbook.left_faults import leaves_what_only_an_order_may_bring
from tests.support.decide import strictstarts
from tests.support.decide.dynamic import Dynamic
from tests.support.decide.real import Real
from tests.support.decide.stories import Story, cpus, static, where


def grown_onto_the_pool(**settings: Any) -> tuple[Dynamic, Real, Real, Real]:
    """Return a host whose pool gives CPU 9 to a container that grows, and gets one that another is still leaving."""
    story = Dynamic(
        uniform(cores=5, threads=2), reserved_cpus=cpus("0,5"), cooldown_seconds=0, grace_seconds=20, **settings
    )
    large = story.elastic("large", 4, 1, 20)
    story.over(Purpose.COOLDOWN, large)
    web = story.arrive("web")
    story.settle()
    grown = story.elastic("grown", 1, 1, 19)
    return story, large, web, grown


def test_a_cpu_stays_in_the_pool_until_another_has_left_the_one_that_replaces_it() -> None:
    story, large, web, grown = grown_onto_the_pool(shared_min=3)
    assert story.layout(large, grown) == ["1-2,6-7", "3-4,9"]
    assert (str(story.world.state.lent), where(web), where(grown)) == ("9", "0,5,9", "0,5")
    assert not story.told(grown).settled
    while story.waiting(Purpose.GRACE):
        story.over(Purpose.GRACE, large)
    assert (str(story.world.state.lent), where(web), where(grown)) == ("", "0,5,8", "3-4,9")
    assert story.told(grown).alone


def test_under_a_strict_reservation_the_reserved_cpus_replace_none() -> None:
    story, large, web, grown = grown_onto_the_pool(shared_min=1, options=(STRICT_CPU_RESERVATION,))
    assert (where(web), where(grown)) == ("9", "0,5")
    while story.waiting(Purpose.GRACE):
        story.over(Purpose.GRACE, large)
    assert (where(web), where(grown)) == ("8", "3-4,9")


def test_what_comes_new_meanwhile_has_all_of_the_pool() -> None:
    story, *_ = grown_onto_the_pool(shared_min=3)
    new = story.arrive("new")
    story.settle()
    assert where(new) == "0,5,9"


def test_what_the_pool_keeps_as_yet_is_taken_without_notice() -> None:
    """The container that it was granted to never had it."""
    story, _, web, grown = grown_onto_the_pool(shared_min=3)
    story.elastic("third", 3, 3)
    assert "9" not in (str(story.grant(grown).cpus), story.leaving(grown))
    assert len(web.effective or EMPTY) >= 3


def test_a_restart_of_the_sidecar_changes_nothing() -> None:
    story, _, web, grown = grown_onto_the_pool(shared_min=3)
    story.crash([])
    story.take_inventory()
    story.settle()
    assert (str(story.world.state.lent), where(web), where(grown)) == ("9", "0,5,9", "0,5")


def test_what_is_lent_stays_so_until_it_is_known_who_waits_for_what() -> None:
    """After a restart no container is known at first."""
    story, *_ = grown_onto_the_pool(shared_min=3)
    left = {key: replace(each, leaving=None) for key, each in story.world.state.assignments.items()}
    assert str(begin(replace(story.world.state, assignments=left), story.topology(), story.settings).state.lent) == "9"


def state_of(**granted: tuple[int, str, str]) -> State:
    """Return the State of a machine of eight CPUs, CPU 0 reserved: by name the number of a grant, its CPUs, and what is
    leaving it.
    """
    state = State(policy="dynamic", online=cpus("0-7"), reserved=cpus("0"))
    for name, (since, has, leaves) in granted.items():
        key = ContainerKey("docker", name)
        demand = Demand(container=key, name=name, cpus=len(cpus(has)), min_cpus=1, max_cpus=8)
        leaving = Leaving(cpus=cpus(leaves), number=0, cause=Said("")) if leaves else None
        original = cpus(has[0])
        state = state.holding(
            Assignment(demand=demand, cpus=cpus(has), original=original, since=since, leaving=leaving)
        )
    return state


def lent(before: State, after: State, **settings: Any) -> str:
    """Return what is lent to the pool after a decision."""
    chosen = static(policy=PolicyName.DYNAMIC, reserved_cpus=cpus("0"), **settings)
    world = World(state=after, topology=uniform(cores=4, threads=2), settings=chosen)
    return str(with_lent(before, world.with_contact("docker", Contact(readiness=Ready(0)))).state.lent)


def test_no_more_is_lent_than_the_pool_lacks() -> None:
    before, after = state_of(a=(0, "1-4", "")), state_of(a=(0, "1-2", "3-4"), b=(1, "5-7", ""))
    assert [lent(before, after, shared_min=least) for least in (1, 2, 3, 4)] == ["", "7", "6-7", "6-7"]


def test_what_was_given_away_is_not_lent_again() -> None:
    """Of a pool that had too few before, it is only what it had."""
    before = state_of(a=(0, "1-4", ""), b=(1, "5-6", ""))
    after = state_of(a=(0, "1-2", "3-4"), b=(1, "5-7", ""))
    assert lent(before, after, shared_min=3) == "7"


def test_what_another_one_is_leaving_is_not_lent() -> None:
    """One that is new was granted it where it would start, and another new one for its fair share, in one decision."""
    before = replace(state_of(old=(0, "2,6-7", "")), strict=True)
    after = replace(state_of(old=(0, "2,6-7", ""), a=(1, "3", "4-5"), b=(2, "1,4", "")), strict=True)
    assert lent(before, after, shared_min=1, options=(STRICT_CPU_RESERVATION,)) == "1"


def test_a_cpu_that_is_kept_for_a_successor_is_in_the_pool_until_that_comes() -> None:
    """The pool runs there, if it has nothing else until others have left."""
    went = state_of(gone=(0, "4", "")).assignments[key := ContainerKey("docker", "gone")]
    vacancy = replace(went, demand=replace(went.demand, role="web 1"))
    before = replace(state_of(a=(1, "1-3", "5-7")), vacancies={key: vacancy}, strict=True)
    after = replace(state_of(a=(1, "1-3", "5-7"), heir=(2, "4", "")), strict=True)
    assert lent(before, after, shared_min=1, options=(STRICT_CPU_RESERVATION,)) == "4"


def test_nothing_is_lent_while_the_pool_has_what_is_kept_for_a_successor() -> None:
    """It is in the pool until that comes, so the owner that leaves CPU 3 for CPU 7 does not wait."""
    went = state_of(gone=(0, "1-2", "")).assignments[key := ContainerKey("docker", "gone")]
    vacancies = {key: replace(went, demand=replace(went.demand, role="web 1"))}
    before = replace(state_of(a=(1, "3-6", "")), vacancies=vacancies, strict=True)
    after = replace(state_of(a=(1, "4-7", "3")), vacancies=vacancies, strict=True)
    settings: dict[str, Any] = {"shared_min": 1, "options": (STRICT_CPU_RESERVATION,)}
    assert lent(before, after, **settings) == ""
    has_come = [replace(each.holding(went), vacancies={}) for each in (before, after)]
    assert lent(*has_come, **settings) == "7"


def test_the_floors_of_older_grants_come_first() -> None:
    before = state_of(a=(0, "1-3", ""))
    after = state_of(a=(0, "1", "2-3"), b=(1, "4-5", ""), c=(2, "6-7", ""))
    assert [lent(before, after, shared_min=least) for least in (2, 3)] == ["7", "5,7"]


def test_the_pool_keeps_a_whole_core_in_force() -> None:
    """Under a strict reservation of whole cores."""
    options = (FULL_PCPUS_ONLY, STRICT_CPU_RESERVATION)
    before, after = state_of(a=(0, "1,5", "")), state_of(a=(0, "1", "5"), b=(1, "2,6", ""))
    strict = (replace(before, strict=True), replace(after, strict=True))
    assert lent(*strict, options=options) == ""
    before, after = state_of(a=(0, "1-2,5-6", "")), state_of(a=(0, "1,5", "2,6"), b=(1, "3,7", ""))
    strict = (replace(before, strict=True), replace(after, strict=True))
    assert lent(*strict, options=options) == "3,7"


def test_it_is_said_what_the_new_owner_waits_for() -> None:
    story, _, _, grown = grown_onto_the_pool(shared_min=3)
    world, container = story.world, story.known(grown)
    grant = story.grant(grown)
    assert waits_for(world, container, grant, grant.cpus) == (
        "large to leave 3-4,8, after 20 s of notice: until then the shared pool needs 9"
    )


@pytest.mark.parametrize("policy", [PolicyName.STATIC, PolicyName.DYNAMIC])
def test_the_pool_keeps_what_replaces_a_cpu_that_a_new_owner_is_still_on(policy: PolicyName) -> None:
    """While the sidecar was down, one that asks started on all CPUs, and one that had CPU 1 was removed."""
    story = Story(
        uniform(packages=1, nodes=2, cores=4), policy=policy, reserved_cpus=cpus("0"), shared_min=4, linger_seconds=0
    )
    user, owner = story.arrive("user"), story.arrive("owner", 1)
    story.settle()
    assert where(user) == "0,2-7"
    new = story.unseen("new", 4, labels={"cpuset.numa": "single"})
    story.remove(owner)
    story.crash([])
    story.take_inventory()
    story.settle()
    assert (where(user), where(new), str(story.world.state.lent)) == ("0-3", "4-7", "")


@pytest.mark.parametrize("restarts", [False, True])
def test_reserved_cpus_are_closed_to_none_if_all_of_them_are_being_left(restarts: bool) -> None:
    """The owner leaves CPU 1 for CPU 3, which the pool would need until then; and it may wait nowhere but on CPU 1."""
    story = Dynamic(uniform(cores=4), shared_min=2, reserved_cpus=cpus("0"))
    owner, web = story.elastic("owner", 1, 1, 1), story.arrive("web")
    story.settle()
    assert (where(owner), where(web)) == ("1", "0,2-3")
    leaving = Leaving(cpus=cpus("1"), number=0, cause=Said(""))
    moved = replace(story.grant(owner), cpus=cpus("3"), original=cpus("3"), leaving=leaving)
    story.world = replace(story.world, state=replace(story.world.state.holding(moved), takes=1, lent=cpus("3")))
    if restarts:
        story.stop(owner, restarts=True)
    story.hotplug(0)
    assert (str(story.world.state.reserved), str(story.world.state.lent), story.leaving(owner)) == ("1", "", "")
    assert (owner.cpuset, where(web)) == ("3", "1-2")


def held_beside_one_that_is_pinned(*, shares: bool) -> tuple[Dynamic, Real, Real | None]:
    """Return a host whose pool gives CPU 3 to an owner for CPU 2, onto which a container was pinned while no sidecar
    ran. The owner's start is held, and orders of the killed sidecar may follow it. A container `shares` CPU 3 or not.
    """
    story = Dynamic(uniform(cores=4), reserved_cpus=cpus("0"), options=(STRICT_CPU_RESERVATION,))
    owner = story.elastic("owner", 2, 2, 2)
    web = story.arrive("web") if shares else None
    story.settle()
    assert story.layout(owner) == ["1-2"]
    story.crash([])
    owner.asks = True
    story.stop(owner)
    owner.held = story.ticket()
    story.unseen("pinned", cpuset="2")
    story.crash([])
    strictstarts.ask_again(story)
    story.take_inventory()
    story.settle()
    assert story.layout(owner) == ["1,3"]
    return story, owner, web


def starts_of(story: Story) -> list[str]:
    """Return where starts were told to happen."""
    return [str(each.update.cpus) for each in story.given if isinstance(each, AnswerStart) and each.update]


@pytest.mark.parametrize("shares", [False, True])
def test_a_held_start_waits_for_nothing_that_an_order_may_bring_after_it(shares: bool) -> None:
    """It runs nothing, so it is leaving nothing: no CPU that it was granted is lent until it has left another."""
    story, owner, web = held_beside_one_that_is_pinned(shares=shares)
    assert (starts_of(story), story.leaving(owner), str(story.world.state.lent)) == (["1,3"], "", "")
    strictstarts.go_on(story, owner, fails=False)
    story.look(owner)
    story.settle()
    assert (where(owner), web and where(web)) == ("1,3", web and "2")


def test_it_waits_if_it_counts_as_leaving_what_an_order_may_bring(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves_what_only_an_order_may_bring(monkeypatch)
    story, owner, _ = held_beside_one_that_is_pinned(shares=False)
    assert (starts_of(story), story.leaving(owner), str(story.world.state.lent)) == ([], "2", "3")


def test_what_is_closed_by_an_owner_that_starts_in_the_pool_is_no_replacement_yet() -> None:
    """While no sidecar ran, one was pinned onto the CPUs of two whose starts are held. One of these moves to the last
    CPU of the pool; the other one has nowhere to go, and starts on what the pool gets for that.
    """
    story = Story(uniform(cores=4), reserved_cpus=cpus("0"), options=(STRICT_CPU_RESERVATION,))
    web = story.arrive("web")
    story.settle()
    movable, stays = (story.unseen(name, 1, starts=False) for name in ("movable", "stays"))
    for owner in (movable, stays):
        strictstarts.hold(story, owner)
    story.crash([False])
    story.tamper(web, cpus("3"))
    story.unseen("pinned", cpuset="1-2")
    strictstarts.ask_again(story)
    story.given.clear()
    story.take_inventory()
    story.settle()
    assert [story.granted(each) for each in (movable, stays)] == ["3", "2"]
    (answer,) = (each for each in story.given if isinstance(each, AnswerStart))
    assert (answer.container, starts_of(story)) == (stays.key, ["1"])
    assert (str(story.world.state.lent), where(web)) == ("3", "3")
    strictstarts.go_on(story, stays, fails=False)
    story.look(stays)
    story.settle()
    assert (str(story.world.state.lent), where(web), where(stays)) == ("", "1", "2")
