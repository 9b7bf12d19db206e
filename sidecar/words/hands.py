"""Sentences about the hand on the cgroups, and about programs that write where it writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sidecar.decide.container.container import Container
from sidecar.decide.container.grip import Closed, Guarded
from sidecar.decide.covering import is_answered, may_cover
from sidecar.decide.homes import has_set_home
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from sidecar.words.counts import agree, counted, named
from state.cpuset import CPUSet

SWITCHED_OFF: Final = "the configuration switches the hand off"

MOUNT: Final = "mount the host's /sys/fs/cgroup into the sidecar read-write"


def no_hand(reason: str) -> str:
    """Return that the engine alone changes CPUs, and why."""
    return f"the engine alone changes CPUs: {reason}"


def unwritable(root: str) -> str:
    """Return why a hierarchy of cgroups cannot be written, with the cure."""
    return f"{root} cannot be written, because it is mounted read-only or belongs to another user: {MOUNT}"


def parents_taken(parents: Sequence[str]) -> tuple[str, str]:
    """Return that another sidecar watches these parents, and the cure."""
    below = " and ".join(parents)
    own = "a cgroup parent of their own (`--cgroup-parent`)"
    cure = f"give this engine's containers {own}, and the sidecar that as `hand`"
    return f"another sidecar answers births below {below}", cure


def taken_around(world: World, container: Container) -> str:
    """Return that another sidecar watches the parent below which this container runs, and writes there too, with the
    cure; "" if none does.
    """
    taken = world.hand.taken if world.hand else ()
    below = f"{container.view.found_below}/"
    around = [each for each in taken if below.startswith(f"{each}/")]
    return ": ".join(parents_taken(around)) if around else ""


def reflex_told(*, fits: bool, is_there: bool) -> str:
    """Return what answers births: the compiled reflex if it fits, or else the watcher in Python, and why."""
    if fits:
        return "the compiled reflex answers births"
    why = "is of another version, or cannot be read" if is_there else "is not installed"
    return f"the watcher in Python answers births, later on a busy host: the compiled reflex {why}"


def births_told(world: World) -> str:
    """Return whether the hand answers births, or why it does not; "" while that is not known."""
    hand = world.hand
    if hand is None:
        return no_hand(world.handless) if world.handless else ""
    if world.settings.policy is PolicyName.NONE:
        return "births are not answered: the policy is none"
    if world.is_releasing:
        return "births are not answered: every container is being released"
    if world.settings.shared_slice:
        return "births are not answered: the shared group confines them"
    if not hand.parents and hand.taken:
        return no_hand(": ".join(parents_taken(hand.taken)))
    if not hand.parents:
        return "the kernel first: births are answered once a cgroup parent of containers exists"
    if not hand.is_answering:
        return "births are not answered yet"
    stuck = f"; newborn groups on {named(hand.stuck)} cannot be written yet" if hand.stuck else ""
    others = f"; another sidecar answers those below {' and '.join(hand.taken)}" if hand.taken else ""
    return f"the kernel first: the sidecar answers births below {' and '.join(hand.parents)}{others}{stuck}"


def stuck_told(world: World) -> str:
    """Return where groups are that the hand cannot write, and what follows; "" if there are none."""
    hand = world.hand
    if hand is None or not hand.stuck or not hand.is_answering:
        return ""
    return (
        f"newborn groups on {named(hand.stuck)}, below {' and '.join(hand.parents)}, cannot be written, so no "
        "container is alone there: if they outlast their containers, remove them"
    )


def parents_shut(parents: Sequence[str]) -> str:
    """Return that the hand may not enter these parents any more, with the cure."""
    below, them = " and ".join(parents), agree(len(parents), "it", "them")
    return (
        f"the owner or the mode of {below} was changed, so no birth below {them} is answered, and the engine alone "
        f"changes CPUs there: give the sidecar CAP_DAC_OVERRIDE, or give {them} back to root with mode 755, below "
        "/sys/fs/cgroup"
    )


def leg_told(world: World, container: Container) -> str:
    """Return by which leg a container is moved, as a sentence; "" if it does not run, or is not moved, and while it is
    not known whether there is a hand.
    """
    hand = world.hand
    if container.is_idle or not is_answered(world, container):
        return ""
    if hand is None:
        is_moved = world.settings.policy is not PolicyName.NONE and not world.is_releasing
        return f"The engine alone changes its CPUs: {world.handless}." if world.handless and is_moved else ""
    if not hand.is_answering:
        return ""
    if isinstance(container.grip, Guarded):
        return "Its CPUs are written to its cgroup directly, and guarded there; the engine keeps the record."
    if isinstance(container.grip, Closed) and not container.grip.is_missing:
        return f"The engine alone changes its CPUs: {container.grip.reason}."
    if container.is_covered or may_cover(world, container):
        return ""
    if taken := taken_around(world, container):
        return f"The engine alone changes its CPUs: {taken}."
    parent = container.view.cgroup_parent
    if not parent and (why := home_missing(world, container)):
        return f"The engine alone changes its CPUs: {why}."
    return f"The engine alone changes its CPUs: its cgroup parent{f' {parent}' if parent else ''} is not watched."


def no_such_home(parents: Sequence[str]) -> str:
    """Return that the parents are not there that `hand` names as the engine's default."""
    return f"the cgroup {' and '.join(parents)}, which `hand` names, was not found"


def home_missing(world: World, container: Container) -> str:
    """Return that a container that names no parent may be born where the configuration says, and that the hand has not
    found that parent, with the cure; "" if it has.
    """
    hand, view = world.hand, container.view
    missing = [each for each in hand.home if each not in (*hand.met, *hand.taken)] if hand else []
    if hand is None or not missing or not has_set_home(world, view.engine):
        return ""
    told = no_such_home(missing)
    if view.found_below not in hand.parents:
        return f"{told}: correct `hand`, and restart the sidecar"
    return (
        f"{told}, and its next start may be there: births below {view.found_below}, where it was found, are answered "
        f'all the same; set `hand = "{view.found_below}"`, and restart the sidecar'
    )


def many_writes(name: str, found: CPUSet, times: int, *, is_wrested: bool = False) -> str:
    """Return that another program writes the cpuset of a container, `found` last. `is_wrested`: so often that the hand
    may lose.
    """
    written, often = named(found) if found else "no CPUs", counted(times, "time")
    if is_wrested:
        return (
            f"another program writes the cpuset of {name} faster than it is surely corrected, so no container is alone "
            f"beside it: {often} so far, last to {written}; end it, or recreate it without a writable /sys/fs/cgroup"
        )
    return f"another program writes the cpuset of {name}, corrected each time: {often} so far, last to {written}"


def keep_out(name: str) -> str:
    """Return the cure where a container changed the owner or the mode of its cgroup."""
    return f"give the sidecar CAP_DAC_OVERRIDE, and recreate {name} without a writable /sys/fs/cgroup"


def out_of_hand(name: str, found: CPUSet, reason: str, *, is_wrested: bool = True) -> str:
    """Return that the owner or the mode of a container's cgroup was changed, so that the hand cannot correct it in this
    run. It is `found` there last, EMPTY if that cannot be read; unless `is_wrested`, it was calm for a while.
    """
    told = f"{name} is out of the sidecar's hand, as the owner or the mode of its cgroup was changed: {reason}"
    if not is_wrested:
        calm = "nothing was written there lately, and the engine alone moves it until its next start"
        return f"{told}; {calm}: {keep_out(name)}"
    place = f"it was last seen on {named(found)}" if found else "where it runs cannot be read"
    return f"{told}; {place}, and no container is alone beside it: {keep_out(name)}"


def was_out_of_hand(name: str) -> str:
    """Return that a container's cgroup was closed to the hand in an earlier run, so short a time ago that no other
    counts as alone beside it.
    """
    return (
        f"{name} was out of the sidecar's hand before its last start, as the owner or the mode of its cgroup had been "
        f"changed: no container is alone beside it until a minute without that: {keep_out(name)}"
    )


def unverified(name: str, cpus: CPUSet, reason: str) -> str:
    """Return that an engine accepted an order for a container, and that its cgroup cannot be read."""
    return f"the engine accepted {named(cpus)}, but where {name} runs cannot be read: {reason}: {keep_out(name)}"
