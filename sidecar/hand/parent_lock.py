"""The lock that keeps a second hand off a cgroup parent: two hands on one group would never come to rest.

It is an flock(2) on the directory itself, in the hierarchy with cpusets. Every sidecar sees the same directory,
whatever it has mounted where, and the kernel frees the lock with the process, however it ends. cgroup directories take
such locks on v1 and v2; a file system that does not is used without.
"""

from __future__ import annotations

import errno
import fcntl
import os


def lock_directory(fd: int) -> int:
    """Lock an open directory, which may be open as a mere path. Return the descriptor that holds the lock until it is
    closed. Raise BlockingIOError if another process has locked it, OSError if it cannot be opened.
    """
    lock = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK):
            os.close(lock)
            raise
    return lock
