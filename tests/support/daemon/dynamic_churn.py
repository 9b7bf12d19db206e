"""Churn under the policy `dynamic`: ordered sizes, changing loads and takes; and what must be true at rest."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import msgspec
import trio

from sidecar.api.documents import Declined
from sidecar.api.requests import Requests
from sidecar.decide.books.load_wish import follows_load
from state.checkpoint import CheckpointFile
from state.cpuset import CPUSet
from state.invariants import BookLaw
from tests.decide.lawbook.takelaws import unfair
from tests.support.churn import Act, Scene, Verb
from tests.support.daemon.churn import STATIC_MIX, Churn, unfinished
from tests.support.daemon.elastic import ElasticHost
from tests.support.keys import docker
from tests.support.kinds import ELASTIC, PLAIN, ContainerKind

FADING_SECONDS = 240
"""Eight half-lives of a peak: a load of 8 CPUs counts as less than a twentieth of one."""

QUIET_SECONDS = 200
"""How long nothing may change any more: twenty inventories, and a hundred measurements."""

DYNAMIC_MIX = msgspec.structs.replace(
    STATIC_MIX,
    kinds=(PLAIN, ContainerKind(is_exclusive=True, labels={"cpuset.on-shortage": ("wait", "stop", "share")}), ELASTIC),
    verbs={
        **{verb: weight for verb, weight in STATIC_MIX.verbs.items() if verb is not Verb.SWITCH},
        Verb.CREATE: 10,
        Verb.LOAD: 6,
        Verb.RESIZE: 4,
        Verb.DEFRAGMENT: 2,
        Verb.ACKNOWLEDGE: 1,
    },
)


class DynamicChurn(Churn):
    """Carries out actions drawn from a seed, and injects faults. Where CPUs go away, no container is pinned by hand."""

    host: ElasticHost
    mix = DYNAMIC_MIX

    def __init__(self, host: ElasticHost, chance: Random, *, takes_offline: bool = False) -> None:
        super().__init__(host, chance, takes_offline=takes_offline)
        self._offline_cpus = CPUSet()
        is_tampered = not takes_offline and chance.random() < 0.3
        verbs = {**self.mix.verbs, Verb.TAMPER: int(is_tampered), Verb.SWITCH: 2 * takes_offline}
        self.mix = msgspec.structs.replace(self.mix, verbs=verbs)

    async def rest(self) -> None:
        """Stop all faults, keep loads constant, and let peaks fade."""
        await super().rest()
        await trio.sleep(FADING_SECONDS)

    def _scene(self) -> Scene:
        scene = super()._scene()
        return msgspec.structs.replace(scene, present=self._offline_cpus or scene.present - CPUSet.of(0))

    async def _do(self, act: Act) -> None:
        requests = self.host.requests
        match act.verb:
            case Verb.LOAD:
                self.host.docker.kernel.keep_busy(act.container, act.load)
            case Verb.RESIZE if requests:
                with suppress(Declined):
                    await requests.resize(docker(act.container), act.size)
            case Verb.DEFRAGMENT if requests:
                with suppress(Declined):
                    await requests.defragment()
            case Verb.ACKNOWLEDGE if requests:
                await self._acknowledge(requests)
            case _:
                await super()._do(act)

    async def _acknowledge(self, requests: Requests) -> None:
        """Acknowledge a take through the API, for a container with leaving CPUs."""
        board = self.host.board
        waiting = [
            key.id
            for key, grant in (board.latest.state.assignments.items() if board else ())
            if grant.leaving and not grant.leaving.is_due
        ]
        if waiting:
            id = self.chance.choice(sorted(waiting))
            self.host.acknowledge_by_hand(id)
            with suppress(Declined):
                await requests.acknowledge(docker(id), None)

    def _switch(self, cpus: CPUSet) -> None:
        """Switch a CPU off or on. On version 2, offline CPUs come back half of the time."""
        kernel = self.host.docker.kernel
        if not self._offline_cpus:
            super()._switch(cpus)
            self._offline_cpus = cpus if kernel.cgroup_version == 2 else CPUSet()
            self._may_go_offline = kernel.cgroup_version == 2
        elif self.chance.random() < 0.5:
            self.host.surprised.update(self.host.docker.ids())
            kernel.bring_online(cpus)
            self._offline_cpus = CPUSet()


async def at_rest(host: ElasticHost) -> list[str]:
    """Return what is wrong at rest, and what changed after that."""
    # No event reports a CPU that comes online.
    found = unfinished(host, spared=(BookLaw.ONLINE, BookLaw.COMPLETE))
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
        told = host.told(grant.container.id)
        # It cannot enter the CPUs of a stranger.
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
    """Check that a container that follows its load has neither too many CPUs, nor too few while some are spare."""
    assert host.board is not None
    world, kernel = host.board.latest, host.docker.kernel
    found = [] if host.surprised else unfair(world)
    if world.settings.options:
        return found
    for key, grant in world.state.assignments.items():
        id = key.id
        if not follows_load(world, key) or kernel.effective(id) is None or id in host.surprised:
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
