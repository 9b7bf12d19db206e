"""Carry books over to a machine or settings that they were not made for, as far as that is lawful.

What had to change is told. Nobody has to delete a file. A grant is fitted by what it may have now (`_sizes`), what it
keeps of what it has (`_kept`), the nearest replacement for the rest (`_replacement`), and what it is once it lies there
(`_lying_on`).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sidecar.decide.books.gains_and_losses import given_up
from sidecar.decide.books.room import room
from sidecar.decide.books.takes import changed
from sidecar.decide.container.terms import Terms
from sidecar.decide.placement.options import FULL_PCPUS_ONLY, STRICT_CPU_RESERVATION
from sidecar.decide.placement.order.packed import packed
from sidecar.decide.placement.reserve import reserve
from sidecar.decide.placement.shortfall import with_facts
from sidecar.decide.placement.tiers import around, beside
from sidecar.decide.settings import IsolatedRule, PolicyName, Settings
from sidecar.decide.world import Note
from state.cause import FewerToShare
from state.cpuset import EMPTY, CPUSet, union
from state.model import Assignment, Refused, State
from state.refusal import Lost, Refusal, RefusalCode
from state.topology import Topology

replace = msgspec.structs.replace


class _Fit(msgspec.Struct, frozen=True):
    """What books are fitted to. The CPUs of `strangers`, containers pinned by hand, replace nobody's. `at_floors`:
    everybody is to have the fewest CPUs that it may.
    """

    topology: Topology
    settings: Settings
    strangers: CPUSet
    at_floors: bool = False

    @property
    def is_dynamic(self) -> bool:
        return self.settings.policy is PolicyName.DYNAMIC


def refit(
    state: State, topology: Topology, settings: Settings, strangers: CPUSet = EMPTY
) -> tuple[State, tuple[Note, ...]]:
    """Make books that are lawful on this machine under these settings, and say what had to change.

    Replacements are never taken from `strangers`, the CPUs of containers pinned by hand.

    1. Under the policy none the books stand still, but for the machine.
    2. The reservation is the settings'; it wins over grants.
    3. In the order of the grants, each keeps what it lawfully can, and gets the nearest replacement for the rest.
    4. A grant that cannot be made whole, or that the pool has no room for, becomes a refusal: what a grant would be
       refused is not kept either.
    5. Under `dynamic` all are fitted at their floors where that leaves room for more of them; then each keeps as much
       of what it had above that as there is room for.
    6. Under `dynamic`, what a grant loses is leaving it, as in any take. What went offline, or is reserved now, is gone
       at once.
    """
    # 1. Nobody decides anything.
    if settings.policy is PolicyName.NONE:
        return replace(state, policy=settings.policy.value, online=topology.online), ()
    fit = _Fit(topology, settings, strangers)
    fitted = _fitted(state, fit)
    # 5. Smaller, rather than not at all.
    if fit.is_dynamic and RefusalCode.POOL_WOULD_BE_EMPTY in _refused(state, fitted):
        smaller = _fitted(state, replace(fit, at_floors=True))
        if len(_refused(state, smaller)) < len(_refused(state, fitted)):
            fitted = _filled_up(state, smaller, fit)
    # 6. Not before it was told.
    if fit.is_dynamic:
        fitted = _with_notice(state, fitted)
    return fitted, tuple(_notes(state, fitted))


def _in_order(state: State) -> list[Assignment]:
    return sorted(state.assignments.values(), key=lambda each: each.since)


def _refused(state: State, fitted: State) -> list[RefusalCode]:
    """Why those who held CPUs in the books hold none in the fitted ones."""
    return [refused.refusal.code for key, refused in fitted.refusals.items() if key in state.assignments]


def _fitted(state: State, fit: _Fit) -> State:
    """The books after steps 2 to 4."""
    # 2. The reservation.
    fitted = _without_grants(state, fit)
    # 3. Grant by grant.
    for grant in _in_order(state):
        # 4. Whole, or not at all.
        made = _made_anew(fitted, fit, grant, _spared(state, fit, grant))
        fitted = fitted.refused(made) if isinstance(made, Refused) else fitted.holding(made)
    return fitted


def _filled_up(state: State, fitted: State, fit: _Fit) -> State:
    """The books once everybody has kept, of what it had above its floor, as much as there is room for."""
    for grant in _in_order(state):
        if now := fitted.assignments.get(grant.container):
            left = room(fit.topology, fit.settings, fitted, fit.strangers)
            own = replace(left, givable=left.givable & grant.cpus)
            kept = own.spare(by_cores=FULL_PCPUS_ONLY in _options(fit, grant))
            # What came last goes first, where that leaves as much.
            had = _lying_on(fit, grant, now.cpus | own.givable)
            first = own.givable - given_up(fit.topology, had, len(own.givable) - len(kept))
            if len(first) == len(kept) and left.objection(first) is None:
                kept = first
            fitted = fitted.holding(_lying_on(fit, grant, now.cpus | kept))
    return fitted


def _with_notice(state: State, fitted: State) -> State:
    """The fitted books in which what a grant lost, and is there, is leaving it; but for what is reserved now."""
    for id, grant in state.assignments.items():
        now = fitted.assignments.get(id)
        lost = (grant.cpus & fitted.online) - fitted.reserved - now.cpus if now else EMPTY
        if now and lost:
            cause = FewerToShare(name=grant.name, count=len(lost), floor=grant.demand.floor)
            fitted = changed(fitted.holding(replace(now, cpus=now.cpus | lost)), id, cause, lost=lost)
    return fitted


def _without_grants(state: State, fit: _Fit) -> State:
    """The books on this machine under these settings, before anybody is granted anything."""
    topology, settings = fit.topology, fit.settings
    fitted = replace(state, policy=settings.policy.value, online=topology.online)
    return replace(
        fitted,
        reserved=reserve(topology, settings, fitted),
        strict=STRICT_CPU_RESERVATION in settings.options,
        isolated=EMPTY if settings.isolated is IsolatedRule.IGNORE else topology.isolated,
        assignments={},
    )


def _spared(state: State, fit: _Fit, grant: Assignment) -> CPUSet:
    """CPUs that a replacement is not taken from while there is any other: those that grants after this one hold, or, of
    grants at their floors, all others, since these leave with notice what they give up.
    """
    others = (each for each in state.assignments.values() if each is not grant)
    return union(each.cpus for each in others if fit.at_floors or each.since > grant.since)


def _made_anew(fitted: State, fit: _Fit, grant: Assignment, later: CPUSet) -> Assignment | Refused:
    """The grant on what it keeps and on replacements, or why it is none any more."""
    kept = _kept(fitted, fit, grant)
    free = fitted.assignable - fit.strangers - kept
    for size, source in _trials(fit, grant, free, later):
        replaced = _replacement(fit, grant, source, kept, size - len(kept))
        if replaced is not None:
            why = room(fit.topology, fit.settings, fitted, fit.strangers).objection(kept | replaced)
            return (
                _refused_anew(grant, with_facts(why, had=grant.cpus, would_fit=()))
                if why
                else _lying_on(fit, grant, kept | replaced)
            )
    return _refused_anew(grant, Refusal(RefusalCode.CPUS_LOST, Lost(grant.cpus, grant.demand.cpus)))


def _trials(fit: _Fit, grant: Assignment, free: CPUSet, later: CPUSet) -> Iterator[tuple[int, CPUSet]]:
    """What to try, in turn: so many CPUs in all, with replacements from these."""
    size, fewest = _sizes(fit, grant)
    yield size, free - later
    yield fewest, free - later
    # What others hold is taken for no more than the fewest that it may have.
    yield fewest, free


def _sizes(fit: _Fit, grant: Assignment) -> tuple[int, int]:
    """How many CPUs a grant should have now, and how few it may have: as many as it asked for, or, under `dynamic`, as
    many as it had, and its floor.
    """
    demand = grant.demand
    if fit.at_floors:
        return demand.floor, demand.floor
    if not fit.is_dynamic:
        return demand.cpus, demand.cpus
    return min(max(len(grant.cpus), demand.floor), demand.ceiling), demand.floor


def _kept(fitted: State, fit: _Fit, grant: Assignment) -> CPUSet:
    """What a grant keeps of what it has: no more than it should have, its original set first."""
    kept, most = grant.cpus & fitted.assignable, _sizes(fit, grant)[0]
    first = grant.original & kept
    if len(kept) <= most:
        return kept
    if len(first) >= most:
        return packed(fit.topology, first, most) or first
    return first | (packed(fit.topology, kept - first, most - len(first)) or EMPTY)


def _replacement(fit: _Fit, grant: Assignment, source: CPUSet, kept: CPUSet, count: int) -> CPUSet | None:
    """`count` replacements, as near to what is kept as can be had; None where there are not so many."""
    if count > len(source):
        return None
    return beside(fit.topology, around(fit.topology, source, kept), count, _options(fit, grant))


def _options(fit: _Fit, grant: Assignment) -> tuple[str, ...]:
    return Terms(fit.settings, grant.demand).options


def _lying_on(fit: _Fit, grant: Assignment, cpus: CPUSet) -> Assignment:
    """The grant on these CPUs. Under `dynamic` its original set is as large as its floor, and layers hold the rest."""
    if not fit.is_dynamic:
        original = grant.original & cpus or cpus
        return replace(grant, cpus=cpus, original=original, layers=(), leaving=None, cooling=None)
    original = _original(fit.topology, grant, cpus)
    layers = tuple(part for layer in grant.layers if (part := (layer & cpus) - original))
    if rest := cpus - original - union(layers):
        layers = (rest, *layers)
    # What is lost here is gone, or not fit to be held; whoever still runs there has no notice.
    left = grant.leaving.within(fit.topology.online - cpus) if grant.leaving else None
    return replace(grant, cpus=cpus, original=original, layers=layers, leaving=left)


def _original(topology: Topology, grant: Assignment, cpus: CPUSet) -> CPUSet:
    """The original set of a grant on these CPUs, as large as its floor: what is left of it, and what lies beside."""
    original, size = grant.original & cpus, grant.demand.floor
    if len(original) > size:
        return packed(topology, original, size) or original
    return original | beside(topology, around(topology, cpus - original, original), size - len(original), ())


def _refused_anew(grant: Assignment, refusal: Refusal) -> Refused:
    return Refused(container=grant.container, name=grant.name, refusal=refusal, demand=grant.demand)


def _notes(state: State, fitted: State) -> Iterator[Note]:
    for grant in _in_order(state):
        if refused := fitted.refusals.get(grant.container):
            yield Note(name=grant.name, held=grant.cpus, refusal=refused.refusal)
        elif (cpus := fitted.assignments[grant.container].cpus) != grant.cpus:
            yield Note(name=grant.name, held=grant.cpus, holds=cpus)
