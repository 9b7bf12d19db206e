"""The laws of containers that are pinned by hand: nothing is granted where they are, and grants move away from them."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.terms import Terms
from sidecar.decide.placement.options import EFFICIENT, FULL_PCPUS_ONLY, PERFORMANCE
from sidecar.decide.settings import IsolatedRule, PolicyName, Settings, TenantRight
from state.cpuset import EMPTY, CPUSet, union
from state.demand import NumaRule
from state.model import Assignment
from tests.support.decide.reality import Reality

_CHOOSY = frozenset((EFFICIENT, FULL_PCPUS_ONLY, PERFORMANCE))


def granted_where_pinned(reality: Reality) -> Iterator[str]:
    """Yield what the last burst granted although a container is pinned there by hand."""
    world, before = reality.world, reality.planned_from.state
    for key, grant in world.state.assignments.items():
        was = before.assignments.get(key)
        had = was.cpus | (was.leaving.cpus if was.leaving else EMPTY) if was else EMPTY
        if both := (grant.cpus - had) & _pins(reality):
            yield f"{grant.name} was granted {both}, to which another is pinned by hand"


def beside_the_pinned(reality: Reality) -> Iterator[str]:
    """Yield grants on which a container that is pinned by hand runs, although enough other CPUs are free, or although
    the owner gained these above its floor (under `static`: its number). Grants do not count whose rules may exclude the
    free ones, or the rest; nor containers that run there only because their pins are offline.
    """
    world = reality.world
    if world.settings.policy is PolicyName.NONE or world.settings.isolated is not IsolatedRule.IGNORE:
        return
    strangers = [
        (real.effective or EMPTY, world.containers[key].place.configured)
        for key, real in reality.containers.items()
        if key in world.containers
        and world.containers[key].wish.standing is Standing.STRANGER
        and not world.containers[key].place.configured.isdisjoint(world.topology.online)
    ]
    pins, asked = union(runs for runs, _ in strangers), union(runs & pin for runs, pin in strangers)
    for grant in world.state.assignments.values():
        both, free = grant.cpus & pins, _free(reality, grant)
        if both and len(grant.cpus & _pins(reality)) <= len(free) and not _is_choosy(reality, grant):
            yield f"{grant.name} shares {both} with a pinned container, and {free} are free"
        gained = (grant.cpus - grant.original) & asked
        is_dynamic = world.settings.policy is PolicyName.DYNAMIC
        least = grant.demand.floor if is_dynamic else grant.demand.cpus
        if gained and len(grant.cpus - gained) >= least and not _is_choosy(reality, grant):
            yield f"{grant.name} shares {gained} with a pinned container, and gained them above its floor"


def _pins(reality: Reality) -> CPUSet:
    """Return where containers that are pinned by hand run, or would start, if tenants may pin, or the owner of the host
    keeps them out (keep-a-container-out). One whose CPUs are all offline is pinned nowhere.
    """
    world = reality.world
    may_pin = TenantRight.PIN in world.settings.may
    return union(
        CPUSet.from_mask(each.footprint)
        for each in world.containers.values()
        if each.wish.standing is Standing.STRANGER
        and (may_pin or not each.is_idle or _is_listed(each, world.settings))
        and not each.place.configured.isdisjoint(world.topology.online)
    )


def _is_listed(container: Container, settings: Settings) -> bool:
    """Return whether a pattern of `unmanaged` names it. Histories have no patterns of labels."""
    return any(fnmatchcase(container.view.name, pattern) for pattern in settings.unmanaged)


def _free(reality: Reality, grant: Assignment) -> CPUSet:
    """Return the CPUs that a grant may have instead: those that are not kept for a container either that goes back to
    where it was pinned, as soon as all of that is free (0047).
    """
    world, state = reality.world, reality.world.state
    ways_home = union(world.home_of(each) for each in world.containers.values())
    return state.online - ways_home - state.exclusive - state.reserved - _pins(reality) - state.leaving - grant.cpus


def _is_choosy(reality: Reality, grant: Assignment) -> bool:
    terms = Terms(reality.world.settings, grant.demand)
    return terms.numa is not NumaRule.NONE or not _CHOOSY.isdisjoint(terms.options)
