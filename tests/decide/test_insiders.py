"""What is born inside an owner's group ends *alone* at once, until a look shows what it is."""

from __future__ import annotations

import pytest

from sidecar.decide.facts import ContainerRemoved, ContainerSeen, ContainerView, Phase
from sidecar.decide.hand_facts import BornInside, GoneInside, HandLost, HandReady
from sidecar.decide.hand_state import HandState
from sidecar.decide.moves.alone import is_alone, neighbours
from sidecar.decide.orders import LookAgain, Order
from sidecar.decide.step import step
from sidecar.decide.world import World, replace, without
from sidecar.projection.projection_of import projection_of
from sidecar.status.describe import container_status
from sidecar.systemd_names import cleaned_parent
from sidecar.words.neighbours import company
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey
from tests.support.decide.real import ENGINE, Real
from tests.support.decide.stories import Story

NEW = ContainerKey(ENGINE, "e" * 64)


class Inside:
    """A host with an owner, a plain container, and a hand. Nothing but `after` changes it."""

    def __init__(self) -> None:
        story = Story()
        self._story = story
        self.owner: Real = story.arrive("owner", 2)
        self.plain: Real = story.arrive("plain")
        story.settle()
        self.world: World = replace(story.world, hand=HandState(parents=("/docker",)))
        self.orders: tuple[Order, ...] = ()
        self.group = f"/docker/{self.owner.key.id}"
        assert self.is_alone

    @property
    def is_alone(self) -> bool:
        return is_alone(self.world, self.world.containers[self.owner.key])

    @property
    def beside(self) -> list[str]:
        return [each.view.name for each in neighbours(self.world, self.world.containers[self.owner.key])]

    @property
    def insiders(self) -> set[ContainerKey]:
        assert self.world.hand is not None
        return set(self.world.hand.insiders)

    def ticket(self) -> int:
        return self._story.ticket()

    def after(self, *facts: object) -> None:
        self.world, self.orders = step(self.world, facts)  # type: ignore[arg-type]

    def birth(self, key: ContainerKey = NEW, parent: str = "") -> None:
        self.after(BornInside(key, self.owner.key, parent or self.group, self.ticket()))

    def view(self, **fields: object) -> ContainerView:
        return ContainerView(engine=ENGINE, id=NEW.id, name="new", phase=Phase.CREATED, **fields)  # type: ignore[arg-type]


@pytest.fixture
def host() -> Inside:
    return Inside()


def test_an_owner_is_not_alone_from_the_birth_on_and_the_newcomer_is_named(host: Inside) -> None:
    """By its id, since nothing else is known of it; and it is looked at."""
    host.birth()
    owner = host.world.containers[host.owner.key]
    assert not host.is_alone
    assert LookAgain(NEW) in host.orders
    assert company(host.world, owner) == f"{NEW.short} (just born inside its cgroup) may run there too"
    told = container_status(host.world, owner, {})
    assert (told.is_alone, told.is_settled, told.neighbour_count) == (False, True, 1)
    assert [(each.name, each.cpus) for each in told.neighbours] == [(NEW.short, told.cpus)]
    assert not projection_of(host.world, owner).alone


def test_it_is_told_on_cpus_that_are_online(host: Inside) -> None:
    """An owner's CPU that went offline since the last look is none where anything runs."""
    host.birth()
    state = host.world.state
    [first, *rest] = host.world.containers[host.owner.key].place.seen
    host.world = replace(host.world, state=replace(state, online=state.online - CPUSet.of(first)))
    told = container_status(host.world, host.world.containers[host.owner.key], {})
    assert [each.cpus for each in told.neighbours] == [CPUSet(rest)]


def test_the_end_of_the_group_ends_it(host: Inside) -> None:
    """That of another owner's does not: there may be two groups of one name."""
    host.birth()
    host.after(GoneInside(NEW, host.plain.key))
    assert not host.is_alone
    host.after(GoneInside(NEW, host.owner.key))
    assert host.is_alone


def test_what_no_engine_knows_is_the_owners_own(host: Inside) -> None:
    """A look that was under way at the birth says nothing."""
    before = host.ticket()
    host.birth()
    host.after(ContainerRemoved(NEW, before))
    assert not host.is_alone
    host.after(ContainerRemoved(NEW, host.ticket()))
    assert host.is_alone


def test_a_look_shows_what_it_is(host: Inside) -> None:
    """It runs there, by the parent that it names, until it ends."""
    before = host.ticket()
    host.birth()
    inside = host.view(cgroup_parent=host.group)
    host.after(ContainerSeen(inside, before))
    assert (host.is_alone, host.beside) == (False, ["new"])
    owns = host.world.containers[host.owner.key].place.seen
    runs = replace(inside, phase=Phase.RUNNING, effective=owns)
    host.after(ContainerSeen(runs, host.ticket()))
    assert (host.is_alone, host.beside) == (False, ["new"])
    assert host.insiders == set()
    host.after(ContainerSeen(replace(inside, phase=Phase.EXITED), host.ticket()))
    assert host.is_alone


def test_one_that_was_looked_at_before_its_start_counts_from_its_birth_on(host: Inside) -> None:
    """At rest it runs nothing: its owner is alone until then."""
    host.after(ContainerSeen(host.view(cgroup_parent=host.group), host.ticket()))
    assert host.is_alone
    host.birth()
    assert (host.is_alone, host.beside) == (False, ["new"])
    assert projection_of(host.world, host.world.containers[NEW]).cpus == EMPTY


@pytest.mark.parametrize("parent", ["{}", "{}/deep/er", "/x/..{}//deep/"])
def test_one_that_would_start_inside_an_owner_is_told_no_cpus(host: Inside, parent: str) -> None:
    """Its group has those of the owner's that this has then, and not the pool's."""
    written = cleaned_parent(parent.format(host.group))
    host.after(ContainerSeen(host.view(cgroup_parent=written, cpuset="0-7"), host.ticket()))
    told = projection_of(host.world, host.world.containers[NEW])
    assert (told.cpus, told.settled, told.alone) == (EMPTY, False, False)
    host.birth(parent=written.rstrip("/"))
    assert not host.is_alone


def test_a_glance_ends_nothing_and_the_newcomer_is_told_no_cpus(host: Inside) -> None:
    """By a glance it belongs into the pool, and it has the owner's CPUs."""
    key = host.plain.key
    known = host.world.containers[key]
    glanced = replace(known, view=replace(known.view, is_glance=True))
    originals = without(host.world.state.originals, key)
    host.world = replace(host.world, state=replace(host.world.state, originals=originals)).with_container(glanced)
    assert projection_of(host.world, glanced).cpus
    host.birth(key)
    host.after(ContainerSeen(glanced.view, host.ticket()))
    assert (host.is_alone, host.beside) == (False, ["plain"])
    assert projection_of(host.world, host.world.containers[key]).cpus == EMPTY


def test_a_group_that_is_called_like_a_container_elsewhere_is_the_owners_own(host: Inside) -> None:
    """It names another parent, or none: a workload that makes groups takes no CPUs from the files of another."""
    before = projection_of(host.world, host.world.containers[host.plain.key])
    host.birth(host.plain.key)
    assert host.is_alone
    assert projection_of(host.world, host.world.containers[host.plain.key]) == before
    host.after(ContainerSeen(host.view(cgroup_parent="/docker/elsewhere"), host.ticket()))
    host.birth()
    assert host.insiders == set()


def test_one_at_a_deeper_parent_counts(host: Inside) -> None:
    host.after(ContainerSeen(host.view(cgroup_parent=f"{host.group}/deep/er"), host.ticket()))
    host.birth(parent=f"{host.group}/deep/er")
    assert not host.is_alone


def test_without_a_hand_nothing_is_known_of_births(host: Inside) -> None:
    """What was known goes with it, and comes with the next one."""
    host.birth()
    host.after(HandLost("it broke", host.ticket()))
    assert host.is_alone
    host.birth()
    assert host.is_alone
    host.after(HandReady(("/docker",), host.ticket()))
    host.birth()
    assert not host.is_alone
