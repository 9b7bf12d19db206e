"""Starts that went around the front: containers of a runtime that is not wrapped, where others start through one.

A front tells the daemon of each start before it happens, and says whether its container chose it. A start that a look
shows, and that no front told of, went around. Counting begins with the first question of a front that containers did
not choose: before it, nothing tells that this host has one. It ends when the last front that is recorded here is gone
(`observe/front_records`), and begins again with the next front. A container that comes and goes without a look is not
counted, nor is each of several starts between two looks. A runtime that is a front by its name is never a way around:
what no question was heard of then started by a standing order, or while the daemon could not hear it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
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
        """None until a front that containers did not choose was heard of."""
        self.has_begun: Callable[[str], bool] = lambda _: False
        """Tells whether a front wrote down that this container, by its id, began without a question."""
        self._asked: dict[ContainerKey, None] = {}
        self._began: dict[ContainerKey, str] = {}
        self._engines: frozenset[str] = frozenset()
        self._latest: Mapping[ContainerKey, Container] = {}
        self._fronts: frozenset[tuple[str, str]] = frozenset()
        """The fronts that are recorded here, each by its engine and its name."""

    def asked(self, container: ContainerKey, *, is_usual: bool) -> None:
        """Hear that a start is asked about, or is told by its front; `is_usual`: its container did not choose that."""
        if is_usual and self.around is None:
            self.around = {}
        self._asked.pop(container, None)
        self._asked[container] = None
        if len(self._asked) > _MOST_ASKED:
            del self._asked[next(iter(self._asked))]

    def recorded(self, fronts: frozenset[tuple[str, str]]) -> bool:
        """Hear which fronts are recorded on this host. Return whether `around` is another one for that: the last that
        was recorded is gone. Where none was ever seen, only questions tell.
        """
        had, self._fronts = self._fronts, fronts
        if not had or fronts or self.around is None:
            return False
        self.around = None
        self._asked.clear()
        # With the next front, what an engine shows then began at any time.
        self._began, self._engines, self._latest = {}, frozenset(), {}
        return True

    def _is_front(self, engine: str, runtime: str) -> bool:
        return runtime in _ALWAYS_FRONTS or (engine.partition(MARK)[0], runtime) in self._fronts

    def see(self, world: World) -> bool:
        """Compare a world with the one before; return whether anything was counted. What an engine shows when it is
        first counted began at any time.
        """
        if self.around is None or world.containers is self._latest:
            return False
        self._latest = world.containers
        ready = frozenset(name for name, contact in world.contacts.items() if contact.is_ready)
        found, began = Counter[str](), dict[ContainerKey, str]()
        for key, each in world.containers.items():
            view = each.view
            if view.is_glance or not view.started_at:
                if key in self._began:
                    began[key] = self._began[key]
                continue
            began[key] = view.started_at
            if view.runtime and self._began.get(key) != view.started_at and key.engine in self._engines & ready:
                if key in self._asked:
                    del self._asked[key]
                elif not self._is_front(key.engine, view.runtime) and not self.has_begun(key.id):
                    found[view.runtime] += 1
        self._began = began
        self._engines |= ready
        if not found:
            return False
        self.around = dict(sorted((Counter(self.around) + found).items()))
        return True
