"""A group of the scheduler's for one process, with a weight: what a container has, and a service of systemd.

Without one, a process shares its CPUs with all that was started from the same session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_V1: Final = Path("/sys/fs/cgroup/cpu")
_V2: Final = Path("/sys/fs/cgroup")

_SHARES: Final = 10.24
"""Of version 1 for a weight of 1: 1024 are 100."""


@contextmanager
def weighed(weight: int) -> Iterator[tuple[str, ...]]:
    """Yield what is put before a command so that it runs in a group of this weight, 100 as by default; 0: in none."""
    if not weight:
        yield ()
        return
    is_v1 = (_V1 / "cpu.shares").exists()
    group = (_V1 if is_v1 else _V2) / f"cpuset-bench-{os.getpid()}"
    group.mkdir()
    try:
        if is_v1:
            (group / "cpu.shares").write_text(str(round(weight * _SHARES)))
        else:
            (group / "cpu.weight").write_text(str(weight))
        yield ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")
    finally:
        group.rmdir()
