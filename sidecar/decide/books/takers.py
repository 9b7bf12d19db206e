"""Takers: the reasons of one decision told by what each container has at its end.

Several demands may arrive in one decision, and each is answered beside those before it. A later one may so get CPUs
that an earlier one was found, and that a grant gave up for that. None of it was in force, and none of it is told: what
a grant lost, it lost to the container that has it in the end, with one notice; and a new grant begins with what it has
then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sidecar.decide.world import replace
from state.cause import TakenOver
from state.cpuset import union
from state.leaving import Leaving
from state.model import KEPT_MOVES, Assignment, Move, State


def with_true_takers(before: State, state: State) -> State:
    """Return the State with true reasons for what was lost since the State before to containers that arrived."""
    arrived = [each for each in state.by_age if each.since >= before.grants]
    if len(arrived) < 2:
        return state
    for key, grant in state.assignments.items():
        was = before.assignments.get(key)
        is_new = was is None or was.since != grant.since
        kept = () if was is None or is_new else _kept(was, grant)
        told = _told(grant.moves[len(kept) :], arrived)
        if is_new:
            told = tuple(move for move in told if not isinstance(move.cause, TakenOver))
        if (moves := (*kept, *told)) != grant.moves:
            leaving = grant.leaving and _at_once(grant.leaving, before.takes)
            state = state.holding(replace(grant, moves=moves[-KEPT_MOVES:], leaving=leaving))
    return state


def _kept(was: Assignment, grant: Assignment) -> tuple[Move, ...]:
    """Return the moves of a grant that were recorded before."""
    for count in range(len(grant.moves), 0, -1):
        if was.moves[-count:] == grant.moves[:count]:
            return grant.moves[:count]
    return ()


def _told(moves: Sequence[Move], arrived: Sequence[Assignment]) -> tuple[Move, ...]:
    """Return these moves with each CPU that an arrival took in one of the container that has it."""
    taken = [move for move in moves if isinstance(move.cause, TakenOver)]
    if not taken:
        return tuple(moves)
    first = moves.index(taken[0])
    rest = tuple(move for move in moves[first:] if not isinstance(move.cause, TakenOver))
    return (*moves[:first], *_by_taker(taken, arrived), *rest)


def _by_taker(taken: Sequence[Move], arrived: Sequence[Assignment]) -> Iterator[Move]:
    lost, owned = union(move.lost for move in taken), union(each.cpus for each in arrived)
    for each in arrived:
        own = [move for move in taken if _taker(move) == each.name]
        # What no arrival has, as the other thread of a core, went for the sake of the one that it was taken for.
        part = (lost & each.cpus) | (union(move.lost for move in own) - owned)
        cause = (own or taken)[0].cause
        if part and isinstance(cause, TakenOver):
            yield Move(lost=part, cause=replace(cause, arrived=each.name, count=len(part)))


def _taker(move: Move) -> str:
    return move.cause.arrived if isinstance(move.cause, TakenOver) else ""


def _at_once(leaving: Leaving, since: int) -> Leaving:
    """Return what is leaving with one notice for all that was taken from this number on."""
    earlier = tuple(batch for batch in leaving.earlier if batch.number < since)
    return replace(leaving, earlier=earlier)
