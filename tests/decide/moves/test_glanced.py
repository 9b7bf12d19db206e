"""Beside a hand, what rests and was only glanced at may name any cgroup parent: nobody is alone, and nobody waits."""

from __future__ import annotations

import pytest

from sidecar.decide import world
from sidecar.decide.container.container import Standing
from sidecar.decide.facts import GiveUpRequested
from sidecar.decide.moves.alone import is_alone, neighbours
from sidecar.decide.moves.settled import is_settled
from sidecar.decide.world import replace
from sidecar.projection.projection_of import projection_of
from sidecar.simulation.model_limits import Limits
from state.cpuset import CPUSet
from state.topology import uniform
from tests.decide.lawbook.laws import LAWS
from tests.support.decide import glances
from tests.support.decide.handreality import HandReality
from tests.support.decide.real import LATE_PARENT, NEVER_PARENT, Real
from tests.support.decide.reality import Reality
from tests.support.decide.stories import static
from tests.support.laws import When, breaches

ONE = {"cpuset.exclusive": "1"}
_STEPS = 200
"""More than anything here takes."""


class Host(HandReality):
    """A host with a hand, on which the laws hold."""

    def __init__(self) -> None:
        super().__init__(uniform(cores=8), static())
        # Its place shows where containers are born that name no parent.
        self.arrive("plain")
        self.owner = self.arrive("owner", labels=ONE)

    def made(self, name: str, parent: str = "", labels: dict[str, str] | None = None) -> Real:
        """Create a container that names this parent; no look is taken."""
        real = Reality.create(self, labels or {})
        real.name, real.parent, real.home = name, parent, parent.strip("/") or real.home
        return real

    def arrive(self, name: str, parent: str = "", labels: dict[str, str] | None = None) -> Real:
        """Create and start a container, and let everything come to rest."""
        real = self.made(name, parent, labels)
        self.start(real)
        self.begin_look(real.key)
        self.settle()
        return real

    def locked(self, name: str, parent: str = "") -> Real:
        """Create a container whose lock is held before the first look; an inventory glances at it."""
        real = self.made(name, parent)
        real.is_busy = True
        self.begin_look(real.key)
        self.take_inventory()
        self.settle()
        return real

    def settle(self) -> None:
        """Let everything be done."""
        for _ in range(_STEPS):
            if not self.go_on():
                return
            assert breaches(LAWS, self, When.STEP) == []
        raise AssertionError("it never comes to rest")

    def is_settled(self, real: Real) -> bool:
        return is_settled(self.world, self.world.containers[real.key])

    def is_alone(self, real: Real) -> bool:
        return is_alone(self.world, self.world.containers[real.key])

    def beside(self, real: Real) -> list[str]:
        return [each.view.name for each in neighbours(self.world, self.world.containers[real.key])]


@pytest.mark.parametrize("parent", ["", LATE_PARENT, NEVER_PARENT])
def test_nobody_is_alone_beside_what_may_name_any_parent(parent: str) -> None:
    """Whether it does is not known. After a look it is, and the owner is alone unless the hand does not watch there."""
    host = Host()
    assert host.is_alone(host.owner)
    held = host.locked("held", parent)
    assert (host.is_settled(host.owner), host.is_alone(host.owner)) == (True, False)
    assert host.beside(host.owner) == ["held"]
    glances.release(host, held)
    host.settle()
    assert host.is_alone(host.owner)


def test_what_then_starts_where_no_hand_answers_finds_nobody_who_was_told_to_be_alone() -> None:
    host = Host()
    held = host.locked("held", NEVER_PARENT)
    glances.release(host, held, then_starts=True)
    assert held.effective is not None
    assert host.owner.effective is not None
    assert host.owner.effective <= held.effective
    assert not host.is_alone(host.owner)
    host.settle()
    # The engine has moved it.
    assert host.owner.effective.isdisjoint(held.effective)
    assert host.is_alone(host.owner)


def test_nobody_waits_for_it() -> None:
    """It does not run, and whoever holds its lock decides for how long."""
    host = Host()
    host.locked("held", NEVER_PARENT)
    late = host.arrive("late", labels=ONE)
    assert (host.is_settled(late), host.is_alone(late)) == (True, False)
    assert late.effective is not None
    assert len(late.effective) == 1


def test_what_is_still_being_started_is_told_where_it_runs() -> None:
    """Its engine has its lock, and calls it created. Its group is older than the hand, and has what the former wrote.
    Then CPUs come free for it.
    """
    host = Host()
    real = host.made("slow", labels={"cpuset.exclusive": "7", "cpuset.on-shortage": "wait"})
    host.begin_look(real.key)
    host.settle()
    assert real.key not in host.world.state.assignments
    assert glances.begin_start(host, real)
    host.settle()
    pool = real.effective
    assert pool == CPUSet.parse("0,2-7")
    host.crash([True])
    assert host.world.containers[real.key].sure <= pool
    host.remove(host.owner)
    host.begin_look(host.owner.key)
    host.settle()
    granted = host.world.state.assignments[real.key].cpus
    assert real.effective == granted == CPUSet.parse("1-7")
    assert projection_of(host.world, host.world.containers[real.key]).cpus == granted


def test_an_owner_that_may_start_anywhere_is_not_born_where_another_owner_is() -> None:
    """Nor do its answers change again and again: what they are is no reason for others."""
    host = Host()
    held = host.arrive("held", NEVER_PARENT, ONE)
    cpus = held.effective or CPUSet()
    host.stop(held)
    held.is_busy = True
    # Another tool has put the other one there, and the hand cannot move it.
    host.denied.add(host.owner.id)
    host.tamper(host.owner, cpus)
    host.crash([True, False])
    assert host.world.is_unmet(host.world.containers[held.key])
    for _ in range(_STEPS):
        if not host.hear() and not host.act():
            break
    else:
        raise AssertionError("its answers change again and again")
    assert host.owner.effective == cpus
    assert host.world.hand is not None
    assert cpus.isdisjoint(host.world.hand.answers_for(held.key)[-1])


@pytest.mark.parametrize(("parent", "is_alone"), [("", True), (NEVER_PARENT, False)])
def test_after_a_restart_the_books_have_the_parent_that_a_container_names(parent: str, is_alone: bool) -> None:
    """So locks that are held over it take *alone* away only where a container names a parent that is not watched."""
    host = Host()
    known = host.made("known", parent)
    host.begin_look(known.key)
    host.settle()
    assert host.is_alone(host.owner)
    known.is_busy = True
    host.crash([True])
    host.settle()
    assert host.world.containers[known.key].view.is_glance
    assert (host.is_settled(host.owner), host.is_alone(host.owner)) == (True, is_alone)


def test_books_of_an_earlier_version_get_it_with_the_next_look() -> None:
    host = Host()
    state = host.world.state
    older = {key: replace(each, cgroup_parent=type(each)().cgroup_parent) for key, each in state.originals.items()}
    assert {each.parent for each in older.values()} == {None}
    host.world = replace(host.world, state=replace(state, originals=older))
    host.take_inventory()
    assert {each.parent for each in host.world.state.originals.values()} == {""}


def test_what_people_released_is_not_granted_again_by_a_glance() -> None:
    """It does not show when the container started: it is not another start."""
    host = Host()
    host.feed(GiveUpRequested(host.owner.key, host.stamp()))
    host.settle()
    assert host.owner.key not in host.world.state.assignments
    host.owner.is_busy = True
    host.crash([True])
    host.settle()
    assert host.world.containers[host.owner.key].view.is_glance
    assert host.owner.key not in host.world.state.assignments


def test_an_owner_whose_limit_a_glance_does_not_show_is_not_settled() -> None:
    """Its grant lifts that, and nothing shows after a restart that this was done."""
    host = Host()
    real = host.made("limited", labels=ONE)
    real.limits = real.had = Limits(nano_cpus=10**9)
    host.start(real)
    host.begin_look(real.key)
    host.settle()
    assert host.is_settled(real)
    real.is_busy = True
    host.crash([True])
    host.settle()
    assert not host.is_settled(real)
    assert host.is_settled(host.owner)
    glances.release(host, real)
    host.begin_look(real.key)
    host.settle()
    assert host.is_settled(real)


def _is_alone_beside_its_namesake() -> bool:
    """Have a container be looked at that nothing but a glance had shown, and that runs on its own CPUs as does a group
    elsewhere which is called like it. Return whether the container was told to be alone while both ran there.
    """
    host = Host()
    host.arrive("elsewhere", LATE_PARENT)
    held = host.made("held", labels=ONE)
    host.start(held)
    held.is_busy = True
    host.begin_look(held.key)
    host.take_inventory()
    host.settle()
    alike = host.made("alike", LATE_PARENT)
    host.called[alike.id] = held.id
    host.start(alike)
    assert alike.effective == held.effective == host.world.state.assignments[held.key].cpus
    glances.release(host, held)
    was_alone = False
    while host.go_on():
        was_alone = was_alone or (host.is_alone(held) and alike.effective == held.effective)
    assert (alike.effective or CPUSet()).isdisjoint(held.effective or CPUSet())
    assert (host.is_settled(held), host.is_alone(held)) == (True, True)
    return was_alone


def test_nobody_is_alone_beside_a_group_that_is_called_like_it_once_a_look_shows_its_place() -> None:
    """The hand holds the older answers for as long as an order takes, and by those it is that container's."""
    assert not _is_alone_beside_its_namesake()


def test_a_daemon_that_believes_the_look_at_once_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "has_place", lambda view: False)
    assert _is_alone_beside_its_namesake()


def test_a_pin_that_no_glance_showed_is_given_back() -> None:
    """Its start is long, so the hand writes it like any other; the first look shows what the engine has for it."""
    host = Host()
    pinned = host.made("pinned")
    pinned.limits = Limits(cpuset="6")
    assert glances.begin_start(host, pinned)
    host.begin_look(pinned.key)
    host.take_inventory()
    host.settle()
    assert host.world.containers[pinned.key].is_guarded
    assert host.kernel.own(pinned.id) != CPUSet.of(6)
    glances.release(host, pinned)
    host.take_inventory()
    host.settle()
    assert host.world.containers[pinned.key].wish.standing is Standing.STRANGER
    assert breaches(LAWS, host, When.REST) == []
    assert host.kernel.own(pinned.id) == CPUSet.of(6)
