"""The whole daemon and held starts: answered while the engine holds the lock, and while it is silent."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
import trio
from trio.testing import MockClock

from sidecar.api.served_socket import READY_SECONDS
from sidecar.api.unix_socket import NAME
from sidecar.decide.facts import EngineInfo
from tests.daemon.test_daemon_api import ask
from tests.support.daemon.host import Host

pytestmark = pytest.mark.trio

ONE = {"cpuset.exclusive": "2"}


async def test_a_start_is_answered_while_the_engine_holds_the_containers_lock(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An inspect would wait for the start, and the start for the answer: so it does not wait for an inspect."""
    host = Host(tmp_path, monkeypatch)
    async with host.running():
        await host.until((tmp_path / "state" / NAME).exists)
        other = await host.docker.run("other", labels={"cpuset.exclusive": "1"})
        await host.settled(other)
        # Locked before its event can lead to a look: as when a start wins the lock.
        id = await host.docker.create("strict", labels=ONE)
        async with host.docker.container(id).lock:
            with trio.fail_after(5):
                code, answer = await ask(host, "POST", "/v1/starts", {"id": id, "quota": 200_000, "period": 100_000})
            assert (code, answer["exclusive"], answer["update"]["quota"]) == (200, True, -1)
            told = await ask(host, "GET", "/v1/containers/strict")
            assert told[0] == 200
            await host.until(lambda: host.told(id) is not None)
        await host.docker.start(id)
        await host.settled(id)
        assert host.where(id) == answer["update"]["cpus"]
        assert host.where(other) != host.where(id)
    assert host.broken == []


async def test_a_daemon_that_starts_while_a_start_is_held_answers_it_at_once(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed before its answer. The first inventory would wait for the lock, the start for the answer."""
    host = Host(tmp_path, monkeypatch)
    async with host.running():
        other = await host.docker.run("other", labels={"cpuset.exclusive": "1"})
        await host.settled(other)
        id = await host.docker.create("strict", labels=ONE)
    stop = trio.Event()
    async with trio.open_nursery() as nursery, host.docker.container(id).lock:
        began = trio.current_time()
        nursery.start_soon(host.serve, stop)
        await host.until((tmp_path / "state" / NAME).exists)
        code, answer = await ask(host, "POST", "/v1/starts", {"id": id})
        assert (code, answer["exclusive"]) == (200, True)
        assert trio.current_time() - began < READY_SECONDS + 1
        assert "cannot be inspected" not in host.lines.getvalue()
        stop.set()
    assert host.broken == []


async def test_a_refused_start_frees_nothing_and_takes_nothing(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """409 with the reason, and the container is unchanged."""
    host = Host(tmp_path, monkeypatch)
    async with host.running():
        await host.until((tmp_path / "state" / NAME).exists)
        id = await host.docker.create("strict", labels={"cpuset.exclusive": "64"})
        async with host.docker.container(id).lock:
            code, answer = await ask(host, "POST", "/v1/starts", {"id": id})
        assert code == 409
        assert "asked for 64 exclusive CPUs" in answer["error"]
        assert host.where(id) == ""
    assert host.books().assignments == {}
    assert host.broken == []


async def test_a_daemon_beside_a_mute_engine_answers_by_its_books(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at boot: the engine starts its containers before it answers any request, and waits for this answer."""
    host = Host(tmp_path, monkeypatch)
    async with host.running():
        id = await host.docker.run("strict", labels=ONE)
        await host.settled(id)
        was = host.where(id)
    real, awake = host.engine.info, trio.Event()

    async def mute() -> EngineInfo:
        await awake.wait()
        return await real()

    monkeypatch.setattr(host.engine, "info", mute)
    monkeypatch.setattr(host.engine, "containers", never)
    monkeypatch.setattr(host.engine, "glance", never)
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.serve, stop)
        await host.until((tmp_path / "state" / NAME).exists)
        with trio.fail_after(10):
            code, answer = await ask(host, "POST", "/v1/starts", {"id": id, "name": "strict", "labels": ONE})
            shared = await ask(host, "POST", "/v1/starts", {"id": "f" * 64, "name": "shared"})
        assert (code, answer["update"]["cpus"], answer["exclusive"]) == (200, was, True)
        assert shared[1]["update"]["cpus"] == str(host.books().shared)
        monkeypatch.undo()
        awake.set()
        stop.set()


async def never(*_: object) -> NoReturn:
    await trio.sleep_forever()
    raise AssertionError
