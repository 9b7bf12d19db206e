"""DockerEngine's event stream, against daemons that break it in every observed way."""

from __future__ import annotations

import json
import threading
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trio

from sidecar.engines.answer_bounds import Patience
from sidecar.engines.docker import docker_wire
from sidecar.engines.docker.docker_engine import open_docker
from sidecar.failures import EngineError, EngineFailed, EngineUnavailable
from sidecar.ports import EngineEvent
from tests.support.daemon.rawdaemon import END_OF_STREAM, STREAM, Connection, RawDaemon, Script, answer, chunk

ONE, TWO = "1" * 64, "2" * 64


def line(container: str, action: str, nano: int, **attributes: str) -> bytes:
    event = {
        "status": action,
        "id": container,
        "from": "image",
        "Type": "container",
        "Action": action,
        "Actor": {"ID": container, "Attributes": attributes},
        "scope": "local",
        "time": nano // 10**9,
        "timeNano": nano,
    }
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


async def collected(daemon: RawDaemon) -> tuple[list[EngineEvent], EngineError]:
    """Return all events of one stream, and what ended it."""
    events: list[EngineEvent] = []
    async with open_docker(daemon.address) as engine, engine.events() as stream:
        try:
            with trio.fail_after(20):
                while True:
                    events.append(await anext(stream))
        except EngineError as error:
            return events, error


def sends(*parts: bytes) -> Script:
    def script(connection: Connection) -> None:
        for part in (STREAM, *parts):
            connection.send(part)
        connection.cut()

    return script


@pytest.mark.trio
async def test_events_come_in_order_whatever_the_pieces(daemon: RawDaemon) -> None:
    """A line may come in pieces, and a piece may hold many lines."""
    lines = b"".join(line(ONE, "start", n) for n in range(1, 200))
    daemon.scripts["/events"] = sends(*(chunk(lines[n : n + 777]) for n in range(0, len(lines), 777)), END_OF_STREAM)
    events, error = await collected(daemon)
    assert [event.time_nano for event in events] == list(range(1, 200))
    assert type(error) is EngineUnavailable


@pytest.mark.trio
@pytest.mark.parametrize("rest", [chunk(line(TWO, "start", 2)[:50]), b"ffff\r\n{", END_OF_STREAM, b""])
async def test_a_broken_stream_is_unavailable_after_its_last_event(daemon: RawDaemon, rest: bytes) -> None:
    """Cut in a line, cut in a piece, ended, hung up, garbled: complete events are delivered, half an event never."""
    daemon.scripts["/events"] = sends(chunk(line(ONE, "start", 1)), rest)
    events, error = await collected(daemon)
    assert events == [EngineEvent(container=ONE, action="start", time_nano=1)]
    assert type(error) is EngineUnavailable


@pytest.mark.trio
async def test_a_stream_that_is_no_http_is_unavailable(daemon: RawDaemon) -> None:
    """Whether it is noticed when subscribing or later; and within seconds if the HTTP library raises no error."""
    daemon.scripts["/events"] = sends(chunk(line(ONE, "start", 1)), b"nonsense\r\n")
    with pytest.raises(EngineUnavailable, match=r"chunk|its connection was closed"):
        raise (await collected(daemon))[1]


@pytest.mark.trio
async def test_a_new_stream_hears_again(daemon: RawDaemon) -> None:
    """After an end a new subscription is a new request, on the same engine object."""
    daemon.scripts["/events"] = sends(chunk(line(ONE, "start", 1)), END_OF_STREAM)
    async with open_docker(daemon.address) as engine:
        for _ in range(3):
            async with engine.events() as stream:
                assert (await anext(stream)).container == ONE
                for _ in range(2):
                    with pytest.raises(EngineUnavailable):
                        await anext(stream)
    assert sum("/events?" in request for request in daemon.requests) == 3


@pytest.mark.trio
async def test_a_hundred_reconnections_leave_nothing_behind(daemon: RawDaemon) -> None:
    """A flapping engine costs no file and no thread, and every stream hears its event."""
    daemon.scripts["/events"] = sends(chunk(line(ONE, "start", 1)), END_OF_STREAM)
    async with open_docker(daemon.address) as engine:
        threads, connections = [], []
        for _ in range(100):
            async with engine.events() as stream:
                assert (await anext(stream)).container == ONE
                with pytest.raises(EngineUnavailable):
                    await anext(stream)
            threads.append(len([thread for thread in threading.enumerate() if thread not in daemon.threads]))
            connections.append(daemon.open_connections())
    assert max(threads[10:]) <= max(threads[:10])
    # One may be just closing while the next is open; a leak would stay for good.
    assert max(connections) <= 2


@pytest.mark.trio
async def test_only_what_matters_is_asked_for(daemon: RawDaemon) -> None:
    """The engine filters: exec and health noise would fill its buffers and ours."""
    daemon.scripts["/events"] = sends(END_OF_STREAM)
    await collected(daemon)
    query = parse_qs(urlsplit(daemon.requests[-1].split(" ")[1]).query)
    filters = json.loads(query["filters"][0])
    assert filters["type"] == ["container"]
    assert {"create", "start", "die", "destroy", "update", "rename"} <= set(filters["event"])
    assert float(query["since"][0]) > 0


@pytest.mark.trio
async def test_an_event_too_long_to_keep_is_still_understood(daemon: RawDaemon) -> None:
    """A label of 40 MB: the event is recognised by its beginning and its end, and the next one comes."""
    giant = line(ONE, "create", 5, label="x" * 40_000_000)
    pieces = [chunk(giant[n : n + 2**20]) for n in range(0, len(giant), 2**20)]
    daemon.scripts["/events"] = sends(*pieces, chunk(line(TWO, "start", 6)), END_OF_STREAM)
    events, _ = await collected(daemon)
    assert events == [
        EngineEvent(container=ONE, action="create", time_nano=5),
        EngineEvent(container=TWO, action="start", time_nano=6),
    ]


@pytest.mark.trio
async def test_a_long_line_that_tells_nothing_is_a_gap(daemon: RawDaemon) -> None:
    """An unknown event happened: look at everything."""
    junk = b'{"Action":"' + b"x" * 3_000_000 + b'"}\n'
    daemon.scripts["/events"] = sends(chunk(junk), chunk(line(TWO, "start", 6)), END_OF_STREAM)
    events, _ = await collected(daemon)
    assert [event.is_gap for event in events] == [True, False]


@pytest.mark.trio
async def test_junk_between_events_is_passed_over(daemon: RawDaemon) -> None:
    """Not JSON, not UTF-8, not an object, not of a container, not of interest."""
    junk = [b"{", b"\xff\xfe", b"[]", b"null", b'{"Type":"network","Action":"connect"}', b"", b'{"Type":"container"}']
    body = b"\n".join(junk) + b"\n" + line(ONE, "exec_create: sh", 1) + line(ONE, "die", 2)
    daemon.scripts["/events"] = sends(chunk(body), END_OF_STREAM)
    events, _ = await collected(daemon)
    assert [event.action for event in events] == ["die"]


@pytest.mark.trio
async def test_a_reader_that_does_not_read_gets_a_gap(daemon: RawDaemon) -> None:
    """The engine is never kept waiting: events beyond the backlog are dropped here, and reported as a gap."""
    sent = threading.Event()

    def flood(connection: Connection) -> None:
        connection.send(STREAM)
        for burst in range(100):
            connection.send(chunk(b"".join(line(ONE, "start", burst * 100 + n) for n in range(100))))
        sent.set()
        connection.hang()

    daemon.scripts["/events"] = flood
    async with open_docker(daemon.address) as engine, engine.events() as stream:
        # This call into the room comes after all was sent, so every event has been queued or dropped by then.
        assert await trio.to_thread.run_sync(sent.wait, 20)
        await engine.info()
        events = []
        with trio.fail_after(20):
            while not (event := await anext(stream)).is_gap:
                events.append(event)
    assert 4096 <= len(events) < 10_000
    assert [event.time_nano for event in events] == list(range(len(events)))


@pytest.mark.trio
async def test_a_refused_subscription_says_why(daemon: RawDaemon) -> None:
    """Podman without an event log answers 500."""
    daemon.scripts["/events"] = answer(500, b'cannot read events with the "none" backend')
    async with open_docker(daemon.address) as engine:
        with pytest.raises(EngineFailed, match="none"):
            async with engine.events():
                pass


@pytest.mark.trio
async def test_a_subscription_that_is_not_answered_is_unavailable(daemon: RawDaemon) -> None:
    """Within the timeout, not indefinitely."""
    daemon.scripts["/events"] = Connection.hang
    async with open_docker(daemon.address, Patience(look=0.2)) as engine:
        with pytest.raises(EngineUnavailable):
            async with engine.events():
                pass


@pytest.mark.trio
async def test_a_silent_stream_stays_open(daemon: RawDaemon) -> None:
    """An idle host is no fault: the time limit is for the subscription only."""

    def patient(connection: Connection) -> None:
        connection.send(STREAM)
        connection.closing.wait(0.5)
        connection.send(chunk(line(ONE, "start", 1)))
        connection.hang()

    daemon.scripts["/events"] = patient
    async with open_docker(daemon.address, Patience(look=0.1)) as engine, engine.events() as stream:
        with trio.fail_after(20):
            assert (await anext(stream)).container == ONE


@pytest.mark.trio
async def test_the_body_s_own_error_comes_out_as_it_is(daemon: RawDaemon) -> None:
    """No exception group around it: an `except EngineError` must catch it here too."""

    def stream_open(connection: Connection) -> None:
        connection.send(STREAM)
        connection.hang()

    daemon.scripts["/events"] = stream_open
    with pytest.raises(EngineUnavailable, match="ours"):
        async with open_docker(daemon.address) as engine, engine.events():
            raise EngineUnavailable("ours")


@pytest.mark.trio
async def test_a_new_container_s_event_comes_with_its_view(daemon: RawDaemon) -> None:
    """The reader inspects it at once; if that fails, and for other actions, the event comes alone."""
    inspected = {
        "Id": ONE,
        "Name": "/web",
        "State": {"Status": "created"},
        "Config": {"Labels": {"cpuset.exclusive": "2"}},
    }
    daemon.scripts[f"/containers/{ONE}/json"] = answer(200, {**inspected, "HostConfig": {"NanoCpus": 2}})
    daemon.scripts[f"/containers/{TWO}/json"] = answer(404, {"message": "No such container"})
    found: dict[tuple[str, str], EngineEvent] = {}

    def script(connection: Connection) -> None:
        lines = line(ONE, "create", 1) + line(TWO, "create", 2) + line(ONE, "start", 3)
        connection.send(STREAM + chunk(lines))
        connection.hang()

    daemon.scripts["/events"] = script
    with trio.fail_after(20):
        async with open_docker(daemon.address) as engine, engine.events() as stream:
            for _ in range(3):
                event = await anext(stream)
                found[event.container, event.action] = event
    view = found[ONE, "create"].view
    assert view is not None
    assert (view.name, view.nano_cpus, view.labels) == ("web", 2, {"cpuset.exclusive": "2"})
    assert found[TWO, "create"].view is None
    assert found[ONE, "start"].view is None


@pytest.mark.trio
async def test_a_look_that_waits_holds_up_no_other_event_and_ends_with_the_stream(daemon: RawDaemon) -> None:
    """An engine locks a container during its start."""
    daemon.scripts[f"/containers/{ONE}/json"] = lambda connection: connection.hang()

    def script(connection: Connection) -> None:
        connection.send(STREAM + chunk(line(ONE, "create", 1) + line(ONE, "start", 2)))
        connection.hang()

    daemon.scripts["/events"] = script
    with trio.fail_after(20):
        async with open_docker(daemon.address) as engine, engine.events() as stream:
            assert (await anext(stream)).action == "start"


@pytest.mark.trio
async def test_a_view_of_what_was_destroyed_meanwhile_is_never_told(daemon: RawDaemon) -> None:
    """Otherwise it would bring back a container that is gone."""
    inspected = threading.Event()

    def slow(connection: Connection) -> None:
        inspected.wait(20)
        connection.send(answer(200, {"Id": ONE, "Name": "/gone", "State": {"Status": "created"}}))

    def script(connection: Connection) -> None:
        connection.send(STREAM + chunk(line(ONE, "create", 1) + line(ONE, "destroy", 2)))
        inspected.set()
        connection.send(chunk(line(TWO, "start", 3)))
        connection.hang()

    daemon.scripts[f"/containers/{ONE}/json"] = slow
    daemon.scripts["/events"] = script
    with trio.fail_after(20):
        async with open_docker(daemon.address) as engine, engine.events() as stream:
            assert [(await anext(stream)).action for _ in range(2)] == ["destroy", "start"]
            with trio.move_on_after(0.3):
                pytest.fail(f"told: {await anext(stream)}")


@pytest.mark.trio
async def test_an_event_that_cannot_be_read_unexpectedly_is_a_gap(
    daemon: RawDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream goes on, and everything is looked at."""
    was = docker_wire._event

    def planted(container: str, *rest: Any) -> EngineEvent | None:
        if container == ONE:
            raise ValueError("planted")
        return was(container, *rest)

    monkeypatch.setattr(docker_wire, "_event", planted)
    daemon.scripts["/events"] = sends(chunk(line(ONE, "start", 1) + line(TWO, "start", 2)))
    events, _ = await collected(daemon)
    assert [(event.is_gap, event.crash) for event in events] == [(True, "ValueError: planted"), (False, "")]


@pytest.mark.trio
async def test_a_created_container_that_cannot_be_read_unexpectedly_is_an_event(
    daemon: RawDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a view: the look that the event requests meets the error, where it is contained."""
    monkeypatch.setattr(docker_wire, "view_of", lambda *_: 1 / 0)
    daemon.scripts[f"/containers/{ONE}/json"] = answer(200, {"Id": ONE})

    def script(connection: Connection) -> None:
        connection.send(STREAM + chunk(line(ONE, "create", 1)))
        connection.hang()

    daemon.scripts["/events"] = script
    with trio.fail_after(20):
        async with open_docker(daemon.address) as engine, engine.events() as stream:
            assert await anext(stream) == EngineEvent(container=ONE, action="create", time_nano=1)
