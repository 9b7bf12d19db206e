"""Churn: users, faults and restarts at random on a Host, and what must be true once it is at rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from random import Random

import msgspec
import trio

from sidecar.failures import EngineError
from sidecar.simulation.model_limits import Limits
from state.checkpoint import CheckpointFile
from state.cpuset import EMPTY, CPUSet, union
from state.invariants import BookLaw, violations
from state.projection import Sharing
from tests.support.churn import Act, Mix, Scene, Verb, acts
from tests.support.daemon.host import Host
from tests.support.engine.simulated import Fault
from tests.support.engine.simulated_events import Rates
from tests.support.keys import by_id, docker
from tests.support.kinds import FIXED, CpuLimit, Wanted

REST_SECONDS = 75
"""Longer than the longest pause after a failure, with the inventory that follows, and than a lost order's time-out."""


STATIC_MIX = Mix(
    kinds=FIXED,
    verbs={
        Verb.CREATE: 9,
        Verb.STOP: 2,
        Verb.START: 2,
        Verb.RESTART: 1,
        Verb.EXIT: 1,
        Verb.KILL: 1,
        Verb.REMOVE: 3,
        Verb.PAUSE: 1,
        Verb.RENAME: 1,
        Verb.TAMPER: 1,
        Verb.SWITCH: 1,
    },
)

MOST = 9
"""Containers at a time."""

FAULTS_IN_TEN = 1.5
"""How often something fails beside what users do."""


class Churn:
    """Carries out actions drawn from a seed, and injects faults. `takes_offline`: at most one CPU goes for good."""

    mix = STATIC_MIX

    def __init__(self, host: Host, chance: Random, *, takes_offline: bool = False) -> None:
        self.host = host
        self.chance = chance
        self._count = 0
        self._may_go_offline = takes_offline
        if takes_offline:
            # A smaller machine may refuse a lifted limit in nano CPUs: not covered here.
            kinds = tuple(kind.without(CpuLimit.NANO) for kind in self.mix.kinds)
            self.mix = msgspec.structs.replace(self.mix, kinds=kinds)

    async def run(self, steps: int) -> None:
        """Carry out this many actions, some of them concurrently."""
        rates = Rates(lost=0.05, doubled=0.1, swapped=0.1)
        self.host.docker.event_faults.rates = rates
        users = acts(self.chance.randrange(10**9), self._scene, self.mix)
        async with trio.open_nursery() as nursery:
            for _ in range(steps):
                if self.chance.random() * 10 < FAULTS_IN_TEN:
                    await self.chance.choice([self._fail, self._fail, self._break, self._restart_engine])()
                elif (act := next(users)) is not None:
                    nursery.start_soon(_quietly, lambda act=act: self._do(act))
                await trio.sleep(self.chance.choice([0, 0, 0.001, 0.01, 0.1, 0.5, 3]))
        self.host.docker.event_faults.rates = Rates()

    async def rest(self) -> None:
        """Stop all faults, and let time pass."""
        self.host.engine._update_faults.clear()
        await trio.sleep(REST_SECONDS)
        # On cgroup v1 processes whose last CPU went offline are in the parent's group, until they are started again.
        for strayed in sorted(self.host.docker.kernel.strayed):
            await self.host.docker.restart(strayed)
            await trio.sleep(REST_SECONDS)

    def _scene(self) -> Scene:
        online, ids = self.host.docker.kernel.online(), self.host.docker.ids()
        present = online if self._may_go_offline else EMPTY
        return Scene(containers=ids, has_room=len(ids) < MOST, online=online, present=present)

    async def _do(self, act: Act) -> None:
        docker, id = self.host.docker, act.container
        match act.verb:
            case Verb.CREATE:
                await self._arrive(act.wanted)
            case Verb.START | Verb.STOP | Verb.RESTART | Verb.KILL | Verb.REMOVE:
                await getattr(docker, act.verb)(id)
            case Verb.EXIT if docker.kernel.effective(id) is not None:
                await docker.exit(id)
            case Verb.PAUSE:
                await docker.pause(id)
                await trio.sleep(0.3)
                await docker.unpause(id)
            case Verb.RENAME:
                self._count += 1
                await docker.rename(id, f"r{self._count}")
            case Verb.TAMPER:
                # From then on its files may be late, and it may overlap a settled container.
                self.host.surprised.add(id)
                await docker.change(id, Limits(cpuset=str(act.cpus)))
            case Verb.SWITCH:
                self._switch(act.cpus)
            case _:
                pass

    async def _arrive(self, wanted: Wanted) -> None:
        self._count += 1
        made = await self.host.docker.create(
            f"c{self._count}",
            wanted.limits,
            labels=wanted.labels_of(self._count),
            restarts_always=wanted.restarts,
            removes_itself=wanted.removes_itself and not wanted.restarts,
            stop_signal="TERM",
        )
        if wanted.load:
            self.host.docker.kernel.keep_busy(made, wanted.load)
        await trio.sleep(wanted.waits)
        await self.host.docker.start(made)

    def _switch(self, cpus: CPUSet) -> None:
        self._may_go_offline = False
        self.host.surprised.update(self.host.docker.ids())
        self.host.docker.kernel.take_offline(cpus)

    async def _fail(self) -> None:
        self.host.engine.fail_updates(*self.chance.choices(list(Fault), k=self.chance.randint(1, 3)))

    async def _break(self) -> None:
        self.host.docker.break_connections()

    async def _restart_engine(self) -> None:
        if self.host.docker.is_up:
            await self.host.docker.go_down()
            await trio.sleep(self.chance.choice([0.01, 1, 5]))
            # A container whose CPUs went offline does not start again.
            await _quietly(self.host.docker.come_up)


async def _quietly(verb: Callable[[], Awaitable[None]]) -> None:
    """Ignore users' errors: a container that is gone, an engine that is down, CPUs that do not exist."""
    with suppress(EngineError, KeyError):
        await verb()


def unfinished(host: Host, spared: Collection[BookLaw] = (BookLaw.ONLINE,)) -> list[str]:
    """Return what is wrong at rest: the State, the kernel and the files, compared with each other.

    An offline CPU is noticed only if a container should run on it; otherwise the State may still name it.
    """
    with CheckpointFile(host.config.state_dir) as checkpoints:
        books = checkpoints.load().state
    assert books is not None
    broken = violations(books, host.docker.kernel.topology())
    found = [str(each) for each in broken if each.law not in spared]
    ids = set(host.docker.ids())
    # Pinned by hand before the daemon first saw it: never moved, and no container on its CPUs is alone.
    strangers = union(
        CPUSet.parse(host.configured(id)) | (host.docker.kernel.effective(id) or EMPTY)
        for id in ids
        if (told := host.told(id)) and told.sharing is Sharing.UNMANAGED
    )
    found += [f"{id[:4]} is in the books and gone" for id in {*by_id(books.assignments), *by_id(books.originals)} - ids]
    for id in ids:
        one = host.docker.container(id)
        told, effective = host.told(id), host.docker.kernel.effective(id)
        granted = books.assignments.get(docker(id))
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
        if granted and told.alone is not strangers.isdisjoint(wanted):
            # A grant that cannot move stays where it is, beside the stranger: in force, and not alone.
            found.append(f"{one.name} is on {wanted} and is told alone: {told.alone}; strangers on {strangers}")
        if effective != wanted:
            found.append(f"{one.name} should run on {wanted} and runs on {effective}")
        if told.cpus != wanted or host.file(id) != wanted or not told.settled:
            found.append(f"{one.name} is on {wanted} and is told {told.cpus}, settled: {told.settled}")
        if (told.sharing is Sharing.EXCLUSIVE) is not (granted is not None):
            found.append(f"{one.name} is told that it is {told.sharing}")
        if one.quota is not None and granted and one.limits.nano_cpus != host.docker.present().ncpu * 10**9:
            found.append(f"{one.name} is throttled at {one.quota} on {granted.cpus}")
    return found
