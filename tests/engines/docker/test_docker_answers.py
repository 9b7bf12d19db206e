"""DockerEngine's calls, against answers that are wrong, missing, late or huge."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import aiohttp
import pytest
import trio

from sidecar.decide.orders import Update
from sidecar.engines.address import address
from sidecar.engines.answer_bounds import Patience
from sidecar.engines.asyncio_room import open_room
from sidecar.engines.docker.docker_engine import open_docker
from sidecar.engines.http_client import Client
from sidecar.engines.intakes import Entire
from sidecar.failures import (
    ContainerGone,
    EngineError,
    EngineFailed,
    EngineLacks,
    EngineRefused,
    EngineSilent,
    EngineUnavailable,
)
from state.cpuset import CPUSet
from tests.support.daemon.rawdaemon import INFO, NO_CONTAINER, VERSION, Connection, RawDaemon, Script, answer

ONE = "a" * 64
TWO = "b" * 64
UPDATE = Update(cpus=CPUSet.of(1))
IMPATIENT = Patience(look=0.2, update=0.2, stop=0.2)


@pytest.mark.trio
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (answer(404, NO_CONTAINER), ContainerGone),
        (answer(404, {"message": "page not found"}), EngineLacks),
        (answer(404, b"Not Found\n", "text/plain"), EngineLacks),
        (answer(400, {"message": "Requested CPUs are not available"}), EngineRefused),
        (answer(409, {"message": "Conflicting options"}), EngineRefused),
        (answer(500, {"message": "cannot update a stopped container"}), EngineFailed),
        (answer(500, b"<html>oops</html>"), EngineFailed),
        (answer(500, b'{"no": "message"}'), EngineFailed),
        (answer(500, b"\xff\xfe\x00"), EngineFailed),
        (answer(500, b""), EngineFailed),
        (answer(503, b"try later", "text/plain"), EngineUnavailable),
        (answer(200, {"Warnings": ["Your kernel does not support cpuset. Cpuset discarded."]}), EngineLacks),
        (answer(200, b"{not json"), EngineFailed),
    ],
)
async def test_each_answer_becomes_one_error(daemon: RawDaemon, reply: bytes, kind: type[EngineError]) -> None:
    """By what the caller may do about it; no foreign exception escapes, and the connection goes on."""
    daemon.scripts[f"/containers/{ONE}/update"] = reply
    async with open_docker(daemon.address) as engine:
        with pytest.raises(EngineError) as caught:
            await engine.update(ONE, UPDATE)
        assert type(caught.value) is kind
        assert (await engine.info()).ncpu == 2


@pytest.mark.trio
@pytest.mark.parametrize(
    "reply", [answer(200, {"Warnings": None}), answer(200, {"Warnings": ["swap"]}), answer(200, b"")]
)
async def test_an_update_that_was_taken_is_no_error(daemon: RawDaemon, reply: bytes) -> None:
    """Warnings about other things do not matter here."""
    daemon.scripts[f"/containers/{ONE}/update"] = reply
    async with open_docker(daemon.address) as engine:
        await engine.update(ONE, UPDATE)
    assert daemon.requests[-1] == f"POST /v1.41/containers/{ONE}/update"


@pytest.mark.trio
async def test_an_engine_that_does_not_answer_is_unavailable(daemon: RawDaemon) -> None:
    """Every call is bounded in time; the stuck connection is thrown away, and the next call is served."""
    daemon.scripts[f"/containers/{ONE}/update"] = Connection.hang
    async with open_docker(daemon.address, IMPATIENT) as engine:
        with pytest.raises(EngineUnavailable, match=r"did not answer within 0\.2 s"):
            await engine.update(ONE, UPDATE)
        daemon.scripts[f"/containers/{ONE}/update"] = answer(200, {})
        await engine.update(ONE, UPDATE)


@pytest.mark.trio
async def test_a_call_that_is_given_up_gives_its_connection_up(daemon: RawDaemon) -> None:
    """A deadline of the caller ends the call at once, and the next request gets its own answer."""
    daemon.scripts[f"/containers/{ONE}/json"] = Connection.hang
    daemon.scripts["/containers/json"] = answer(200, [{"Id": ONE}])
    async with open_docker(daemon.address) as engine:
        with trio.move_on_after(0.1) as scope:
            await engine.inspect(ONE)
        assert scope.cancelled_caught
        assert await engine.containers() == (ONE,)


@pytest.mark.trio
async def test_a_hang_up_in_the_middle_is_unavailable(daemon: RawDaemon) -> None:
    """Half an answer is no answer, and whether the order took effect is unknown."""

    def half(connection: Connection) -> None:
        connection.send(answer(200, b'{"Warnings": null}')[:-5])
        connection.cut()

    daemon.scripts[f"/containers/{ONE}/update"] = half
    async with open_docker(daemon.address) as engine:
        with pytest.raises(EngineUnavailable):
            await engine.update(ONE, UPDATE)


@pytest.mark.trio
async def test_plain_tcp_is_spoken(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the loopback, for an engine behind a proxy; TLS settings of the docker command do not matter."""
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.delenv("DOCKER_CERT_PATH", raising=False)
    with RawDaemon(None) as daemon:
        async with open_docker(daemon.address) as engine:
            assert (await engine.info()).ncpu == 2


@pytest.mark.trio
async def test_no_socket_names_the_cure(tmp_path: Path) -> None:
    """A reader of the log learns what to do."""
    async with open_docker(f"unix://{tmp_path}/none.sock") as engine:
        with pytest.raises(EngineUnavailable, match=r"no such socket: start the engine \(systemctl "):
            await engine.info()


@pytest.mark.trio
async def test_a_directory_in_place_of_the_socket_is_called_one(tmp_path: Path) -> None:
    """Docker makes a directory of a mounted path that does not exist: no engine can be started there."""
    async with open_docker(f"unix://{tmp_path}") as docker:
        with pytest.raises(EngineUnavailable, match="it is a directory: the path that is mounted there does not exist"):
            await docker.info()


@pytest.mark.trio
async def test_no_permission_names_the_cure() -> None:
    """The usual mistake of a first start."""

    async def worded() -> EngineUnavailable:
        client = Client(address("/run/x.sock", "the test"))
        try:
            foreign = aiohttp.ClientConnectionError("cannot connect")
            foreign.__cause__ = PermissionError(13, "Permission denied")
            return client.unavailable(foreign)
        finally:
            await client.close()

    async with open_room() as room:
        assert "permission denied: run as root, or as a member of the socket's group" in str(await room.call(worded))


@pytest.mark.trio
@pytest.mark.parametrize(
    ("theirs", "oldest", "spoken"), [("1.41", "1.12", "v1.41"), ("1.52", "1.44", "v1.45"), ("1.60", "1.50", "v1.50")]
)
async def test_the_api_version_is_one_that_both_know(daemon: RawDaemon, theirs: str, oldest: str, spoken: str) -> None:
    """The newest known here, unless the engine is older, or no longer supports it."""
    daemon.scripts["/version"] = answer(200, {**VERSION, "ApiVersion": theirs, "MinAPIVersion": oldest})
    async with open_docker(daemon.address) as engine:
        assert (await engine.info()).api_version == theirs
    assert f"GET /{spoken}/info" in daemon.requests


@pytest.mark.trio
async def test_an_engine_without_cpusets_lacks_what_is_needed(daemon: RawDaemon) -> None:
    """A rootless engine would take every order with a warning and drop it."""
    daemon.scripts["/info"] = answer(200, {**INFO, "CPUSet": False})
    async with open_docker(daemon.address) as engine:
        with pytest.raises(EngineLacks, match="Delegate"):
            await engine.info()


@pytest.mark.trio
async def test_an_engine_without_the_update_route_lacks_what_is_needed(daemon: RawDaemon) -> None:
    """Podman before 5.1 answers with a bare 404."""
    daemon.scripts["/containers/" + "0" * 64 + "/update"] = answer(404, b"Not Found", "text/plain")
    async with open_docker(daemon.address) as engine:
        with pytest.raises(EngineLacks, match="does not know the route"):
            await engine.info()


@pytest.mark.slow
@pytest.mark.trio
async def test_a_label_of_forty_megabytes_is_survived(daemon: RawDaemon) -> None:
    """In the list and in the description; only a short part is kept."""
    giant = "x" * 40_000_000
    labels = {"cpuset.exclusive": giant, "other": giant}
    daemon.scripts["/containers/json"] = answer(200, [{"Id": ONE, "Labels": labels}])
    daemon.scripts[f"/containers/{ONE}/json"] = answer(
        200, {"Id": ONE, "State": {"Status": "running", "Pid": 7}, "Config": {"Labels": labels}}
    )
    async with open_docker(daemon.address) as engine:
        assert await engine.containers() == (ONE,)
        view = await engine.inspect(ONE)
    assert view.labels == {"cpuset.exclusive": "x" * 255 + "…"}


@pytest.mark.slow
@pytest.mark.trio
async def test_a_million_labels_hide_nothing_but_labels(daemon: RawDaemon) -> None:
    """Its state and its limits are read, and so are the other containers."""
    labels = {f"a{number}": "" for number in range(1_000_000)}
    described = {"Id": ONE, "Config": {"Labels": labels}, "HostConfig": {"CpusetCpus": "3"}}
    daemon.scripts[f"/containers/{ONE}/json"] = answer(200, described)
    daemon.scripts["/containers/json"] = answer(200, [{"Id": ONE, "Labels": labels}, {"Id": TWO, "Labels": {}}])
    async with open_docker(daemon.address) as engine:
        assert (await engine.inspect(ONE)).cpuset == "3"
        assert await engine.containers() == (ONE, TWO)


@pytest.mark.slow
@pytest.mark.trio
async def test_a_million_labels_hide_all_without_the_sieve(daemon: RawDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault that an audit found (H1) is seen: an answer is kept whole, or not at all."""
    monkeypatch.setattr("sidecar.engines.docker.docker_engine.Sifted", lambda picks: Entire())
    with pytest.raises(EngineFailed, match="larger than"):
        await test_a_million_labels_hide_nothing_but_labels(daemon)


@pytest.mark.trio
async def test_the_list_tells_which_containers_have_never_run(daemon: RawDaemon) -> None:
    """Also one that is sifted, because it is large."""
    for labels in ({}, {f"a{number}": "x" * 60_000 for number in range(300)}):
        created, exited = {"Id": ONE, "State": "created", "Labels": labels}, {"Id": TWO, "State": "exited"}
        daemon.scripts["/containers/json"] = answer(200, [created, exited, {"Id": "c" * 64, "State": None}])
        async with open_docker(daemon.address) as engine:
            assert set(engine.unstarted) == set()
            assert await engine.containers() == (ONE, TWO, "c" * 64)
            assert set(engine.unstarted) == {ONE}


@pytest.mark.trio
async def test_an_answer_beyond_all_bounds_is_not_read(daemon: RawDaemon) -> None:
    """A refusal to read on, not a death by memory; the other containers are still seen."""
    mounts = [{"Source": "/" + "x" * 60_000, "Destination": "/y"}] * 100
    daemon.scripts[f"/containers/{ONE}/json"] = answer(200, {"Id": ONE, "Mounts": mounts})
    daemon.scripts["/containers/json"] = answer(200, [])
    async with open_docker(daemon.address) as engine:
        with pytest.raises(EngineFailed, match="more parts than any container needs"):
            await engine.inspect(ONE)
        assert await engine.containers() == ()


@pytest.mark.trio
async def test_a_name_cannot_reach_another_route(daemon: RawDaemon) -> None:
    """Any container argument becomes one segment of the path."""
    async with open_docker(daemon.address) as engine:
        with pytest.raises(EngineError):
            await engine.inspect("x/../../images/json?all=1#")
    assert daemon.requests[-1].startswith("GET /v1.41/containers/x%2F..%2F..%2Fimages%2Fjson%3Fall=1%23/json") or (
        daemon.requests[-1] == "GET /v1.41/containers/x%2F..%2F..%2Fimages%2Fjson%3Fall%3D1%23/json"
    )


@pytest.mark.trio
async def test_nothing_is_left_open(daemon: RawDaemon) -> None:
    """No thread, no file: an engine may be opened and closed indefinitely."""

    async def once() -> None:
        async with open_docker(daemon.address, IMPATIENT) as engine:
            await engine.info()
            with pytest.raises(EngineError):
                await engine.inspect(ONE)

    await once()
    files = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await once()
    daemon.kill()
    assert not [thread for thread in threading.enumerate() if thread.name == "engine-asyncio"]
    assert len(os.listdir("/proc/self/fd")) <= files


@pytest.mark.trio
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (answer(404, NO_CONTAINER), ContainerGone),
        (answer(409, {"message": f"Cannot kill container: {ONE}: Container {ONE} is not running"}), EngineRefused),
        (answer(400, {"message": "Invalid signal: FOO"}), EngineRefused),
        (answer(500, {"message": "Cannot kill container: unknown error"}), EngineFailed),
        (Connection.hang, EngineSilent),
    ],
)
async def test_a_signal_that_is_not_delivered_is_one_error(
    daemon: RawDaemon, reply: Script, kind: type[EngineError]
) -> None:
    daemon.scripts[f"/containers/{ONE}/json"] = answer(200, {"Id": ONE})
    daemon.scripts[f"/containers/{ONE}/kill"] = reply
    async with open_docker(daemon.address, IMPATIENT) as engine:
        with pytest.raises(EngineError) as caught:
            await engine.signal(ONE, "HUP")
    assert type(caught.value) is kind
    assert daemon.requests[-1] == f"POST /v1.41/containers/{ONE}/kill?signal=HUP"


@pytest.mark.trio
@pytest.mark.parametrize("stop_signal", ["SIGTERM", "term", 15, "RTMIN+3", "9" * 5000, "SIG" + "9" * 4999])
async def test_a_signal_goes_out_however_the_stop_signal_is_written(daemon: RawDaemon, stop_signal: object) -> None:
    """Podman reports a number, and an image may have any text, which no engine checks."""
    described = {"Id": ONE, "Config": {"StopSignal": stop_signal}, "HostConfig": {"RestartPolicy": {"Name": "always"}}}
    daemon.scripts[f"/containers/{ONE}/json"] = answer(200, described)
    daemon.scripts[f"/containers/{ONE}/kill"] = answer(204, b"")
    async with open_docker(daemon.address, IMPATIENT) as engine:
        await engine.signal(ONE, "USR1")
    assert daemon.requests[-1] == f"POST /v1.41/containers/{ONE}/kill?signal=USR1"
