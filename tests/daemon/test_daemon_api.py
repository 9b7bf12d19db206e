"""The daemon serves its API for as long as it runs: a resize by HTTP ends in the kernel; the socket goes with it."""

from __future__ import annotations

import json
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar import daemon
from sidecar.api.unix_socket import NAME
from sidecar.config.config import Config
from sidecar.config.hook_sections import Hook
from sidecar.decide.settings import PolicyName
from sidecar.hooks import hook_runner
from sidecar.status.event_file import event_file, event_of
from sidecar.words.event_text import event_text
from tests.support.daemon.host import Host

pytestmark = pytest.mark.trio


async def ask(host: Host, method: str, route: str, body: object = None) -> tuple[int, Any]:
    """Send one request on a connection of its own."""
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {route} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(content)}\r\n\r\n"
    stream = await trio.open_unix_socket(str(host.path / "state" / NAME))
    async with stream:
        await stream.send_all(head.encode() + content)
        answer = b"".join([chunk async for chunk in stream])
    status, _, rest = answer.partition(b"\r\n")
    return int(status.split()[1]), json.loads(rest.partition(b"\r\n\r\n")[2])


async def test_a_resize_by_http_ends_in_the_kernel(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requested, decided, held for the notice, applied; and shown in the status on disk throughout."""
    host = Host(tmp_path, monkeypatch, policy=PolicyName.DYNAMIC)
    manual = {"cpuset.exclusive": "1", "cpuset.max": "3", "cpuset.scale": "manual", "cpuset.grace": "1s"}
    async with host.running():
        man = await host.docker.run("man", labels=manual)
        await host.settled(man)
        assert stat.S_IMODE((tmp_path / "state" / NAME).stat().st_mode) == 0o600
        code, told = await ask(host, "POST", "/v1/containers/man/resize", {"cpus": 3})
        assert (code, told["ordered"], told["short"]) == (200, 3, "")
        await host.until(lambda: host.where(man) == told["granted"])
        code, told = await ask(host, "POST", "/v1/containers/man/resize", {"cpus": 1})
        assert (code, told["leaving"]["is_due"], told["leaving"]["notice_seconds"]) == (200, False, 1.0)
        await host.until(lambda: host.where(man) == told["granted"])
        code, told = await ask(host, "GET", "/v1/containers/man")
        assert (code, told["forced"], told["leaving"]) == (200, 1, None)
        assert (await ask(host, "GET", "/readyz"))[0] == 200
    assert not (tmp_path / "state" / NAME).exists()
    assert host.broken == []


async def test_a_follower_does_not_hold_up_the_end(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower of events sees the connection close."""
    host = Host(tmp_path, monkeypatch)
    async with host.running():
        await host.until((tmp_path / "state" / NAME).exists)
        stream = await trio.open_unix_socket(str(tmp_path / "state" / NAME))
        await stream.send_all(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n")
        seen = b""
        while b": following" not in seen:
            seen += await stream.receive_some(65536)
    async with stream:
        rest = b"".join([chunk async for chunk in stream])
    assert b"HTTP/1.1 200" in seen + rest


async def test_a_state_dir_that_is_too_long_for_a_socket_ends_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, and the cure, before any action. A release needs no socket."""
    state = tmp_path / ("x" * 100)
    config = Config(engine="unix:///nowhere.sock", state_dir=str(state), projections=str(tmp_path / "p"))
    assert await trio.to_thread.run_sync(daemon.run, config) == 1
    assert "the path of a socket at most 107: choose a shorter state_dir" in capsys.readouterr().err
    assert not state.exists()
    assert await trio.to_thread.run_sync(daemon.release, config) == 1
    assert "107" not in capsys.readouterr().err


async def test_what_is_configured_to_listen_answers_over_tcp(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For as long as the daemon runs: the answers of the Unix socket, except routes that change something."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    host = Host(tmp_path, monkeypatch, listen=f"127.0.0.1:{port}")
    async with host.running():
        await host.docker.run("one", labels={"cpuset.exclusive": "1"})
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            told = b"".join([chunk async for chunk in stream])
        assert told.startswith(b"HTTP/1.1 200")
        assert b"cpuset_sidecar_capacity_cpus " in told
    with pytest.raises(OSError, match="all attempts to connect"):
        await trio.open_tcp_stream("127.0.0.1", port)


async def test_what_a_daemon_decides_before_it_answers_is_counted(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers that came while none ran: a grant, a refusal, and labels that no request can be read from. And no
    daemon counts what one before it counted.
    """
    names = {
        "requests": "kubelet_cpu_manager_pinning_requests_total",
        "errors": "kubelet_cpu_manager_pinning_errors_total",
        "short": 'cpuset_sidecar_refusals_total{code="not-enough"}',
        "invalid": 'cpuset_sidecar_refusals_total{code="bad-label"}',
        "aligned": 'kubelet_container_aligned_compute_resources_count{boundary="numa_node",scope="container"}',
    }
    host = Host(tmp_path, monkeypatch)
    for name, asks in {"one": "1", "many": "99", "typo": "zz"}.items():
        await host.docker.run(name, labels={"cpuset.exclusive": asks, "cpuset.numa": "single"})
    for counted in ((2, 1, 1, 1, 1), (0, 0, 0, 0, 0)):
        async with host.running():
            await host.until((tmp_path / "state" / NAME).exists)
            told = await metrics(tmp_path)
            assert told["cpuset_sidecar_ready"] == 1
            assert {name: told[series] for name, series in names.items()} == dict(zip(names, counted, strict=True))


async def metrics(folder: Path) -> dict[str, float]:
    """Return the value of each series, as the daemon answers."""
    async with await trio.open_unix_socket(str(folder / "state" / NAME)) as stream:
        await stream.send_all(b"GET /metrics HTTP/1.0\r\nhost: localhost\r\n\r\n")
        answer = b"".join([chunk async for chunk in stream]).decode()
    lines = answer.partition("\r\n\r\n")[2].splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


async def test_a_port_in_use_ends_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and the cure, before any request to the engine."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        config = Config(
            engine="unix:///nowhere.sock",
            state_dir=str(tmp_path / "s"),
            projections=str(tmp_path / "p"),
            listen=listen,
        )
        code = await trio.to_thread.run_sync(daemon.run, config)
    assert code == 1
    assert f"listen is '{listen}', and nothing can listen there: Address already in use; another program" in (
        capsys.readouterr().err
    )


async def test_events_are_recorded_across_daemons(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When each began and ended, and what changed between; the next daemon continues the file, without a line that was
    cut off.
    """
    for number in (1, 2):
        if number == 2:
            cut_off(tmp_path / "state" / "events.jsonl")
        host = Host(tmp_path, monkeypatch)
        async with host.running():
            await host.settled(await host.docker.run(f"rt{number}", labels={"cpuset.exclusive": "1"}))
            await host.until(lambda number=number: f"rt{number}" in recorded(tmp_path)[-1])  # type: ignore[misc]
    told = recorded(tmp_path)
    assert [each for each in told if "daemon" in each] == ["the daemon began", "the daemon ended"] * 2
    assert "rt1 was granted CPU 1" in told
    assert told[-1] == "the daemon ended"


def cut_off(file: Path) -> None:
    """Leave half a line at the end, as a daemon that is killed while it writes."""
    file.write_bytes(file.read_bytes() + b'{"id":"cut o')


def recorded(folder: Path) -> list[str]:
    """Return the recorded events, in words."""
    return [event_text(event) for line in event_file(str(folder / "state")).read() if (event := event_of(line))]


async def test_a_file_of_events_that_cannot_be_written_is_a_problem_and_nothing_more(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory in its place: containers get their CPUs all the same."""
    (tmp_path / "state" / "events.jsonl").mkdir(parents=True)
    host = Host(tmp_path, monkeypatch)
    async with host.running():
        await host.settled(await host.docker.run("rt", labels={"cpuset.exclusive": "1"}))
        code, told = await ask(host, "GET", "/healthz")
        assert code == 200
        assert any("events.jsonl" in problem for problem in told["problems"])
    assert host.broken == []


async def test_a_hook_is_told_and_one_that_fails_is_a_problem(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both at a grant; the container has its CPUs meanwhile, whatever hooks do. What they run is no part of this."""
    heard: list[bytes] = []

    async def told(hook: Hook, document: bytes) -> str:
        heard.append(document)
        return "" if hook.name == "hear" else "planted"

    monkeypatch.setattr(hook_runner, "told", told)
    hooks = (
        Hook(name="hear", command=("/bin/hear",), on=("granted",)),
        Hook(name="fail", webhook="http://127.0.0.1:9/"),
    )
    host = Host(tmp_path, monkeypatch, hooks=hooks)
    async with host.running():
        await host.settled(await host.docker.run("rt", labels={"cpuset.exclusive": "1"}))
        await host.until(lambda: len(heard) == 2)
        _, status = await ask(host, "GET", "/healthz")
    for document in map(json.loads, heard):
        assert [(event["message"], event["container"]) for event in document["events"]] == [("granted", "rt")]
    assert status["problems"] == ["the hook fail failed: planted (1 of 1 times)"]
