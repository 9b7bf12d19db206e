"""Workload: a simulated program that follows its projection: it reads it, moves, and may acknowledge.

It uses the real files: it reads `status.json`, and writes `ack` as any workload does. Its conduct is drawn from its
container's id, so that it stays the same over renames, restarts, and restarts of the daemon.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import trio

from state import ack
from state.cpuset import EMPTY
from state.errors import StateError
from state.projection import Projection, read

DELAYS: Final = (0, 0, 0.001, 0.05, 0.3, 0.45, 1.5, 4)
"""Seconds that a program takes to leave its CPUs."""

RUBBISH: Final = (b"", b"\n", b"yes\n", b"-1\n", b"1 2\n", b"9" * 17, b"\xff\xfe", b"0x10\n", "١٢".encode())
"""What is no number of a generation."""


class Conduct(enum.Enum):
    """What a program does when its projection lists leaving CPUs."""

    FOLLOWS = enum.auto()
    """Leaves them after a while, and acknowledges what it read, once."""
    IGNORES = enum.auto()
    """Nothing."""
    LAGS = enum.auto()
    """Acknowledges a generation from before."""
    GUESSES = enum.auto()
    """Acknowledges a generation that is yet to come."""
    SCRIBBLES = enum.auto()
    """Writes what is no number."""
    PLANTS = enum.auto()
    """Puts something else in the place of the file."""
    NODS = enum.auto()
    """Acknowledges whatever it reads, whether anything leaves it or not."""


class Ack(NamedTuple):
    """The content of the file `ack` since `at` seconds; -1 if it is not a number."""

    at: float
    number: int


class Workload:
    """The program of one container. `acks` is everything that it ever wrote."""

    def __init__(self, container: str, directory: Path, nursery: trio.Nursery, is_up: Callable[[], bool]) -> None:
        """`directory` is its projection's; `is_up` says whether it runs now."""
        self.conduct: Conduct = Random(container).choice((Conduct.FOLLOWS, *Conduct))
        self.acks: list[Ack] = []
        self._left = EMPTY
        self._seed = container
        self._directory = directory
        self._nursery = nursery
        self._is_up = is_up

    def notice(self, told: Projection) -> None:
        """Note a change of its file, and schedule the reaction."""
        self._left &= told.leaving
        if self.conduct is Conduct.IGNORES or not (told.leaving or self.conduct is Conduct.NODS):
            return
        chance = Random(f"{self._seed} {told.generation}")
        self._nursery.start_soon(self._move, chance, chance.choice(DELAYS))

    async def _move(self, chance: Random, seconds: float) -> None:
        await trio.sleep(seconds)
        if not self._is_up():
            return
        with suppress(StateError, OSError):
            self._write(chance, read(self._directory))

    def _write(self, chance: Random, told: Projection) -> None:
        match self.conduct:
            case Conduct.FOLLOWS:
                if not told.leaving <= self._left:
                    self._left = told.leaving
                    self._acknowledge(told.generation)
            case Conduct.NODS:
                self._acknowledge(told.generation)
            case Conduct.LAGS:
                self._acknowledge(max(0, told.generation - chance.randint(1, 6)))
            case Conduct.GUESSES:
                self._acknowledge(told.generation + chance.randint(1, 6))
            case Conduct.SCRIBBLES:
                (self._directory / ack.NAME).write_bytes(chance.choice(RUBBISH))
                self.wrote(-1)
            case Conduct.PLANTS:
                self._plant(chance)
            case Conduct.IGNORES:
                pass

    def _acknowledge(self, number: int) -> None:
        ack.write(self._directory, number)
        self.wrote(number)

    def _plant(self, chance: Random) -> None:
        """Replace `ack` by a link to a right answer, a pipe, or a directory."""
        path, answer = self._directory / ack.NAME, self._directory / "answer"
        with suppress(OSError):
            path.unlink()
        if path.is_dir():
            return
        match chance.randrange(3):
            case 0:
                answer.write_text(f"{read(self._directory).generation}\n")
                path.symlink_to("answer")
            case 1:
                os.mkfifo(path)
            case _:
                path.mkdir()
        self.wrote(-1)

    def wrote(self, number: int) -> None:
        """Remember what it acknowledged just now."""
        self.acks.append(Ack(trio.current_time(), number))
