"""PodmanEngine's calls, against recorded answers and wrong, missing or late ones; and the detection of engines."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.orders import Update
from sidecar.engines.answer_bounds import Patience
from sidecar.engines.open_engine import FoundEngine, open_engine
from sidecar.failures import ContainerGone, EngineFailed, EngineLacks, EngineRefused, EngineSilent, EngineUnavailable
from state.cpuset import CPUSet
from state.errors import StateError
from state.topology import Topology, uniform
from tests.support.daemon.rawdaemon import END_OF_STREAM, NO_CONTAINER, STREAM, Connection, RawDaemon, answer, chunk

pytestmark = pytest.mark.trio

RECORDED = Path(__file__).parents[1] / "recorded"
INSPECT = json.loads((RECORDED / "podman-4.3-inspect.json").read_bytes())
INFO = json.loads((RECORDED / "podman-4.3-info.json").read_bytes())
CREATED = (RECORDED / "podman-4.3-events.jsonl").read_bytes().splitlines()[0]
ONE = INSPECT["Id"]
ROOT = "/v4.0.0/libpod"
IMPATIENT = Patience(look=0.3, introduction=0.3, update=0.3, stop=0.3)
ONTO = Update(cpus=CPUSet.of(1))


class Machine:
    """Two CPUs, of which `kept` are online; None: unknown. `limit` is what the kernel enforces on live containers."""

    def __init__(self, kept: CPUSet | None = None, limit: int | None = None) -> None:
        self.kept = kept
        self.limit = limit

    def online(self) -> CPUSet:
        if self.kept is None:
            raise StateError("no sysfs")
        return self.kept

    def topology(self) -> Topology:
        return msgspec.structs.replace(uniform(cores=2), memory=(0,))

    def limit_of(self, view: ContainerView) -> int | None:
        return self.limit if view.phase.is_live else None


TWO = Machine(CPUSet.of(0, 1))


def ping(version: str) -> bytes:
    """Return the answer of Podman's ping."""
    return f"HTTP/1.1 200 OK\r\nLibpod-API-Version: {version}\r\nContent-Length: 2\r\n\r\nOK".encode()


def as_podman(daemon: RawDaemon, version: str = "5.4.2", **inspected: Any) -> RawDaemon:
    """Return a daemon that answers as Podman does; `inspected` are other values of the container's HostConfig."""
    described = json.loads(json.dumps(INSPECT))
    described["HostConfig"].update(inspected)
    daemon.scripts |= {
        "/_ping": ping(version),
        f"{ROOT}/info": answer(200, INFO),
        f"{ROOT}/containers/json": answer(200, [{"Id": ONE}]),
        f"{ROOT}/containers/{ONE}/json": answer(200, described),
        f"{ROOT}/containers/{ONE}/exists": answer(204, b""),
        f"{ROOT}/containers/{ONE}/update": answer(201, ONE.encode()),
        f"{ROOT}/events": STREAM + chunk(CREATED + b"\n") + END_OF_STREAM,
    }
    return daemon


@asynccontextmanager
async def opened(daemon: RawDaemon, machine: Machine = TWO) -> AsyncIterator[FoundEngine]:
    async with open_engine(daemon.address, IMPATIENT, machine=machine) as engine:
        yield engine


async def test_a_ping_tells_podman_from_docker(daemon: RawDaemon) -> None:
    """By its header; an engine without such a ping is asked for its version, and one that is neither counts as
    Docker.
    """
    async with opened(daemon) as engine:
        assert (await engine.info()).name == "docker"
    as_podman(daemon)
    async with opened(daemon) as engine:
        assert (await engine.info()).name == "podman"
    assert not [request for request in daemon.requests[-3:] if "/version" in request]


async def test_another_kind_of_engine_is_not_taken_for_the_first(daemon: RawDaemon) -> None:
    """Nothing that is known of the containers holds: every call fails with that reason."""
    async with opened(daemon) as engine:
        await engine.info()
        as_podman(daemon)
        for _ in range(2):
            with pytest.raises(EngineUnavailable, match="Podman answers where Docker was: restart the sidecar"):
                await engine.info()


async def test_another_podman_is_not_taken_for_the_first(daemon: RawDaemon) -> None:
    """It keeps other containers; its list would make all look gone."""
    as_podman(daemon)
    async with opened(daemon) as engine:
        await engine.info()
        elsewhere = json.loads(json.dumps(INFO))
        elsewhere["store"]["graphRoot"] = "/elsewhere"
        daemon.scripts[f"{ROOT}/info"] = answer(200, elsewhere)
        with pytest.raises(EngineUnavailable, match="it keeps its containers in /elsewhere"):
            await engine.info()


async def test_an_engine_that_is_not_there_yet_is_found_later(tmp_path: Path) -> None:
    """The sidecar is started first: it reports what is missing, and then which engine came."""
    path = tmp_path / "later.sock"
    async with open_engine(f"unix://{path}", IMPATIENT, machine=TWO) as engine:
        with pytest.raises(EngineUnavailable, match="no such socket"):
            await engine.info()
        with RawDaemon(path) as daemon:
            as_podman(daemon)
            assert (await engine.info()).version == "5.4.2"


@pytest.mark.parametrize(("cpus", "mems"), [(CPUSet.of(4000), None), (CPUSet.of(1), "99")])
async def test_what_is_not_there_is_never_sent(daemon: RawDaemon, cpus: CPUSet, mems: str | None) -> None:
    """Podman would accept it, keep it, and not start the container again."""
    as_podman(daemon)
    async with opened(daemon) as engine:
        with pytest.raises(EngineRefused, match="are not available - requested"):
            await engine.update(ONE, Update(cpus=cpus, mems=mems))
    assert not [request for request in daemon.requests if request.startswith("POST")]


async def test_after_a_failure_the_old_value_is_written_again(daemon: RawDaemon) -> None:
    """Otherwise a refused value stays in the container's configuration."""
    as_podman(daemon)
    tries = [answer(500, {"message": "crun update failed: exit status 1"}), answer(201, ONE.encode())]
    bodies = answering(daemon, tries)
    async with opened(daemon) as engine:
        with pytest.raises(EngineFailed, match="crun update failed"):
            await engine.update(ONE, Update(cpus=CPUSet.of(1), nano_cpus=2_000_000_000))
    assert len(bodies) == 2


async def test_a_page_of_a_proxy_in_between_is_no_success(daemon: RawDaemon) -> None:
    """Podman answers with the container's id."""
    as_podman(daemon, "4.3.1")
    daemon.scripts[f"{ROOT}/containers/{ONE}/update"] = answer(200, b"<html>hello</html>", "text/html")
    async with opened(daemon) as engine:
        with pytest.raises(EngineFailed, match="is not Podman: <html>hello"):
            await engine.update(ONE, ONTO)


async def test_a_failure_that_cannot_be_undone_says_so(daemon: RawDaemon) -> None:
    as_podman(daemon, CpusetCpus="")
    daemon.scripts[f"{ROOT}/containers/{ONE}/update"] = answer(500, {"message": "exit status 1"})
    async with opened(daemon) as engine:
        with pytest.raises(EngineFailed, match="its old limits cannot be restored either"):
            await engine.update(ONE, ONTO)


async def test_a_host_that_tells_no_cpus_is_no_reason_to_refuse(daemon: RawDaemon) -> None:
    """Then Podman is asked, and its runtime says no."""
    as_podman(daemon)
    async with opened(daemon, Machine()) as engine:
        await engine.update(ONE, Update(cpus=CPUSet.of(77)))


async def test_an_update_of_a_stopped_container_lies_over_what_inspect_says(daemon: RawDaemon) -> None:
    """Until inspect differs."""
    as_podman(daemon, CpusetCpus="0")
    async with opened(daemon) as engine:
        await engine.update(ONE, ONTO)
        assert (await engine.inspect(ONE)).cpuset == "1"
        as_podman(daemon, CpusetCpus="0-1")
        assert (await engine.inspect(ONE)).cpuset == "0-1"


async def test_before_5_1_only_running_containers_are_updated(daemon: RawDaemon) -> None:
    """For other containers the update is remembered, and no request is made."""
    as_podman(daemon, "4.3.1")
    stopped = json.loads(json.dumps(INSPECT))
    stopped["State"].update(Status="exited", Running=False, Pid=0)
    daemon.scripts[f"{ROOT}/containers/{ONE}/json"] = answer(200, stopped)
    async with opened(daemon) as engine:
        await engine.update(ONE, ONTO)
        view = await engine.inspect(ONE)
    assert (view.cpuset, view.phase, view.forgets_updates) == ("1", Phase.EXITED, True)
    assert not [request for request in daemon.requests if request.startswith("POST")]


@pytest.mark.parametrize(("version", "nano_cpus"), [("4.3.1", 500_000_000), ("5.4.2", 1_500_000_000)])
async def test_before_5_1_the_kernel_tells_the_limit_in_force(daemon: RawDaemon, version: str, nano_cpus: int) -> None:
    """People changed it by `podman update`, which no inspect shows. An order of CPUs alone, which names all limits,
    does not set it back.
    """
    as_podman(daemon, version)
    machine = Machine(CPUSet.of(0, 1), limit=500_000_000)
    async with opened(daemon, machine) as engine:
        assert (await engine.inspect(ONE)).nano_cpus == nano_cpus
        await engine.update(ONE, ONTO)
        machine.limit = None
        assert (await engine.inspect(ONE)).nano_cpus == nano_cpus


async def test_an_unknown_container_is_gone(daemon: RawDaemon) -> None:
    """From each route, and forgotten at once."""
    as_podman(daemon)
    gone = answer(404, {"cause": "no such container", "message": 'no container with name or ID "x" found'})
    async with opened(daemon) as engine:
        await engine.inspect(ONE)
        for route in ("json", "exists", "update", "kill", "stop"):
            daemon.scripts[f"{ROOT}/containers/{ONE}/{route}"] = gone
        for call in (engine.inspect, engine.glance, engine.stop):
            with pytest.raises(ContainerGone):
                await call(ONE)
        with pytest.raises(ContainerGone):
            await engine.update(ONE, ONTO)
        with pytest.raises(ContainerGone):
            await engine.signal(ONE, "HUP")


async def test_a_podman_without_the_route_is_lacking(daemon: RawDaemon) -> None:
    as_podman(daemon)
    daemon.scripts[f"{ROOT}/containers/{ONE}/update"] = answer(404, b"Not Found\n", "text/plain")
    async with opened(daemon) as engine:
        with pytest.raises(EngineLacks, match="does not know the route"):
            await engine.update(ONE, ONTO)


async def test_a_start_that_holds_a_lock_hides_no_container(daemon: RawDaemon) -> None:
    """Podman answers neither lists nor info meanwhile: the remembered containers serve, without those that are gone."""
    as_podman(daemon)
    async with opened(daemon) as engine:
        info = await engine.info()
        assert await engine.containers() == (ONE,)
        for route in ("info", "containers/json", f"containers/{ONE}/json"):
            daemon.scripts[f"{ROOT}/{route}"] = Connection.hang
        assert await engine.info() == info
        assert await engine.containers() == (ONE,)
        daemon.scripts[f"{ROOT}/containers/{ONE}/exists"] = answer(404, NO_CONTAINER)
        assert await engine.containers() == ()
        with pytest.raises(EngineSilent):
            await engine.inspect(ONE)


async def test_the_limits_of_its_pod_are_asked_for_once(daemon: RawDaemon) -> None:
    """They never change. A pod that does not answer has none that are known."""
    pod = "b" * 64
    as_podman(daemon)
    daemon.scripts[f"{ROOT}/containers/{ONE}/json"] = answer(200, {**INSPECT, "Pod": pod})
    daemon.scripts[f"{ROOT}/pods/{pod}/json"] = answer(500, {"message": "no"})
    async with opened(daemon) as engine:
        assert (await engine.inspect(ONE)).pod_cpuset == ""
        daemon.scripts[f"{ROOT}/pods/{pod}/json"] = answer(200, {"cpuset_cpus": "0", "cpu_quota": 100_000})
        for _ in range(2):
            view = await engine.inspect(ONE)
            assert (view.pod_cpuset, view.pod_limit) == ("0", 1.0)
    assert sum("/pods/" in request for request in daemon.requests) == 2


async def test_a_glance_needs_no_lock(daemon: RawDaemon) -> None:
    """A container that was never seen is found in Podman's history; others are remembered."""
    as_podman(daemon)
    for route in ("info", "containers/json", f"containers/{ONE}/json"):
        daemon.scripts[f"{ROOT}/{route}"] = Connection.hang
    async with opened(daemon) as engine:
        glance = await engine.glance(ONE)
        assert (glance.name, glance.phase, glance.labels["cpuset.exclusive"]) == ("rec", Phase.CREATED, "2")
        assert (glance.cpuset, glance.nano_cpus) == ("", 0)
        daemon.scripts[f"{ROOT}/events"] = Connection.hang
        assert await engine.glance(ONE) == glance
        assert await engine.containers() == (ONE,)


async def test_a_container_of_which_nothing_is_known_is_said_to_be_so(daemon: RawDaemon) -> None:
    """The history was cut: the caller may try again when the start is over."""
    as_podman(daemon)
    daemon.scripts[f"{ROOT}/events"] = answer(200, b"")
    async with opened(daemon) as engine:
        with pytest.raises(EngineUnavailable, match="nothing is known of container"):
            await engine.glance(ONE)


async def test_a_signal_is_not_worth_a_restart_policy(daemon: RawDaemon) -> None:
    """5.4 never restarts a container after a signal; 4.3 does."""
    as_podman(daemon, RestartPolicy={"Name": "always"})
    daemon.scripts[f"{ROOT}/containers/{ONE}/kill"] = answer(204, b"")
    async with opened(daemon) as engine:
        with pytest.raises(EngineRefused, match=r"would forget its restart policy.*`Restart=always`"):
            await engine.signal(ONE, "HUP")
    as_podman(daemon, "4.3.1", RestartPolicy={"Name": "always"})
    async with opened(daemon) as engine:
        await engine.signal(ONE, "HUP")
    assert daemon.requests[-1] == f"POST {ROOT}/containers/{ONE}/kill?signal=HUP"


@pytest.mark.parametrize("status", [409, 500])
async def test_a_container_that_does_not_run_hears_no_signal(daemon: RawDaemon, status: int) -> None:
    """500 in 4.3, 409 in 5.4."""
    as_podman(daemon, RestartPolicy={"Name": ""})
    said = "can only kill running containers. x is in state exited: container state improper"
    daemon.scripts[f"{ROOT}/containers/{ONE}/kill"] = answer(status, {"message": said})
    async with opened(daemon) as engine:
        with pytest.raises(EngineRefused, match="is not running"):
            await engine.signal(ONE, "HUP")


async def test_events_are_asked_for_in_podman_s_words(daemon: RawDaemon) -> None:
    """And reported in Docker's; the create comes with its view."""
    as_podman(daemon)
    daemon.scripts[f"{ROOT}/events"] = one_event
    async with opened(daemon) as engine, engine.events() as stream:
        with trio.fail_after(10):
            event = await anext(stream)
    assert (event.container, event.action) == (ONE, "create")
    assert event.view is not None
    assert event.view.name == "rec2"
    [asked] = [request for request in daemon.requests if "/events?" in request]
    assert "died" in asked
    assert "remove" in asked


def one_event(connection: Connection) -> None:
    """Return a stream that goes on."""
    connection.send(STREAM + chunk(CREATED + b"\n"))
    connection.hang()


def answering(daemon: RawDaemon, replies: list[bytes]) -> list[str]:
    """Answer updates with these, one after another; return the requests that came."""
    seen: list[str] = []

    def reply(connection: Connection) -> None:
        seen.append(daemon.requests[-1])
        connection.send(replies[len(seen) - 1])

    daemon.scripts[f"{ROOT}/containers/{ONE}/update"] = reply
    return seen
