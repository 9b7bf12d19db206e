"""Hints of systemd: each asks for a look, and what may have been missed for a look at everything."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
import trio
import trio.testing

from sidecar.failures import EngineUnavailable
from sidecar.log import Log
from sidecar.observe.unit_hints import PAUSE_SECONDS, follow_units


class Hint(NamedTuple):
    name: str
    is_new: bool = True
    is_up: bool = False


class Source:
    """Tells of these units, and then ends. `missed`: it drops one before it ends; `reread`: files are read."""

    def __init__(self, hints: tuple[Hint, ...], *, missed: bool = False, reread: bool = False) -> None:
        self._hints, self._missed, self._reread = hints, missed, reread

    @property
    def hints(self) -> AsyncIterator[Hint]:
        return self._told()

    async def _told(self) -> AsyncIterator[Hint]:
        for hint in self._hints:
            yield hint

    def has_reread(self) -> bool:
        reread, self._reread = self._reread, False
        return reread

    async def subscribe(self) -> None:
        await trio.lowlevel.checkpoint()

    def has_missed(self) -> bool:
        missed, self._missed = self._missed, False
        return missed


class Units:
    """Services are to be looked at when they come, and an owner when it changes."""

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    def tell(self, name: str) -> bool:
        return name.endswith(".service")

    def changed(self, name: str, *, is_up: bool) -> bool:
        return name == "owner.service"

    def reread(self) -> None:
        self.seen.append("files")


@pytest.mark.trio
async def test_what_comes_is_looked_at_and_what_was_missed_is_found(autojump_clock: trio.testing.MockClock) -> None:
    """After each connection, and where hints were dropped, everything is looked at; the reason is logged once."""
    out, turns, seen = io.StringIO(), list[Source | None](), list[str]()
    changed = (Hint("a.service", is_new=False), Hint("owner.service", is_new=False, is_up=True))
    turns += [Source((Hint("a.service"), Hint("x.mount"), *changed)), None, None]
    turns += [Source((Hint("b.service"),), missed=True), Source((Hint("", is_new=False),), reread=True)]

    @asynccontextmanager
    async def connect() -> AsyncIterator[Source]:
        source = turns.pop(0) if turns else None
        if source is None:
            raise EngineUnavailable("no bus")
        yield source

    with trio.move_on_after(5.5 * PAUSE_SECONDS):
        await follow_units(
            connect,
            Units(seen),
            seen.append,
            lambda: seen.append("everything"),
            Log(out),
        )
    first, second = ["files", "everything", "a.service", "owner.service"], ["files", "everything", "b.service"]
    assert seen == [*first, *second, "everything", "files", "everything", "files", "everything"]
    said = [line.partition("reason=")[2] for line in out.getvalue().splitlines()]
    ended = '"the connection ended"'
    assert said == [ended, '"no bus"', ended, ended, '"no bus"']
