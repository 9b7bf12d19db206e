"""A hostile tenant on a simulated engine: it creates, names, updates and locks containers of its own, and nothing else.

What it does, one act after the other, was each found to cost others their CPUs once (`tests.support.attacks`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Final

import trio

from sidecar.failures import EngineError
from sidecar.simulation.model_limits import Limits
from tests.support.attacks import CROWD, LOOP, NAMES, UNMANAGED, Attack, rounds
from tests.support.daemon.host import Host

GIANT: Final = 2**20
"""Characters of a label."""

MOST: Final = 20
"""Containers that a tenant has at a time."""

LOCKED_SECONDS: Final = 20.0


class HostileTenant:
    """Acts at random until it is cancelled. `victims` are ids and a name that it may know."""

    def __init__(self, host: Host, chance: Random, victims: Sequence[str], attacks: Sequence[Attack]) -> None:
        self._host = host
        self._chance = chance
        self._victims = victims
        self._attacks = attacks
        self._count = 0
        self._own: list[str] = []
        self.acts: list[Attack] = []

    async def run(self) -> None:
        """Act, each time after a short pause."""
        async with trio.open_nursery() as nursery:
            for attack in rounds(self._chance, self._attacks):
                self.acts.append(attack)
                nursery.start_soon(self._quietly, attack)
                await trio.sleep(self._chance.choice([0.01, 0.1, 0.3]))

    async def leave(self) -> None:
        """Remove all its containers."""
        while self._own:
            await self._host.docker.remove(self._own.pop())

    async def _quietly(self, attack: Attack) -> None:
        """Ignore errors of the engine: a container that is gone, a name in use."""
        with suppress(EngineError, KeyError):
            await getattr(self, f"_{attack}")()

    async def _run(self, labels: Mapping[str, str] | None = None, cpuset: str = "") -> str:
        """Start one container more; the oldest goes if there are too many."""
        made = await self._create(labels, cpuset)
        await self._host.docker.start(made)
        return made

    async def _create(self, labels: Mapping[str, str] | None = None, cpuset: str = "") -> str:
        self._count += 1
        made = await self._host.docker.create(f"evil-{self._count}", Limits(cpuset=cpuset), labels=labels or {})
        self._host.surprised.add(made)
        self._own.append(made)
        if len(self._own) > MOST:
            await self._host.docker.remove(self._own.pop(0))
        return made

    async def _one(self) -> str:
        return self._chance.choice(self._own) if self._own else await self._run()

    async def _giant(self) -> None:
        await self._run({"x": "a" * GIANT})

    async def _lock(self) -> None:
        one = await self._run()
        await trio.sleep(0.5)
        async with self._host.docker.container(one).lock:
            await trio.sleep(LOCKED_SECONDS)

    async def _claim(self) -> None:
        await self._run({"cpuset.projection": self._victims[0]})

    async def _repin(self) -> None:
        await self._host.docker.change(await self._one(), Limits(cpuset=str(self._host.docker.kernel.online())))

    async def _loop(self) -> None:
        for _ in range(LOOP):
            await self._repin()

    async def _rename(self) -> None:
        """Rename one that was placed: whoever may create a container with a name of the unmanaged is left alone."""
        if placed := [each for each in self._own if self._host.told(each) and self._host.where(each)]:
            name = self._chance.choice([UNMANAGED, *self._victims])
            await self._host.docker.rename(self._chance.choice(placed), name)

    async def _crowd(self) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(CROWD):
                nursery.start_soon(self._run)

    async def _flee(self) -> None:
        await self._run({"cpuset.manage": "off"}, str(self._host.docker.kernel.online()))

    async def _starve(self) -> None:
        await self._create(cpuset=str(self._host.docker.kernel.online()))

    async def _exhaust(self) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(NAMES):
                self._count += 1
                nursery.start_soon(self._claim_and_go, f"name-{self._count}")

    async def _claim_and_go(self, name: str) -> None:
        with suppress(EngineError, KeyError):
            made = await self._host.docker.create(name, labels={"cpuset.projection": name})
            await trio.sleep(0.2)
            await self._host.docker.remove(made)
