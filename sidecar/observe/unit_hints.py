"""follow_units: systemd's hints that a unit comes, so that its CPUs are set before it runs anything.

A hint is no truth: it asks for a look. What was missed while the connection was away, or because too much came at once,
is found by a look at everything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

import trio

from sidecar.failures import EngineError
from sidecar.log import Log

PAUSE_SECONDS: Final = 2.0
"""Between two attempts to reach systemd."""


class UnitSource(Protocol):
    """A connection to systemd that tells of units."""

    @property
    def new_units(self) -> AsyncIterator[str]:
        """The names of units as they come, until the connection ends."""

    async def subscribe(self) -> None:
        """Have systemd tell of new units from now on."""

    def has_missed(self) -> bool:
        """Return whether hints were dropped since the last time this was asked."""


async def follow_units(
    connect: Callable[[], AbstractAsyncContextManager[UnitSource]],
    tell: Callable[[str], bool],
    look: Callable[[str], None],
    look_at_everything: Callable[[], None],
    log: Log,
) -> None:
    """Ask for a look at each new unit that `tell` takes for one to look at, until cancelled."""
    last = ""
    while True:
        try:
            async with connect() as source:
                await source.subscribe()
                look_at_everything()
                last = ""
                async for name in source.new_units:
                    if tell(name):
                        look(name)
                    if source.has_missed():
                        look_at_everything()
            why = "the connection ended"
        except EngineError as error:
            why = str(error)
        if why != last:
            log.warning("systemd reports no new units now: they are found a while after they start", reason=why)
        last = why
        await trio.sleep(PAUSE_SECONDS)
