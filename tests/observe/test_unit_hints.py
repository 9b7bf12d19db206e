"""Hints of systemd: each asks for a look, and what may have been missed for a look at everything."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from sidecar.failures import EngineUnavailable
from sidecar.log import Log
from sidecar.observe.unit_hints import PAUSE_SECONDS, follow_units


class Source:
    """Tells of these units, and then ends. `missed`: it drops one before it ends."""

    def __init__(self, names: tuple[str, ...], *, missed: bool = False) -> None:
        self._names, self._missed = names, missed

    @property
    def new_units(self) -> AsyncIterator[str]:
        return self._told()

    async def _told(self) -> AsyncIterator[str]:
        for name in self._names:
            yield name

    async def subscribe(self) -> None:
        await trio.lowlevel.checkpoint()

    def has_missed(self) -> bool:
        missed, self._missed = self._missed, False
        return missed


@pytest.mark.trio
async def test_what_comes_is_looked_at_and_what_was_missed_is_found(autojump_clock: trio.testing.MockClock) -> None:
    """After each connection, and where hints were dropped, everything is looked at; the reason is logged once."""
    out, turns, seen = io.StringIO(), list[Source | None](), list[str]()
    turns += [Source(("a.service", "x.mount")), None, None, Source(("b.service",), missed=True)]

    @asynccontextmanager
    async def connect() -> AsyncIterator[Source]:
        source = turns.pop(0) if turns else None
        if source is None:
            raise EngineUnavailable("no bus")
        yield source

    with trio.move_on_after(4.5 * PAUSE_SECONDS):
        await follow_units(
            connect,
            lambda name: name.endswith(".service"),
            seen.append,
            lambda: seen.append("everything"),
            Log(out),
        )
    assert seen == ["everything", "a.service", "everything", "b.service", "everything"]
    said = [line.partition("reason=")[2] for line in out.getvalue().splitlines()]
    assert said == ['"the connection ended"', '"no bus"', '"the connection ended"', '"no bus"']
