"""Writing a group's line where groups inside it may be in the way, as on cgroup v1 (`inner_groups`)."""

from __future__ import annotations

import errno
from collections.abc import Callable

from sidecar.hand.group_files import CPUS
from sidecar.hand.groups import WatchedGroup
from sidecar.hand.inner_groups import InnerGroups, has_inner
from sidecar.hand.libc_calls import write_line
from sidecar.ports import GroupWritten, HandNews


def brings(
    version: int, group: WatchedGroup, fd: int, line: bytes, tell: Callable[[HandNews], None], *, has_changed: bool
) -> bool:
    """Write a line into an open group, and what follows from it into those inside; return whether that is over. Raise
    OSError. `has_changed`: another line than before, so that those inside have other CPUs as well. `version` is that of
    cgroups.
    """
    if version == 2:
        write_line(fd, CPUS, line)
        return True
    is_walking = group.inner is not None and group.inner.is_walking
    if not is_walking and not (has_changed and has_inner(fd)):
        try:
            write_line(fd, CPUS, line)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
        else:
            return True
    if group.inner is None:
        group.inner = InnerGroups()
    try:
        return group.inner.bring(fd, line)
    finally:
        for id in group.inner.moved():
            tell(GroupWritten(id))
