"""Churn under the policy `dynamic`: sizes that are ordered, loads that change, takes; and what must be true at rest."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import trio

from sidecar.api.documents import Declined
from sidecar.decide.books.load_wish import follows_load
from sidecar.simulation.model_limits import Limits
from state.checkpoint import CheckpointFile
from state.cpuset import CPUSet
from tests.decide.takelaws import unfair
from tests.fakes.churn import MOST, Churn, _quietly, unfinished
from tests.fakes.elastic import ElasticHost

FADING_SECONDS = 240
"""Eight half-lives of a peak: a load of 8 CPUs counts as less than a twentieth of one."""

QUIET_SECONDS = 200
"""How long nothing may change any more: twenty inventories, and a hundred measurements."""

GRACES = ("0s", "0.5s", "2s", "5s", None)


class DynamicChurn(Churn):
    """Draws what happens from a seed."""

    host: ElasticHost

    def __init__(self, host: ElasticHost, chance: Random, *, takes_offline: bool = False) -> None:
        super().__init__(host, chance, takes_offline=takes_offline)
        self._offline_cpus = CPUSet()
        self._verbs = [
            *[verb for verb in self._verbs if verb not in (self._arrive, self._tamper, self._offline)],
            *[self._arrive] * 10,
            *[self._change_load] * 6,
            *[self._resize] * 4,
            *[self._defragment] * 2,
            self._acknowledge,
        ]
        if takes_offline:
            self._verbs += [self._offline] * 2
        elif chance.random() < 0.3:
            self._verbs.append(self._tamper)

    async def rest(self) -> None:
        """Nothing fails any more, loads stay as they are, and peaks fade."""
        await super().rest()
        await trio.sleep(FADING_SECONDS)

    async def _arrive(self, nursery: trio.Nursery) -> None:
        if len(self.host.docker.ids()) >= MOST:
            return
        self._count += 1
        name, labels = f"c{self._count}", self._labels()
        limits = Limits()
        if self.chance.random() < 0.15 and not self._is_shrinking:
            cpus = self.chance.randint(1, 3)
            limits = self.chance.choice(
                [Limits(nano_cpus=cpus * 10**9), Limits(cpu_quota=cpus * 100_000, cpu_period=100_000)]
            )
        always, removes = self.chance.random() < 0.1, self.chance.random() < 0.1
        waits = self.chance.choice([0, 0, 0.002, 0.2])
        load = self.chance.choice([None, 0.3, 2.5, 8.0])

        async def begin() -> None:
            made = await self.host.docker.create(
                name,
                limits,
                labels=labels,
                restarts_always=always,
                removes_itself=removes and not always,
                stop_signal="TERM",
            )
            if load is not None:
                self.host.docker.kernel.keep_busy(made, load)
            await trio.sleep(waits)
            await self.host.docker.start(made)

        nursery.start_soon(_quietly, begin)

    def _labels(self) -> dict[str, str]:
        kind, floor = self.chance.randrange(10), self.chance.randint(1, 2)
        if kind < 2:
            return {}
        size = floor + self.chance.choice([0, 0, 1, 2])
        labels = {"cpuset.exclusive": str(size)}
        if kind == 2:
            return {**labels, "cpuset.on-shortage": self.chance.choice(["wait", "stop", "share"])}
        labels["cpuset.min"] = str(floor)
        labels["cpuset.max"] = str(size + self.chance.choice([0, 1, 3, 8]))
        labels["cpuset.scale"] = self.chance.choice(["fill", "fill", "load", "manual"])
        if grace := self.chance.choice(GRACES):
            labels["cpuset.grace"] = grace
        more = (
            ("cpuset.signal", self.chance.choice(["HUP", "USR1"]), 0.4),
            ("cpuset.move", "true", 0.4),
            ("cpuset.weight", str(self.chance.choice([1, 5, 30])), 0.4),
            ("cpuset.projection", f"p{self._count}", 0.2),
            ("cpuset.on-shortage", self.chance.choice(["wait", "stop"]), 0.3),
        )
        return {**labels, **{label: value for label, value, share in more if self.chance.random() < share}}

    async def _change_load(self, nursery: trio.Nursery) -> None:
        if id := self._someone():
            self.host.docker.kernel.keep_busy(id, self.chance.choice([0.0, 0.4, 1.2, 3.5, 7.0, 12.0]))

    async def _resize(self, nursery: trio.Nursery) -> None:
        cpus = self.chance.randint(1, 6)

        async def order(id: str) -> None:
            if self.host.requests:
                with suppress(Declined):
                    await self.host.requests.resize(id, cpus)

        self._act(nursery, order)

    async def _defragment(self, nursery: trio.Nursery) -> None:
        async def order(_: str) -> None:
            if self.host.requests:
                with suppress(Declined):
                    await self.host.requests.defragment()

        self._act(nursery, order)

    async def _acknowledge(self, nursery: trio.Nursery) -> None:
        """By the API's door, for somebody from whom something is being taken."""
        board = self.host.board
        waiting = [
            id
            for id, grant in (board.latest.state.assignments.items() if board else ())
            if grant.leaving and not grant.leaving.is_due
        ]
        if not waiting or not self.host.requests:
            return
        id, requests = self.chance.choice(sorted(waiting)), self.host.requests
        self.host.acknowledge_by_hand(id)

        async def say() -> None:
            with suppress(Declined):
                await requests.acknowledge(id, None)

        nursery.start_soon(_quietly, say)

    async def _offline(self, nursery: trio.Nursery) -> None:
        kernel = self.host.docker.kernel
        if self._offline_cpus and kernel.cgroup_version == 2 and self.chance.random() < 0.5:
            self.host.surprised.update(self.host.docker.ids())
            kernel.bring_online(self._offline_cpus)
            self._offline_cpus = CPUSet()
        elif self._may_go_offline:
            self._may_go_offline = kernel.cgroup_version == 2
            self.host.surprised.update(self.host.docker.ids())
            if not self._offline_cpus:
                self._offline_cpus = CPUSet.of(self.chance.choice(list(kernel.online() - CPUSet.of(0))))
                kernel.take_offline(self._offline_cpus)


async def at_rest(host: ElasticHost) -> list[str]:
    """What is not as it should be at rest; and what changed after that."""
    # Nobody tells of a CPU that comes online.
    found = [law for law in unfinished(host) if "online and in no book" not in law]
    found += [*_books(host), *_sizes(host)]
    before = _picture(host)
    await trio.sleep(QUIET_SECONDS)
    after = _picture(host)
    found += [
        f"at rest, {what} changed from {before[what]} to {after[what]}"
        for what in before
        if before[what] != after[what]
    ]
    return found


def _books(host: ElasticHost) -> list[str]:
    with CheckpointFile(host.config.state_dir) as checkpoints:
        books = checkpoints.load().state
    assert books is not None
    assert host.board is not None
    found = [] if books == host.board.latest.state else ["the books on disk are not those of the daemon"]
    strangers = host.board.latest.strangers
    for grant in books.assignments.values():
        told = host.told(grant.container)
        # It cannot enter what a stranger is on.
        arriving = told.arriving - strangers if told else None
        if grant.leaving or arriving or (told and (told.leaving or told.deadline_seconds is not None)):
            found.append(f"{grant.name} is still losing {grant.leaving}, and is told {told}")
        if not grant.demand.floor <= len(grant.cpus) <= grant.demand.ceiling:
            found.append(f"{grant.name} holds {grant.cpus} of {grant.demand.floor} to {grant.demand.ceiling}")
    if (books.forced, books.acknowledged) != (host.witness.forced, host.witness.acknowledged):
        found.append(
            f"the books count {books.forced} forced and {books.acknowledged} acknowledged takes: "
            f"there were {host.witness.forced} and {host.witness.acknowledged}"
        )
    return found


def _sizes(host: ElasticHost) -> list[str]:
    """Who follows its load has neither too much for it, nor too little while there is spare."""
    assert host.board is not None
    world, kernel = host.board.latest, host.docker.kernel
    found = [] if host.surprised else unfair(world)
    if world.settings.options:
        return found
    for id, grant in world.state.assignments.items():
        if not follows_load(world, id) or kernel.effective(id) is None or id in host.surprised:
            continue
        wanted = kernel.wanted(id)
        used, size = min(wanted, len(grant.cpus)), len(grant.cpus)
        if size > grant.demand.floor and used < size * 0.5 - 0.1:
            found.append(f"{grant.name} uses {used} and holds {grant.cpus}")
        spare = len(world.state.shared - world.state.reserved) > 1
        if size < grant.demand.ceiling and used > size * 0.8 and spare and not world.strangers:
            found.append(f"{grant.name} uses {used}, holds {grant.cpus}, and {world.state.shared} are spare")
    return found


def _picture(host: ElasticHost) -> dict[str, object]:
    assert host.board is not None
    state = host.board.latest.state
    return {
        "the orders": len(host.engine.updates),
        "the books": state,
        "the files": {id: host.told(id) for id in host.docker.ids()},
        "the kernel": {id: host.where(id) for id in host.docker.ids()},
        "the signals": {id: len(host.docker.container(id).signals) for id in host.docker.ids()},
    }
