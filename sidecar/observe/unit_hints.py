"""follow_units: systemd's hints that a unit comes, so that its CPUs are set before it runs anything, or changes.

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


class UnitNews(Protocol):
    """What systemd told of a unit: that it is loaded, or that it changed, and runs or is about to if it `is_up`."""

    @property
    def name(self) -> str:
        """Its name; "" for a hint of no unit."""

    @property
    def is_new(self) -> bool:
        """Whether it was loaded."""

    @property
    def is_up(self) -> bool:
        """Whether it runs now, or is about to."""


class UnitSource(Protocol):
    """A connection to systemd that tells of units."""

    @property
    def hints(self) -> AsyncIterator[UnitNews]:
        """What it tells of units, until the connection ends."""

    async def subscribe(self) -> None:
        """Have systemd tell of units from now on."""

    def has_missed(self) -> bool:
        """Return whether hints were dropped since the last time this was asked."""

    def has_reread(self) -> bool:
        """Return whether systemd read files of units again since the last time this was asked."""


class ToldUnits(Protocol):
    """The units of which systemd tells."""

    def tell(self, name: str) -> bool:
        """Take it that a unit comes, or came; return whether it is one to look at."""

    def changed(self, name: str, *, is_up: bool) -> bool:
        """Take it that a unit changed; return whether it is one to look at."""

    def reread(self) -> None:
        """Take it that the files of all units may have changed."""


async def follow_units(
    connect: Callable[[], AbstractAsyncContextManager[UnitSource]],
    units: ToldUnits,
    look: Callable[[str], None],
    look_at_everything: Callable[[], None],
    log: Log,
) -> None:
    """Ask for a look at each unit that comes or changes, if it is one to look at, until cancelled. What systemd read
    again while it was not heard is not known, so all files count as such with each connection.
    """
    last = ""
    while True:
        try:
            async with connect() as source:
                await source.subscribe()
                units.reread()
                look_at_everything()
                last = ""
                async for hint in source.hints:
                    if units.tell(hint.name) if hint.is_new else units.changed(hint.name, is_up=hint.is_up):
                        look(hint.name)
                    if source.has_reread():
                        units.reread()
                        look_at_everything()
                    if source.has_missed():
                        look_at_everything()
            why = "the connection ended"
        except EngineError as error:
            why = str(error)
        if why != last:
            log.warning("systemd reports no new units now: they are found a while after they start", reason=why)
        last = why
        await trio.sleep(PAUSE_SECONDS)
