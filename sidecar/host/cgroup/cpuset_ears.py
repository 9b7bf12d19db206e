"""Hears that cpusets were written where no hand watches them: inotify on the files of containers' own cgroups.

An engine need not tell of an update (Podman before 5.1), and nothing tells of a write into a cgroup, or of a property
of a systemd unit. The kernel makes an event of each write into a cgroup's file, also for a reader that may write none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from sidecar.decide.facts import ContainerView
from sidecar.host.cgroup.places import Hierarchy, find_directory, has_place
from state.inotify import FileEars
from state.key import ContainerKey


class _Heard(NamedTuple):
    """A start of a container, and the numbers of the files that are listened to since."""

    start: tuple[str, int]
    numbers: tuple[int, ...]


class CpusetEars:
    """Ears for the containers of this host."""

    def __init__(self, hierarchy: Callable[[], Hierarchy | None], proc: str) -> None:
        """`hierarchy` finds the one with cpusets. Raise Deaf if the kernel provides no inotify instance."""
        self._hierarchy = hierarchy
        self._proc = proc
        self._ears = FileEars()
        self._listening: dict[ContainerKey, _Heard] = {}
        self._keys: dict[int, ContainerKey] = {}

    @property
    def fd(self) -> int:
        """Readable when there is something to hear."""
        return self._ears.fd

    def listen(self, views: Iterable[ContainerView]) -> None:
        """Listen to the cpusets of these containers, as the port describes. A new start has a new cgroup."""
        wanted = {view.key: view for view in views if has_place(view)}
        for key in self._listening.keys() - wanted.keys():
            self._leave(key)
        new = [view for view in wanted.values() if self._is_new(view)]
        hierarchy = self._hierarchy() if new else None
        if hierarchy is None:
            return
        for view in new:
            self._leave(view.key)
            numbers = [self._ears.listen(file) for file in self._files(hierarchy, view)]
            known = _Heard(_start(view), tuple(number for number in numbers if number is not None))
            self._listening[view.key] = known
            self._keys |= dict.fromkeys(known.numbers, view.key)

    def heard(self) -> frozenset[ContainerKey] | None:
        """Return the containers whose cpuset was written, as the port describes."""
        numbers = self._ears.drain()
        if numbers is None:
            return None
        return frozenset(self._keys[number] for number in numbers if number in self._keys)

    def close(self) -> None:
        """Hear nothing any more. May be called twice."""
        self._ears.close()

    def _is_new(self, view: ContainerView) -> bool:
        known = self._listening.get(view.key)
        return known is None or known.start != _start(view)

    def _leave(self, key: ContainerKey) -> None:
        known = self._listening.pop(key, None)
        for number in known.numbers if known else ():
            del self._keys[number]
            self._ears.leave(number)

    def _files(self, hierarchy: Hierarchy, view: ContainerView) -> Iterator[str]:
        directory = find_directory(hierarchy, view, self._proc)
        if directory is None:
            return
        yield f"{directory}/cpuset.cpus"
        above = os.path.dirname(directory)
        if view.id in os.path.basename(above):
            # crun, under systemd: the limits are on the scope above.
            yield f"{above}/cpuset.cpus"


def _start(view: ContainerView) -> tuple[str, int]:
    return view.started_at, view.pid
