"""Where one container may be sent now: rules 1 to 4 of `plan`, from footprints alone."""

from __future__ import annotations

from sidecar.decide.books.grants import options_of
from sidecar.decide.container.container import Container
from sidecar.decide.container.footprint import Reach
from sidecar.decide.following import before_what_follows
from sidecar.decide.placement.whole_cores import is_by_cores
from sidecar.decide.world import World
from state.cpuset import CPUSet


def target(world: World, container: Container, desired: CPUSet, reached: Reach) -> CPUSet:
    """Return the CPUs to which a container may be sent now. Never empty."""
    # Where it is itself matters to one with a grant alone.
    footprint = world.counted(container) if container.view.key in world.state.assignments else 0
    return _target(world, container, desired, reached, footprint)


def birthplace(world: World, container: Container, desired: CPUSet, reached: Reach) -> CPUSet:
    """Return the CPUs on which a container may be born: where it may be sent now. If its start is held, and an order
    may wait in the engine behind that, it is born only after its own answer, and before that order: so what waits
    behind its start, or behind another one like it, is in its way as little as in the way of the answer (`starts`, 7).
    """
    if not container.is_followed:
        return target(world, container, desired, reached)
    return _target(world, container, desired, before_what_follows(world), container.coming_by_hand)


def _target(world: World, container: Container, desired: CPUSet, reached: Reach, footprint: int) -> CPUSet:
    wanted, reserved = desired.mask, world.state.reserved.mask
    grant = world.state.assignments.get(container.view.key)
    if container.is_idle and not container.is_starting:
        # 4. It runs nothing yet.
        written = container.written.mask
        own = wanted | (grant.leaving.cpus.mask if grant and grant.leaving else 0)
        stays = 0 if written & ~own else written & wanted
        conflicting = reached.other_exclusive(footprint) if grant else world.promised
    else:
        # 1. Stay. 2. Enter.
        is_stranded = not container.present & world.state.online
        # What it has a doubt on is not its own: only an owner's footprint is a part of what is exclusive.
        claimed = reached.other_exclusive(footprint) if grant else reached.exclusive
        claimed |= world.newborns | world.starting
        stays = wanted & (~claimed if is_stranded else container.present.mask)
        conflicting = reached.others(footprint) if grant else reached.exclusive
    if grant:
        lent = world.state.lent.mask
        stays &= ~(world.state.leaving.mask & grant.cpus.mask & reached.other_exclusive(footprint) | lent)
        conflicting |= lent
    closed = wanted & conflicting & ~reserved
    if closed and grant and is_by_cores(options_of(world, grant.demand)):
        closed |= world.topology.whole_cores(CPUSet.from_mask(closed)).mask
    allowed = stays | (wanted & ~closed)
    # 3. Park.
    allowed = allowed or world.state.refuge.mask
    return desired if allowed == wanted else CPUSet.from_mask(allowed)
