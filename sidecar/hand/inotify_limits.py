"""How many watches and inotify instances a user may have, and has: inotify(7), fs.inotify.* of sysctl.

The hand needs one instance, and one watch for each container, each parent, and each directory above a parent; and one
for the group of each owner, and each group inside it, 256 at most. Without a watch a newborn is still written, but a
later foreign write is not noticed, and what is born inside an owner's group is known by a look alone. What hears writes
where no hand guards needs an instance of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_WATCH: Final = re.compile(r"^inotify wd:", re.MULTILINE)

SCARCE_SHARE: Final = 0.8
"""From this share of a limit on it is said that it runs out."""


class InotifyUse(NamedTuple):
    """Limits for the user, and what its visible processes have. The limits are 0 where the kernel has no inotify."""

    max_watches: int
    max_instances: int
    watches: int
    instances: int

    @property
    def watches_run_out(self) -> bool:
        """Whether few watches are left."""
        return self.watches >= self.max_watches * SCARCE_SHARE

    @property
    def instances_run_out(self) -> bool:
        """Whether few instances are left."""
        return self.instances >= self.max_instances * SCARCE_SHARE

    @property
    def free_instances(self) -> int:
        """How many instances more there may be."""
        return max(0, self.max_instances - self.instances)

    def has_room_for(self, watches: int) -> bool:
        """Return whether so many watches more can be had."""
        return self.watches + watches < self.max_watches


def inotify_use(proc: str | Path = "/proc", user: int | None = None) -> InotifyUse:
    """Return the limits, and the use by all visible processes of this user (by default that of this process)."""
    uses = list(_instances(Path(proc), os.geteuid() if user is None else user))
    limits = Path(proc) / "sys" / "fs" / "inotify"
    return InotifyUse(
        _number(limits / "max_user_watches"), _number(limits / "max_user_instances"), sum(uses), len(uses)
    )


def _instances(proc: Path, user: int) -> Iterator[int]:
    """Yield for each inotify instance of a user how many watches it has."""
    for process in sorted(name for name in os.listdir(proc) if name.isdigit()):
        try:
            if os.stat(proc / process).st_uid != user:
                continue
            opened = os.listdir(proc / process / "fd")
        except OSError:
            continue
        for fd in opened:
            try:
                if os.readlink(proc / process / "fd" / fd) != "anon_inode:inotify":
                    continue
                text = (proc / process / "fdinfo" / fd).read_text()
            except OSError:
                continue
            yield len(_WATCH.findall(text))


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
