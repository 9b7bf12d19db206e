"""Crashes: an unexpected error in the work for one container costs that container: the daemon and all others go on."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar import allocator, sifting
from sidecar.board import Board
from sidecar.crashes import Crashes
from sidecar.decide.facts import ContainerSeen, EngineConnected, InventoryTaken, StartLetGo
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName
from sidecar.decide.step import step
from sidecar.failures import EngineFailed
from sidecar.log import Log
from sidecar.observe import load_meter
from sidecar.projection import teller
from sidecar.projection.projections import Projections
from sidecar.status import narrator, present_status
from state.cpuset import CPUSet
from state.model import State
from state.topology import uniform
from tests.support.daemon.host import Host
from tests.support.decide.stories import static
from tests.support.keys import docker
from tests.test_allocator import INFO, view

EVIL = "evil"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host(tmp_path, monkeypatch)
    made.may_crash = True
    return made


def crashes_for(host: Host, container: Callable[..., str], was: Any) -> Any:
    """Return the function `was`, which raises for the container of this name; `container` finds its id."""

    def planted(*args: Any, **named: Any) -> Any:
        id = container(*args, **named)
        if id in host.docker.ids() and host.docker.container(id).name == EVIL:
            raise ValueError("planted")
        return was(*args, **named)

    return planted


PLACES: dict[str, tuple[Any, str, Callable[..., str]]] = {
    "looks": (None, "inspect", lambda id: id),
    "glances": (None, "glance", lambda id: id),
    "orders": (None, "update", lambda id, _: id),
    "projections": (teller, "projection_of", lambda _, container: container.view.id),
    "writes of projections": (Projections, "write", lambda _, id, *rest: id),
    "withdrawals": (Projections, "withdraw", lambda _, id, cpus: id),
    "announcements": (allocator, "projection_of", lambda _, container: container.view.id),
}


@pytest.mark.trio
@pytest.mark.parametrize("place", PLACES)
async def test_the_daemon_and_other_containers_survive_a_crash(
    autojump_clock: MockClock, host: Host, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Wherever it happens, an honest container that arrives afterwards gets its CPUs, and the daemon ends in order.

    It is settled as soon as no container that cannot be looked at or moved may be on its CPUs.
    """
    where, name, container = PLACES[place]
    where = host.engine if where is None else where
    monkeypatch.setattr(where, name, crashes_for(host, container, getattr(where, name)))
    async with host.running():
        evil = await host.docker.run(EVIL, labels={"cpuset.exclusive": "1"})
        await trio.sleep(30)
        honest = await host.docker.run("honest", labels={"cpuset.exclusive": "2"})
        await host.until(lambda: len(CPUSet.parse(host.where(honest))) == 2)
        await host.docker.stop(evil)
        await host.docker.start(evil)
        await host.docker.stop(evil)
        await host.docker.remove(evil)
        await host.settled(honest)
    assert host.broken == []


@pytest.mark.trio
async def test_a_container_that_no_decision_can_bear_is_left_out(
    autojump_clock: MockClock, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its label makes the decision raise: it counts as one without labels, and is kept off CPUs that are granted."""
    was = step

    def planted(world: Any, facts: Any) -> Any:
        for fact in facts:
            views = fact.seen if isinstance(fact, InventoryTaken) else [getattr(fact, "view", None)]
            if any(each and "cpuset.evil" in each.labels for each in views):
                raise ValueError("planted")
        return was(world, facts)

    monkeypatch.setattr(sifting, "step", planted)
    async with host.running():
        evil = await host.docker.run(EVIL, labels={"cpuset.evil": "1"})
        honest = await host.docker.run("honest", labels={"cpuset.exclusive": "2"})
        await host.settled(honest)
        await host.until(lambda: not CPUSet.parse(host.where(evil)) & CPUSet.parse(host.where(honest)))
    assert host.broken == []
    assert "container=evil" in host.lines.getvalue() or f"id={evil[:12]}" in host.lines.getvalue()


def crashes() -> tuple[Board, Crashes, io.StringIO]:
    lines = io.StringIO()
    board = Board(begin(State(), uniform(cores=4), static()))
    return board, Crashes(board, Log(lines)), lines


def test_a_crash_is_logged_with_its_container_and_counted() -> None:
    """With the trace once; the same crash again is only counted, since a container can repeat it without end."""
    board, contained, lines = crashes()
    for _ in range(3):
        with contained.contained(docker("a" * 64), "look"):
            raise ValueError("planted")
    assert board.crashes == 3
    assert lines.getvalue().count("planted") == lines.getvalue().count("trace=") * 3 == 3
    assert "container=aaaaaaaaaaaa" in lines.getvalue()


def test_an_error_that_the_design_knows_is_no_crash() -> None:
    board, contained, _ = crashes()
    with pytest.raises(EngineFailed), contained.contained(docker("a" * 64), "look"):
        raise EngineFailed("the engine's own")
    assert board.crashes == 0


def test_a_decision_that_raises_keeps_the_facts_that_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal gets only the facts that were decided on, so that it can be replayed."""
    board, contained, _ = crashes()
    was = step

    def planted(world: Any, facts: Any) -> Any:
        if any(isinstance(fact, StartLetGo) for fact in facts):
            raise ValueError("planted")
        return was(world, facts)

    monkeypatch.setattr(sifting, "step", planted)
    facts = (EngineConnected(INFO, 0), StartLetGo(docker("b" * 64), 1), ContainerSeen(view("a"), 2))
    decided = sifting.decide(board.latest, facts, contained)
    assert list(decided.facts) == [facts[0], facts[2]]
    assert docker("a" * 64) in decided.world.containers


def test_a_decision_that_raises_for_no_container_ends_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    board, contained, _ = crashes()
    monkeypatch.setattr(sifting, "step", lambda world, facts: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        sifting.decide(board.latest, [EngineConnected(INFO, 0)], contained)


@pytest.mark.trio
@pytest.mark.parametrize(("module", "name"), [(narrator, "news"), (present_status, "status_of")])
async def test_the_daemon_survives_what_it_cannot_describe(
    autojump_clock: MockClock, host: Host, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    was = getattr(module, name)

    def planted(*args: Any, **named: Any) -> Any:
        world = args[-1] if name == "news" else args[0]
        if any(each.view.name == EVIL for each in world.containers.values()):
            raise ValueError("planted")
        return was(*args, **named)

    async with host.running():
        monkeypatch.setattr(module, name, planted)
        await host.docker.run(EVIL)
        honest = await host.docker.run("honest", labels={"cpuset.exclusive": "2"})
        await host.settled(honest)


@pytest.mark.trio
async def test_the_daemon_survives_a_load_that_it_cannot_measure(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(tmp_path, monkeypatch, policy=PolicyName.DYNAMIC)
    host.may_crash = True
    monkeypatch.setattr(load_meter, "load_between", lambda *_: 1 / 0)
    async with host.running():
        labels = {"cpuset.exclusive": "1", "cpuset.max": "4", "cpuset.scale": "load"}
        await host.docker.run(EVIL, labels=labels)
        await trio.sleep(10)
        honest = await host.docker.run("honest", labels={"cpuset.exclusive": "2"})
        await host.settled(honest)
    assert "work=measurement" in host.lines.getvalue()
