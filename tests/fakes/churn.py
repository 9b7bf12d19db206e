"""Churn: users, faults and restarts at random on a Host, and what must be true when everything has come to rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

import trio

from sidecar.failures import EngineError
from sidecar.simulation.model_limits import Limits
from state.checkpoint import CheckpointFile
from state.cpuset import EMPTY, CPUSet, union
from state.invariants import violations
from state.projection import Sharing
from tests.fakes.host import Host
from tests.support.engine.simulated import Fault
from tests.support.engine.simulated_events import Rates

MOST = 9
"""Containers at a time."""

REST_SECONDS = 75
"""Longer than the longest pause after a failure, with the inventory that follows, and than a lost order's time-out."""


class Churn:
    """Draws what happens from a seed. `takes_offline`: CPUs go away for good, one at most."""

    def __init__(self, host: Host, chance: Random, *, takes_offline: bool = False) -> None:
        self.host = host
        self.chance = chance
        self._count = 0
        self._may_go_offline = self._is_shrinking = takes_offline
        self._verbs: list[Callable[[trio.Nursery], Awaitable[None]]] = [
            *[self._arrive] * 9,
            *[self._stop] * 2,
            *[self._start] * 2,
            self._restart,
            self._exit,
            *[self._remove] * 3,
            self._pause,
            self._rename,
            self._tamper,
            *[self._fail] * 2,
            self._break,
            self._restart_engine,
            self._offline,
        ]

    async def run(self, steps: int) -> None:
        """So many things happen, some at the same time."""
        rates = Rates(lost=0.05, doubled=0.1, swapped=0.1)
        self.host.docker.event_faults.rates = rates
        async with trio.open_nursery() as nursery:
            for _ in range(steps):
                await self.chance.choice(self._verbs)(nursery)
                await trio.sleep(self.chance.choice([0, 0, 0.001, 0.01, 0.1, 0.5, 3]))
        self.host.docker.event_faults.rates = Rates()

    async def rest(self) -> None:
        """Nothing fails any more, and time passes."""
        self.host.engine._update_faults.clear()
        await trio.sleep(REST_SECONDS)
        # On cgroup v1 processes whose last CPU went offline are in the parent's group, until they are started anew.
        for strayed in sorted(self.host.docker.kernel.strayed):
            await self.host.docker.restart(strayed)
            await trio.sleep(REST_SECONDS)

    async def _arrive(self, nursery: trio.Nursery) -> None:
        if len(self.host.docker.ids()) >= MOST:
            return
        self._count += 1
        kind = self.chance.randrange(8)
        if self._is_shrinking and kind == 5:
            # A lifted limit in nano CPUs may be more than a smaller machine takes: not covered here.
            kind = 2
        cpus = self.chance.randint(1, 3)
        labels = {} if kind < 2 else {"cpuset.exclusive": str(cpus)}
        if kind == 3:
            labels["cpuset.on-shortage"] = "wait"
        if kind == 4:
            labels["cpuset.on-shortage"] = "stop"
        limits = Limits(nano_cpus=cpus * 10**9) if kind == 5 else Limits(cpu_quota=cpus * 100_000, cpu_period=100_000)
        if kind not in (5, 6):
            limits = Limits()
        name, always, removes = f"c{self._count}", kind == 7, kind == 6
        waits = self.chance.choice([0, 0, 0.002, 0.2])

        async def begin() -> None:
            made = await self.host.docker.create(
                name, limits, labels=labels, restarts_always=always, removes_itself=removes
            )
            await trio.sleep(waits)
            await self.host.docker.start(made)

        nursery.start_soon(_quietly, begin)

    def _someone(self) -> str | None:
        ids = self.host.docker.ids()
        return self.chance.choice(ids) if ids else None

    def _act(self, nursery: trio.Nursery, verb: Callable[[str], Awaitable[None]]) -> None:
        if id := self._someone():
            nursery.start_soon(_quietly, lambda: verb(id))

    async def _stop(self, nursery: trio.Nursery) -> None:
        self._act(nursery, self.host.docker.stop)

    async def _start(self, nursery: trio.Nursery) -> None:
        self._act(nursery, self.host.docker.start)

    async def _restart(self, nursery: trio.Nursery) -> None:
        self._act(nursery, self.host.docker.restart)

    async def _exit(self, nursery: trio.Nursery) -> None:
        async def end(id: str) -> None:
            if self.host.docker.kernel.effective(id) is not None:
                await self.host.docker.exit(id)

        self._act(nursery, end)

    async def _remove(self, nursery: trio.Nursery) -> None:
        self._act(nursery, self.host.docker.remove)

    async def _pause(self, nursery: trio.Nursery) -> None:
        async def freeze(id: str) -> None:
            await self.host.docker.pause(id)
            await trio.sleep(0.3)
            await self.host.docker.unpause(id)

        self._act(nursery, freeze)

    async def _rename(self, nursery: trio.Nursery) -> None:
        self._count += 1
        name = f"r{self._count}"
        self._act(nursery, lambda id: self.host.docker.rename(id, name))

    async def _tamper(self, nursery: trio.Nursery) -> None:
        """Somebody else's `docker update`: from then on its files may be late, and it may overlap a settled one."""
        cpus = CPUSet(cpu for cpu in self.host.docker.kernel.online() if self.chance.random() < 0.4)

        async def change(id: str) -> None:
            self.host.surprised.add(id)
            await self.host.docker.change(id, Limits(cpuset=str(cpus)))

        self._act(nursery, change)

    async def _fail(self, nursery: trio.Nursery) -> None:
        self.host.engine.fail_updates(*self.chance.choices(list(Fault), k=self.chance.randint(1, 3)))

    async def _break(self, nursery: trio.Nursery) -> None:
        self.host.docker.break_connections()

    async def _restart_engine(self, nursery: trio.Nursery) -> None:
        if self.host.docker.is_up:
            await self.host.docker.go_down()
            await trio.sleep(self.chance.choice([0.01, 1, 5]))
            # A container whose CPUs went offline does not start again.
            await _quietly(self.host.docker.come_up)

    async def _offline(self, nursery: trio.Nursery) -> None:
        if self._may_go_offline:
            self._may_go_offline = False
            self.host.surprised.update(self.host.docker.ids())
            self.host.docker.kernel.take_offline(CPUSet.of(self.chance.choice(list(self.host.docker.kernel.online()))))


async def _quietly(verb: Callable[[], Awaitable[None]]) -> None:
    """Users get errors, too: a container that is gone, an engine that is down, CPUs that are not there."""
    with suppress(EngineError, KeyError):
        await verb()


def unfinished(host: Host) -> list[str]:
    """What is not as it should be, once everything has come to rest: books, kernel and files, against each other."""
    with CheckpointFile(host.config.state_dir) as checkpoints:
        books = checkpoints.load().state
    assert books is not None
    # A CPU that goes offline is noticed where somebody should run on it; if nobody does, the books may still name it.
    found = [law for law in violations(books, host.docker.kernel.topology()) if "not online" not in law]
    ids = set(host.docker.ids())
    # Whom somebody pinned before the daemon first saw it: never moved, and nobody there is settled.
    strangers = union(
        CPUSet.parse(host.configured(id)) | (host.docker.kernel.effective(id) or EMPTY)
        for id in ids
        if (told := host.told(id)) and told.sharing is Sharing.UNMANAGED
    )
    found += [f"{id[:4]} is in the books and gone" for id in {*books.assignments, *books.originals} - ids]
    for id in ids:
        one = host.docker.container(id)
        told, effective = host.told(id), host.docker.kernel.effective(id)
        granted = books.assignments.get(id)
        if told is None:
            found.append(f"{one.name} is told nothing")
            continue
        if effective is None:
            found += (
                [f"{one.name} does not run and holds {granted.cpus}"] if granted and not one.awaits_restart() else []
            )
            continue
        if told.sharing is Sharing.UNMANAGED:
            continue
        wanted = granted.cpus if granted else books.shared
        if granted and not strangers.isdisjoint(wanted):
            # It cannot enter what a stranger is on, and is not alone.
            found += [f"{one.name} is settled beside a stranger on {effective}"] if told.settled else []
            continue
        if effective != wanted:
            found.append(f"{one.name} should run on {wanted} and runs on {effective}")
        if told.cpus != wanted or host.file(id) != wanted or not told.settled:
            found.append(f"{one.name} is on {wanted} and is told {told.cpus}, settled: {told.settled}")
        if (told.sharing is Sharing.EXCLUSIVE) is not (granted is not None):
            found.append(f"{one.name} is told that it is {told.sharing}")
        if one.quota is not None and granted and one.limits.nano_cpus != host.docker.present().ncpu * 10**9:
            found.append(f"{one.name} is throttled at {one.quota} on {granted.cpus}")
    return found
