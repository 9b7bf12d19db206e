"""Which others may run on a container's CPUs, as sentences: neighbours, and clashes with those pinned by hand. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sidecar.decide.books.clashes import Clash, clashes
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.facts import ViewKind
from sidecar.decide.moves.alone import is_alone, neighbours, unknown_insiders
from sidecar.decide.world import World
from sidecar.words.counts import agree, named, some
from sidecar.words.neighbour_names import SHOWN, may_run_there
from state.cpuset import CPUSet, union

_NEVER_MOVED: Final = "it is never moved, and no other container gets these CPUs exclusively"
_UNIT_NEVER_MOVED: Final = "it is never moved, and no container gets these CPUs exclusively"
_NEVER_MOVED_AND_RESTS: Final = "it is never moved, but others may be granted these CPUs while it does not run"

_BORN_INSIDE: Final = "just born inside its cgroup"

UNSEEN: Final = "the engine does not answer, and its containers start without it: others may be there unseen"

UNSEEN_UNITS: Final = "systemd does not answer: the host's own processes may be there unseen"


def company(world: World, container: Container) -> str:
    """Return which containers may run on the CPUs of one with a grant, as a clause; "" if none."""
    known = [(each.view.name, each.wish.standing.value) for each in neighbours(world, container)]
    unknown = [(each.short, _BORN_INSIDE) for each in unknown_insiders(world, container)]
    beside = may_run_there([*unknown, *known])
    unseen = UNSEEN if world.is_blind else "" if world.sources.are_seen else UNSEEN_UNITS
    return "; ".join(filter(None, (beside, unseen)))


def whether_alone(world: World, container: Container) -> str:
    """Return that a settled container with a grant is alone, or which others may run there, as a clause."""
    return "alone" if is_alone(world, container) else company(world, container) or "not alone"


def clash_text(found: Sequence[Clash]) -> str:
    """Return what is wrong, and what to do, where containers are pinned by hand to CPUs of one owner; "" for none."""
    if not found:
        return ""
    names = some([each.pinned.view.name for each in found[:SHOWN]], of=len(found))
    where = named(union(each.cpus for each in found))
    return (
        f"pinned by hand to its {where}: {names}; no other CPUs that it may have are free: "
        "recreate the pinned container elsewhere, or this one"
    )


def pin_text(world: World, container: Container) -> str:
    """Return what a container has of the CPUs to which it is pinned by hand without the right to stay there."""
    pin, wanted = container.wish.pin, container.wish.pin & world.state.online
    found, head = wanted - world.state.exclusive - world.state.leaving, f"pinned by hand to {named(pin)}"
    if not wanted:
        return f"{head}, {agree(len(pin), 'which is', 'all of which are')} offline: it runs in the shared pool"
    if found != wanted:
        left = f"it has {named(found)}" if found else "it runs in the shared pool"
        return f"{head}, of which others were granted {named(wanted - found)}: {left}"
    if found <= CPUSet.from_mask(world.kept_by_pin(container)):
        return f"{head}, which {agree(len(pin), 'is', 'are')} granted to no other container while this one runs"
    if container.is_idle:
        return f"{head}, which another container may be granted while this one does not run"
    return f"{head}, until another container is granted {agree(len(pin), 'it', 'them')}"


def pinned_text(world: World, container: Container) -> str:
    """Return where a container is pinned by hand, and what that means for others, as a clause."""
    if (home := world.home_of(container)) and home != container.place.seen:
        head = f"pinned by hand to {named(home)}, and runs on {named(container.place.seen)}"
        return f"{head}: it goes back when no other container has its own CPUs exclusively"
    if world.is_displaced(container) and not home:
        pin = CPUSet.parse(world.state.originals[container.view.key].cpuset)
        return f"pinned by hand to {named(pin)}, {_offline(pin)}: it goes back when any of that is online"
    pin, seen = container.place.configured, container.place.seen
    if not world.has_pin_online(container):
        head = f"pinned by hand to {named(pin)}, {_offline(pin)}"
        return head if container.is_idle else f"{head}: it runs on {named(seen)}, which others may be granted"
    head = (
        f"pinned by hand to {named(seen)}"
        if seen <= pin
        else f"pinned by hand to {named(pin)}, and seen on {named(seen)}"
    )
    found = [each for each in clashes(world) if each.pinned.view.key == container.view.key]
    if container.view.kind is ViewKind.UNIT and not found:
        return f"{head}: {_UNIT_NEVER_MOVED}"
    if container.wish.standing is not Standing.STRANGER or not found:
        return f"{head}: {_NEVER_MOVED}" if world.holds_its_pin(container) else f"{head}: {_NEVER_MOVED_AND_RESTS}"
    owners = some([each.owner.name for each in found[:SHOWN]], of=len(found))
    shared = named(union(each.cpus for each in found))
    return f"{head}: it is never moved, and shares {shared} with {owners}, which had them and cannot move"


def _offline(cpus: CPUSet) -> str:
    return f"{agree(len(cpus), 'which is', 'all of which are')} offline"
