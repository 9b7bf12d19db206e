"""Where a container's group is: its name stands for it there, and elsewhere for no container.

A tenant may name a cgroup parent that is called like another container. The engine makes that group, and what is inside
must not get the CPUs, or the freedom, of the container whose name it has.

The parents of containers that name none are one place (`HOME`), every other parent is one of its own. A container that
was not seen in full may be anywhere, and so may one in a pod, whose parent comes and goes with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from sidecar.decide.orders import Answers
from sidecar.hand.parents import paths_of

HOME: Final = 0
"""The place of containers that name no parent."""
ANYWHERE: Final = -1
"""The place of a container that may have several."""


class GroupPlaces:
    """Places as numbers, by their paths; `manager` is the group of a user's systemd, "" for the host's, and `home` are
    the parents of containers that name none.
    """

    def __init__(self, manager: str, home: Iterable[str]) -> None:
        self._manager = manager
        self._home = frozenset(home)
        self._numbers: dict[str, int] = {}
        self._next = HOME + 1
        self._known: Collection[str] = ()
        self._unplaced: Collection[str] = ()
        self._named: dict[str, tuple[str, ...]] = {}

    def hold(self, home: Iterable[str], answers: Answers, watched: Iterable[str]) -> None:
        """Take these from now on. `watched` are the parents that have places already: they keep their numbers."""
        self._home = frozenset(home)
        self._known = {key.id for key in answers.own}
        self._unplaced = {key.id for key in answers.unplaced}
        self._named = {key.id: paths_of(parent, self._manager) for key, parent in answers.named.items()}
        needed = {*watched, *(path for paths in self._named.values() for path in paths)}
        self._numbers = {path: number for path, number in self._numbers.items() if path in needed}

    def number(self, path: str) -> int:
        """Return the place of a parent."""
        if path in self._home:
            return HOME
        if path not in self._numbers:
            self._numbers[path] = self._next
            self._next += 1
        return self._numbers[path]

    def number_of(self, id: str) -> int:
        """Return the place of a container."""
        if id in self._unplaced:
            return ANYWHERE
        found = {self.number(path) for path in self._named[id]} if id in self._named else {HOME}
        return found.pop() if len(found) == 1 else ANYWHERE

    def stands_for(self, id: str, parent: str) -> bool:
        """Return whether a group below this parent, with this id in its name, is that container's."""
        if id not in self._known or id in self._unplaced:
            return True
        return parent in self._named[id] if id in self._named else parent in self._home
