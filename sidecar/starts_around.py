"""Starts that went around the front: containers of a runtime that is not wrapped, where others start through one.

A front tells the daemon of each start before it happens, and says whether its container chose it; or it writes down
that the container starts by what was told before. A start that a look shows, and of which no front told, went around.

Each engine is counted by itself, from when a front is known there that containers did not choose: by its record
(`observe/front_records`), by its question, or by what it wrote down. Before, nothing tells that there is one. It ends
when the last front that was recorded of that engine is gone, or passes everything on, and begins from nothing with the
next. A container that comes and goes without a look is not counted, nor is each of several starts between two looks. A
runtime that is a front by its name is never a way around: what no question was heard of then started by a standing
order, or while the daemon could not hear it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from sidecar.decide.container.container import Container
from sidecar.decide.container.start import STRICT_RUNTIME
from sidecar.decide.world import World
from state.key import MARK, ContainerKey

_ALWAYS_FRONTS: Final = frozenset({STRICT_RUNTIME, "cpuset-default"})
"""Names under which nothing but a front is ever installed (`host/install/fronts`), of which the daemon need not see a
record.
"""

_MOST_ASKED: Final = 4096
"""Questions that are remembered until a look shows the start: many more than starts can be under way at once."""


class StartsAround:
    """Counts them, by the name of the runtime. `around` is a new value whenever it changes."""

    def __init__(self) -> None:
        self.around: Mapping[str, int] | None = None
        """None while no front is known that containers did not choose."""
        self.passing: frozenset[tuple[str, str]] = frozenset()
        """The fronts that were taken away and pass everything on, each by its engine and its name."""
        self.has_begun: Callable[[str], bool] = lambda _: False
        """Tells whether a front wrote down that this container, by its id, began without a question."""
        self._asked: dict[str, bool] = {}
        """By the id alone, as a question has it: whether its container did not choose the front."""
        self._is_unplaced = False
        """Whether a question was heard of a container whose engine was not known yet."""
        self._found: dict[str, Counter[str]] = {}
        """What is counted of each engine that is counted."""
        self._began: dict[ContainerKey, str] = {}
        self._engines: frozenset[str] = frozenset()
        self._latest: Mapping[ContainerKey, Container] = {}
        self._fronts: frozenset[tuple[str, str]] = frozenset()
        """The fronts that are recorded here and ask, each by its engine and its name."""
        self._recorded: frozenset[str] = frozenset()
        """The engines of which a record was ever seen: there the records tell, and nothing that comes late."""

    def asked(self, container: ContainerKey, *, is_usual: bool) -> None:
        """Hear that a start is asked about, or is told by its front; `is_usual`: its container did not choose that."""
        if is_usual and container.engine:
            self._hear_of_front(container.engine)
        elif is_usual:
            self._is_unplaced = True
        self._asked.pop(container.id, None)
        self._asked[container.id] = is_usual
        if len(self._asked) > _MOST_ASKED:
            del self._asked[next(iter(self._asked))]

    def began(self, ids: Iterable[str], world: World) -> bool:
        """Hear which containers began by what was written down for fronts. Return whether `around` is another one: no
        front of theirs was known. What is not known yet is heard of the next time.
        """
        before, wanted = self.around, frozenset(ids)
        if not self._are_all_decided(world):
            for key, each in world.containers.items():
                if key.id in wanted and each.view.runtime not in ("", STRICT_RUNTIME):
                    self._hear_of_front(key.engine)
        return self._has_begun_counting(before, world)

    def recorded(self, fronts: frozenset[tuple[str, str]], passing: frozenset[tuple[str, str]], world: World) -> bool:
        """Hear which fronts are recorded on this host, and which of them pass everything on. Return whether anything is
        to be shown for that.
        """
        before, were_passing, had = self.around, self.passing, self._fronts
        self._fronts, self.passing = fronts, passing
        self._recorded |= {engine for engine, _ in fronts | passing}
        for engine in {engine for engine, _ in had} - {engine for engine, _ in fronts}:
            self._found.pop(engine, None)
        for engine in {engine for engine, _ in fronts}:
            self._count(engine)
        self._show()
        if self.around is None and before is not None:
            self._asked.clear()
            # With the next front, what an engine shows then began at any time.
            self._began, self._engines, self._latest = {}, frozenset(), {}
        return self._has_begun_counting(before, world) or before != self.around or were_passing != passing

    def see(self, world: World) -> bool:
        """Compare a world with the one before; return whether anything was counted. What an engine shows when it is
        first counted began at any time.
        """
        if (self.around is None and not self._is_unplaced) or world.containers is self._latest:
            return False
        self._place(world)
        if self.around is None:
            return False
        self._latest = world.containers
        ready = frozenset(name for name, contact in world.contacts.items() if contact.is_ready)
        is_found, began = False, dict[ContainerKey, str]()
        for key, each in world.containers.items():
            view = each.view
            if view.is_glance or not view.started_at:
                if key in self._began:
                    began[key] = self._began[key]
                continue
            began[key] = view.started_at
            if view.runtime and self._began.get(key) != view.started_at and key.engine in self._engines & ready:
                if key.id in self._asked:
                    del self._asked[key.id]
                elif (counted := self._found.get(_named(key.engine))) is not None and not (
                    self._is_front(key.engine, view.runtime) or self.has_begun(key.id)
                ):
                    counted[view.runtime] += 1
                    is_found = True
        self._began = began
        self._engines |= ready
        if is_found:
            self._show()
        return is_found

    def _is_front(self, engine: str, runtime: str) -> bool:
        return runtime in _ALWAYS_FRONTS or (_named(engine), runtime) in self._fronts

    def _is_decided(self, engine: str) -> bool:
        return _named(engine) in self._recorded or _named(engine) in self._found

    def _are_all_decided(self, world: World) -> bool:
        return bool(world.contacts) and all(map(self._is_decided, world.contacts))

    def _hear_of_front(self, engine: str) -> None:
        if not self._is_decided(engine):
            self._count(engine)

    def _count(self, engine: str) -> None:
        if _named(engine) not in self._found:
            self._found[_named(engine)] = Counter()
            self._show()

    def _place(self, world: World) -> None:
        """Count the engine of a container that was asked about before it was known."""
        if self._is_unplaced:
            for key in world.containers:
                if self._asked.get(key.id):
                    self._hear_of_front(key.engine)
                    self._is_unplaced = False
            if self._are_all_decided(world):
                self._is_unplaced = False

    def _has_begun_counting(self, before: Mapping[str, int] | None, world: World) -> bool:
        """Return whether that is so; then what is there began at any time, and what begins from now on is counted."""
        if before is not None or self.around is None:
            return False
        self.see(world)
        return True

    def _show(self) -> None:
        total = Counter[str]()
        for each in self._found.values():
            total += each
        self.around = dict(sorted(total.items())) if self._found else None


def _named(engine: str) -> str:
    """Return the engine whose fronts these are: those of the host's users share them."""
    return engine.partition(MARK)[0]
