"""Meeting insiders: whether what was born inside an owner's group is a container, or of the owner's own making.

An engine creates a container before it starts it, so its event has mostly come before the birth. What is not known yet
is asked for by a glance, which waits for no lock: of what the engine does not know nothing is told, so that an engine
inside an owner takes *alone* from it at none of its starts. No answer within `ASK_SECONDS` tells nothing, and then the
birth counts until a look.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
import trio

from sidecar.crashes import Crashes
from sidecar.decide.facts import ContainerView
from sidecar.decide.hand_facts import BornInside
from sidecar.failures import ContainerGone, EngineError
from state.key import ContainerKey

ASK_SECONDS: Final = 0.02
"""A glance takes a millisecond or two, and a runtime ten from the birth of the group to the program."""

MOST_ASKED: Final = 16
"""At once: a workload that may write its own cgroup makes as many groups as it likes. What is more is told."""


class MeetingInsiders:
    """Meets those of one or several engines, in tasks of `nursery`. `tell` reports a birth, `glance` asks the engines,
    and `is_known` tells whether an engine has shown a container of this key. `engines` are the names of several.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        crashes: Crashes,
        *,
        is_known: Callable[[ContainerKey], bool],
        glance: Callable[[str], Awaitable[ContainerView]],
        tell: Callable[[BornInside], None],
        engines: Sequence[str] = (),
    ) -> None:
        self._nursery = nursery
        self._crashes = crashes
        self._is_known = is_known
        self._glance = glance
        self._tell = tell
        self._engines = engines
        self._asked = 0

    def meet(self, birth: BornInside) -> None:
        """Report a birth: at once, or after the engine was asked."""
        if self._is_known(birth.container) or self._asked >= MOST_ASKED:
            self._tell_of(birth, self._keys(birth.container))
        else:
            self._asked += 1
            self._nursery.start_soon(self._ask, birth)

    async def _ask(self, birth: BornInside) -> None:
        found = self._keys(birth.container)
        try:
            with trio.move_on_after(ASK_SECONDS), self._crashes.contained(birth.container, "glance"):
                found = [(await self._glance(birth.container.id)).key]
        except ContainerGone:
            return
        except EngineError:
            pass
        finally:
            self._asked -= 1
        self._tell_of(birth, found)

    def _tell_of(self, birth: BornInside, keys: Sequence[ContainerKey]) -> None:
        for key in keys:
            self._tell(msgspec.structs.replace(birth, container=key))

    def _keys(self, container: ContainerKey) -> list[ContainerKey]:
        """Return the keys that a container may have: that of each engine, if it is not known whose it is."""
        names = [] if container.engine else self._engines
        return [ContainerKey(name, container.id) for name in names] or [container]
