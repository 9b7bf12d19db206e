"""Refit: adapt a State to a machine or to settings that it was not made for.

Every change to a grant is reported, and no file has to be deleted by hand. To fit a grant, determine how many CPUs it
may have now (`_sizes`), which of its CPUs it keeps (`_kept`), the nearest replacements for the rest (`_replacement`),
and the grant on these CPUs (`_lying_on`).
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
    """What a State is fitted to. The CPUs of `strangers`, containers pinned by hand, are never replacements.
    `at_floors`: each grant gets the fewest CPUs that it may have.
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
    """Return a State that is lawful on this machine under these settings, and a note of each grant that changed.

    Replacements are never taken from `strangers`, the CPUs of containers pinned by hand.

    1. Under the policy `none` only the policy's name and the online CPUs are updated.
    2. The reservation follows the settings, and takes precedence over grants.
    3. In the order of the grants, each keeps the CPUs that it may, and gets the nearest replacements for the rest.
    4. A grant that cannot be completed, or for which the pool has no room, becomes a refusal: CPUs that would not be
       granted are not kept either.
    5. Under `dynamic` all grants are fitted at their floors if that leaves room for more grants. Then each keeps as
       many of the CPUs above its floor as there is room for.
    6. Under `dynamic` the CPUs that a grant loses are leaving it, as in any take. CPUs that are offline or reserved now
       are lost at once.
    """
    # 1. The policy `none`.
    if settings.policy is PolicyName.NONE:
        return replace(state, policy=settings.policy.value, online=topology.online), ()
    fit = _Fit(topology, settings, strangers)
    fitted = _fitted(state, fit)
    # 5. Smaller, rather than not at all.
    if fit.is_dynamic and RefusalCode.POOL_WOULD_BE_EMPTY in _refused(state, fitted):
        smaller = _fitted(state, replace(fit, at_floors=True))
        if len(_refused(state, smaller)) < len(_refused(state, fitted)):
            fitted = _filled_up(state, smaller, fit)
    # 6. With notice.
    if fit.is_dynamic:
        fitted = _with_notice(state, fitted)
    return fitted, tuple(_notes(state, fitted))


def _in_order(state: State) -> list[Assignment]:
    return sorted(state.assignments.values(), key=lambda each: each.since)


def _refused(state: State, fitted: State) -> list[RefusalCode]:
    """Return why grants of the State became refusals in the fitted State."""
    return [refused.refusal.code for key, refused in fitted.refusals.items() if key in state.assignments]


def _fitted(state: State, fit: _Fit) -> State:
    """Return the State after steps 2 to 4."""
    # 2. The reservation.
    fitted = _without_grants(state, fit)
    # 3. Grant by grant.
    for grant in _in_order(state):
        # 4. Whole, or not at all.
        made = _refitted(fitted, fit, grant, _spared(state, fit, grant))
        fitted = fitted.refused(made) if isinstance(made, Refused) else fitted.holding(made)
    return fitted


def _filled_up(state: State, fitted: State, fit: _Fit) -> State:
    """Return the State in which each grant keeps as many of its CPUs above its floor as there is room for."""
    for grant in _in_order(state):
        if now := fitted.assignments.get(grant.container):
            left = room(fit.topology, fit.settings, fitted, fit.strangers)
            own = replace(left, givable=left.givable & grant.cpus)
            kept = own.spare(by_cores=FULL_PCPUS_ONLY in _options(fit, grant))
            # Give up the newest CPUs first if that keeps as many.
            had = _lying_on(fit, grant, now.cpus | own.givable)
            first = own.givable - given_up(fit.topology, had, len(own.givable) - len(kept))
            if len(first) == len(kept) and left.objection(first) is None:
                kept = first
            fitted = fitted.holding(_lying_on(fit, grant, now.cpus | kept))
    return fitted


def _with_notice(state: State, fitted: State) -> State:
    """Return the fitted State with the CPUs that grants lost as leaving, except those offline or reserved now."""
    for id, grant in state.assignments.items():
        now = fitted.assignments.get(id)
        lost = (grant.cpus & fitted.online) - fitted.reserved - now.cpus if now else EMPTY
        if now and lost:
            cause = FewerToShare(name=grant.name, count=len(lost), floor=grant.demand.floor)
            fitted = changed(fitted.holding(replace(now, cpus=now.cpus | lost)), id, cause, lost=lost)
    return fitted


def _without_grants(state: State, fit: _Fit) -> State:
    """Return the State on this machine under these settings, without any grant."""
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
    """Return the CPUs to use as replacements only if there are no others: those of later grants; when fitting at
    floors, those of all other grants, because these leave their lost CPUs with notice.
    """
    others = (each for each in state.assignments.values() if each is not grant)
    return union(each.cpus for each in others if fit.at_floors or each.since > grant.since)


def _refitted(fitted: State, fit: _Fit, grant: Assignment, later: CPUSet) -> Assignment | Refused:
    """Return the grant on the CPUs that it keeps and on replacements, or its refusal."""
    kept = _kept(fitted, fit, grant)
    free = fitted.assignable - fit.strangers - kept
    for size, source in _trials(fit, grant, free, later):
        replaced = _replacement(fit, grant, source, kept, size - len(kept))
        if replaced is not None:
            why = room(fit.topology, fit.settings, fitted, fit.strangers).objection(kept | replaced)
            return (
                _refusal_of(grant, with_facts(why, had=grant.cpus, would_fit=()))
                if why
                else _lying_on(fit, grant, kept | replaced)
            )
    return _refusal_of(grant, Refusal(RefusalCode.CPUS_LOST, Lost(grant.cpus, grant.demand.cpus)))


def _trials(fit: _Fit, grant: Assignment, free: CPUSet, later: CPUSet) -> Iterator[tuple[int, CPUSet]]:
    """Yield the trials in turn: a total number of CPUs, and the source of replacements."""
    size, fewest = _sizes(fit, grant)
    yield size, free - later
    yield fewest, free - later
    # CPUs of other grants are used only for the fewest CPUs that it may have.
    yield fewest, free


def _sizes(fit: _Fit, grant: Assignment) -> tuple[int, int]:
    """Return how many CPUs a grant should have now, and the fewest that it may have: the number asked for, twice; under
    `dynamic`, its size so far and its floor.
    """
    demand = grant.demand
    if fit.at_floors:
        return demand.floor, demand.floor
    if not fit.is_dynamic:
        return demand.cpus, demand.cpus
    return min(max(len(grant.cpus), demand.floor), demand.ceiling), demand.floor


def _kept(fitted: State, fit: _Fit, grant: Assignment) -> CPUSet:
    """Return the CPUs that a grant keeps: no more than it should have, its original set first."""
    kept, most = grant.cpus & fitted.assignable, _sizes(fit, grant)[0]
    first = grant.original & kept
    if len(kept) <= most:
        return kept
    if len(first) >= most:
        return packed(fit.topology, first, most) or first
    return first | (packed(fit.topology, kept - first, most - len(first)) or EMPTY)


def _replacement(fit: _Fit, grant: Assignment, source: CPUSet, kept: CPUSet, count: int) -> CPUSet | None:
    """Return `count` replacements, as near as possible to the CPUs kept; None if there are fewer."""
    if count > len(source):
        return None
    return beside(fit.topology, around(fit.topology, source, kept), count, _options(fit, grant))


def _options(fit: _Fit, grant: Assignment) -> tuple[str, ...]:
    return Terms(fit.settings, grant.demand).options


def _lying_on(fit: _Fit, grant: Assignment, cpus: CPUSet) -> Assignment:
    """Return the grant on these CPUs. Under `dynamic` its original set is as large as its floor; layers the rest."""
    if not fit.is_dynamic:
        original = grant.original & cpus or cpus
        return replace(grant, cpus=cpus, original=original, layers=(), leaving=None, cooling=None)
    original = _original(fit.topology, grant, cpus)
    layers = tuple(part for layer in grant.layers if (part := (layer & cpus) - original))
    if rest := cpus - original - union(layers):
        layers = (rest, *layers)
    # CPUs lost here are offline or cannot be held: there is no notice.
    left = grant.leaving.within(fit.topology.online - cpus) if grant.leaving else None
    return replace(grant, cpus=cpus, original=original, layers=layers, leaving=left)


def _original(topology: Topology, grant: Assignment, cpus: CPUSet) -> CPUSet:
    """Return the original set of a grant on these CPUs, as large as its floor: its remains, and the nearest CPUs."""
    original, size = grant.original & cpus, grant.demand.floor
    if len(original) > size:
        return packed(topology, original, size) or original
    return original | beside(topology, around(topology, cpus - original, original), size - len(original), ())


def _refusal_of(grant: Assignment, refusal: Refusal) -> Refused:
    return Refused(container=grant.container, name=grant.name, refusal=refusal, demand=grant.demand)


def _notes(state: State, fitted: State) -> Iterator[Note]:
    for grant in _in_order(state):
        if refused := fitted.refusals.get(grant.container):
            yield Note(name=grant.name, held=grant.cpus, refusal=refused.refusal)
        elif (cpus := fitted.assignments[grant.container].cpus) != grant.cpus:
            yield Note(name=grant.name, held=grant.cpus, holds=cpus)
