"""Orders for many groups at once: those that are nothing but a line for a group that is watched, in one call.

An arrival moves all shared containers, and is told nothing before the last of them has left. So what their orders have
in common is done once, and the rest in C (`reflex_place`): it takes half as long. Whatever is not plain, or fails, is
left to `Enforcer.order`, which has the rules in full and tells why. Called under the hand's lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from sidecar.decide.orders import Update
from sidecar.hand.group_files import GroupFiles
from sidecar.hand.groups import Footing, WatchedGroup
from sidecar.hand.libc_calls import Placed, Placing, Queue
from state.cpuset import CPUSet


def order_many(queue: Queue, files: GroupFiles, orders: Iterable[tuple[WatchedGroup, Update]]) -> dict[str, CPUSet]:
    """Write CPUs into groups, which are guarded with these from now on. Return what those have effectively that were
    written, by the ids of their containers: all others are to be ordered one by one.
    """
    able = [(group, update.cpus) for group, update in orders if _is_plain(group, update)]
    if not able:
        return {}
    lines = [Placing(group.watch, group.parent.fd, group.name, str(cpus).encode()) for group, cpus in able]
    found: dict[str, CPUSet] = {}
    for (group, cpus), placing, placed in zip(able, lines, queue.place(lines, files.effective_name), strict=True):
        if placed is Placed.NOT:
            continue
        group.footing, group.expected, group.line = Footing.KNOWN, placing.line, placing.line
        group.is_answered, group.is_closed, group.tries = False, False, 0
        if placed is Placed.EXACTLY:
            found[group.id] = cpus
            continue
        # What cannot be read is gone: the caller finds out.
        with suppress(OSError), group.opened() as fd:
            found[group.id] = files.effective(fd)
    return found


def _is_plain(group: WatchedGroup, update: Update) -> bool:
    """Return whether an order is a line alone, for a group that is watched, and inside which no walk is under way."""
    is_walking = group.inner is not None and group.inner.is_walking
    return group.watch >= 0 and not is_walking and not group.shut and update == Update(cpus=update.cpus)
