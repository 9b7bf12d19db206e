"""Pods that are pinned to CPUs which those in them may not have: their own group is widened, and narrowed again.

A pod's cpuset is that of the group around its containers, and no container leaves that. One that is ordered elsewhere,
because its pin is another one's CPU, could not go. So the pod's group gets what is ordered in it, beside what it had.
Each container in it has a line of its own, so none gets more than it is ordered or answered.

1. Only an order widens a pod. A newborn in one may belong to those that may be pinned there: until more is known, no
   owner is alone beside it (`GroupStuck`).
2. A pod is narrowed again when births are answered no more, as under the policy `none`. Version 1 refuses that as long
   as one in it has other CPUs, so it is tried again with each that is put back. The command `release` has no hand.
"""

from __future__ import annotations

import os
from contextlib import suppress

from sidecar.hand.group_files import CPUS
from sidecar.hand.group_names import GroupKind, recognized
from sidecar.hand.groups import GroupTable, Parent
from sidecar.hand.libc_calls import read_line, write_line
from sidecar.hand.standing_answers import StandingAnswers, parsed
from state.cpuset import EMPTY


def is_pod(table: GroupTable, parent: Parent) -> bool:
    """Return whether a parent is the group of a pod; or of builds, where nothing is ordered."""
    above = table.parents.get(os.path.dirname(parent.path))
    seen = recognized(os.fsencode(os.path.basename(parent.path)), above.kind) if above else None
    return seen is not None and seen.kind is GroupKind.PARENT


def widen(table: GroupTable, parent: Parent, line: bytes) -> None:
    """Give a group these CPUs as well, if it is a pod's that lacks any. Raise OSError where it cannot have them."""
    if not is_pod(table, parent):
        return
    had = read_line(parent.fd, CPUS)
    own, wanted = parsed(had) or EMPTY, parsed(line) or EMPTY
    if own and not wanted <= own:
        write_line(parent.fd, CPUS, str(own | wanted).encode())
        parent.pinned = parent.pinned or had


def narrow(table: GroupTable, answers: StandingAnswers | None) -> None:
    """Give each pod back what it was pinned to, unless births are answered; what cannot be done now is left to the next
    call.
    """
    for parent in table.parents.values():
        if parent.pinned and answers and not answers.lines[0]:
            with suppress(OSError):
                write_line(parent.fd, CPUS, parent.pinned)
                parent.pinned = b""
