"""The State: whatever is entered, its accounts balance."""

from __future__ import annotations

from hypothesis import given
from msgspec.structs import replace

from state.cause import Resized
from state.cpuset import EMPTY, CPUSet
from state.demand import Demand
from state.invariants import violations
from state.key import ContainerKey
from state.leaving import Leaving
from state.model import Originals, Refused, State
from state.refusal import Refusal, RefusalCode
from state.topology import topology
from tests.state.strategies import demands, originals, states
from tests.support.keys import docker

EMPTY_BOOKS = State(policy="static", online=CPUSet.parse("0-7"), reserved=CPUSet.of(0))
A, B = docker("a" * 64), docker("b" * 64)


def wish(container: ContainerKey = A, cpus: int = 2) -> Demand:
    return Demand(container=container, name="voice", cpus=cpus)


def no(container: ContainerKey = A) -> Refused:
    return Refused(container=container, name="voice", refusal=Refusal(RefusalCode.NOT_ENOUGH))


@given(states())
def test_every_cpu_is_granted_once_or_shared(state: State) -> None:
    assert state.exclusive | state.shared == state.online
    assert state.exclusive.isdisjoint(state.shared)
    assert sum(len(grant.cpus) for grant in state.assignments.values()) == len(state.exclusive)
    assert state.assignable == state.shared - state.reserved


@given(states())
def test_whatever_is_entered_is_lawful(state: State) -> None:
    machine = topology(cores=[CPUSet.of(cpu) for cpu in state.online])
    assert violations(state, machine) == []


@given(states(), demands)
def test_a_release_undoes_a_grant(state: State, demand: Demand) -> None:
    state = state.forgetting(demand.container)
    cpus = CPUSet(sorted(state.assignable)[:1])
    assert state.granted(demand, cpus).released(demand.container).shared == state.shared
    assert state.released(demand.container) is state


@given(states(), originals, originals)
def test_originals_are_written_once_and_go_with_the_container(
    state: State, first: Originals, second: Originals
) -> None:
    state = state.forgetting(A)
    remembered = state.remembering(A, first)
    assert remembered.remembering(A, second).originals[A] == first
    assert remembered.forgetting(A) == state


def test_a_grant_forgets_the_refusal_and_a_refusal_takes_the_grant() -> None:
    refused = EMPTY_BOOKS.refused(no())
    granted = refused.granted(wish(), CPUSet.of(2, 3))
    assert (granted.refusals, granted.exclusive) == ({}, CPUSet.of(2, 3))
    again = granted.refused(no())
    assert (again.assignments, again.exclusive, dict(again.refusals)) == ({}, EMPTY, {A: replace(no(), asked=0)})
    assert again.refused(no()) is again


def test_grants_are_numbered_and_remember_what_was_first_given() -> None:
    books = EMPTY_BOOKS.granted(wish(A), CPUSet.of(2, 3)).granted(wish(B, 1), CPUSet.of(4), CPUSet.of(5))
    assert [books.assignments[key].since for key in (A, B)] == [0, 1]
    assert books.assignments[A].original == CPUSet.of(2, 3)
    assert books.assignments[B].original == CPUSet.of(5)
    assert books.released(A).granted(wish(A), CPUSet.of(2, 3)).assignments[A].since == 2


def test_strict_keeps_the_shared_pool_off_the_reserved_unless_there_is_nothing_else() -> None:
    strict = State(policy="static", online=CPUSet.parse("0-7"), reserved=CPUSet.of(0), strict=True)
    assert strict.shared == CPUSet.parse("1-7")
    assert EMPTY_BOOKS.shared == CPUSet.parse("0-7")
    assert strict.granted(wish(A, 7), CPUSet.parse("1-7")).shared == CPUSet.of(0)
    assert strict.assignable == EMPTY_BOOKS.assignable == CPUSet.parse("1-7")


def test_the_shared_pool_enters_no_cpu_that_a_container_is_leaving() -> None:
    """If a container is leaving all of the pool, only the reserved CPUs are left."""

    def leaving(cpus: CPUSet) -> State:
        grant = EMPTY_BOOKS.granted(wish(), CPUSet.of(2, 3)).assignments[A]
        return EMPTY_BOOKS.holding(replace(grant, leaving=Leaving(cpus=cpus, number=0, cause=Resized(2))))

    assert EMPTY_BOOKS.vacated == EMPTY_BOOKS.shared
    assert leaving(CPUSet.of(4, 5)).vacated == CPUSet.parse("0-1,6-7")
    assert leaving(CPUSet.parse("0-1,4-7")).vacated == EMPTY_BOOKS.reserved


def test_a_change_leaves_the_old_value_as_it_was() -> None:
    before = EMPTY_BOOKS.granted(wish(), CPUSet.of(2, 3)).remembering(A, Originals(cpuset="0-7"))
    before.granted(wish(B), CPUSet.of(4, 5))
    before.forgetting(A)
    assert list(before.assignments) == [A]
    assert list(before.originals) == [A]


def test_every_broken_law_is_a_sentence() -> None:
    machine = topology(cores=[CPUSet.of(cpu) for cpu in range(8)])
    broken = {
        "granted to voice and to another container": EMPTY_BOOKS.granted(wish(A), CPUSet.of(2, 3)).granted(
            wish(B), CPUSet.of(3, 4)
        ),
        "asked for 2 CPUs and holds 2-4": EMPTY_BOOKS.granted(wish(A), CPUSet.parse("2-4")),
        "holds reserved CPUs 0": EMPTY_BOOKS.granted(wish(A), CPUSet.of(0, 1)),
        "CPUs 8, which are not online": State(policy="static", online=CPUSet.parse("0-8")),
        "CPUs 7 are online, but neither shared, reserved nor granted": State(
            policy="static", online=CPUSet.parse("0-6")
        ),
        "the shared pool is empty": State(policy="static", online=CPUSet.parse("0-7")).granted(
            wish(A, 8), CPUSet.parse("0-7")
        ),
    }
    for sentence, state in broken.items():
        assert any(sentence in found.text for found in violations(state, machine)), sentence
    assert violations(State(), machine) == []
