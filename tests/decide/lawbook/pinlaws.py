"""The laws of containers that are pinned by hand: nothing is granted where they are, and grants move away from them."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.terms import Terms
from sidecar.decide.facts import Phase, ViewKind
from sidecar.decide.placement.options import EFFICIENT, FULL_PCPUS_ONLY, PERFORMANCE
from sidecar.decide.settings import IsolatedRule, PolicyName, Settings, TenantRight
from sidecar.decide.world import World
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
    free ones, or the rest; nor containers that run there only because their pins are offline. For one that the sidecar
    moved, its own CPUs count, and not where it waits for these: there it makes way. A member of the shared group runs
    only where the group does.
    """
    world = reality.world
    if world.settings.policy is PolicyName.NONE or world.settings.isolated is not IsolatedRule.IGNORE:
        return
    strangers = [
        (real.effective or EMPTY, world.containers[key].place.configured)
        for key, real in reality.containers.items()
        if key in world.containers
        and world.containers[key].wish.standing is Standing.STRANGER
        and not was_moved(world, world.containers[key])
        and not world.containers[key].place.configured.isdisjoint(world.topology.online)
    ]
    outside = [each for each in world.containers.values() if not each.view.in_shared_group]
    strangers += [(own, own) for each in outside if (own := own_of_the_moved(world, each))]
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


def kept_for_no_pin(reality: Reality) -> Iterator[str]:
    """Yield CPUs that are kept for a container that is pinned by hand, and to which nobody pinned it: those where the
    sidecar put it are the pool's. One that others put elsewhere, or whose place is not sure, keeps that as well.
    """
    world = reality.world
    for key, real in reality.containers.items():
        container = world.containers.get(key)
        if container is None or container.wish.standing is not Standing.STRANGER or container.is_doubtful:
            continue
        if not real.is_ours or real.was_tampered or real.kind is not ViewKind.CONTAINER:
            continue
        pinned = CPUSet.parse(real.had.cpuset)
        if too_many := CPUSet.from_mask(world.kept_by_pin(container)) - pinned:
            yield f"{too_many} are kept for {real.name}, which is pinned to {pinned}"


def _pins(reality: Reality) -> CPUSet:
    """Return where containers that are pinned by hand run, or would start, if tenants may pin, or the owner of the host
    keeps them out (keep-a-container-out). One whose CPUs are all offline is pinned nowhere.
    """
    world = reality.world
    may_pin = TenantRight.PIN in world.settings.may
    return union(
        own_of_the_moved(world, each) if was_moved(world, each) else CPUSet.from_mask(each.footprint)
        for each in world.containers.values()
        if each.wish.standing is Standing.STRANGER
        and (may_pin or not each.is_idle or _is_listed(each, world.settings))
        and (was_moved(world, each) or not each.place.configured.isdisjoint(world.topology.online))
    )


def was_moved(world: World, container: Container) -> bool:
    """Return whether the sidecar moved a container that is pinned by hand, and it is to go back."""
    is_pinned = container.wish.standing is Standing.STRANGER and not container.wish.is_kept_out
    has_way = world.settings.policy is not PolicyName.NONE and container.view.phase is not Phase.DEAD
    return is_pinned and has_way and container.view.key in world.state.originals


def own_of_the_moved(world: World, container: Container) -> CPUSet:
    """Return the online CPUs to which its owner pinned a container that the sidecar moved; none for all others."""
    if not was_moved(world, container):
        return EMPTY
    return CPUSet.parse(world.state.originals[container.view.key].cpuset) & world.state.online


def _is_listed(container: Container, settings: Settings) -> bool:
    """Return whether a pattern of `unmanaged` names it. Histories have no patterns of labels."""
    return any(fnmatchcase(container.view.name, pattern) for pattern in settings.unmanaged)


def _free(reality: Reality, grant: Assignment) -> CPUSet:
    """Return the CPUs that a grant may have instead: those that are not kept for a container either that goes back to
    where it was pinned, as soon as all of that is free (0047).
    """
    world, state = reality.world, reality.world.state
    ways_home = union(own_of_the_moved(world, each) for each in world.containers.values())
    return state.online - ways_home - state.exclusive - state.reserved - _pins(reality) - state.leaving - grant.cpus


def _is_choosy(reality: Reality, grant: Assignment) -> bool:
    terms = Terms(reality.world.settings, grant.demand)
    return terms.numa is not NumaRule.NONE or not _CHOOSY.isdisjoint(terms.options)
