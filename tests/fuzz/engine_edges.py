"""The engine's edges: its answers, events and refusals, through decisions to all that is written of a container."""

from __future__ import annotations

import io
import json
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from sidecar.decide.facts import ContainerSeen, ContainerView, EngineConnected, EngineInfo, InventoryTaken
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName
from sidecar.decide.step import step
from sidecar.decide.world import World
from sidecar.engines import answer_errors
from sidecar.engines.byte_lines import Lines, Torn
from sidecar.engines.docker import docker_glance, docker_wire, engine_identity
from sidecar.engines.intakes import Sifted
from sidecar.engines.podman import libpod_wire
from sidecar.failures import EngineError
from sidecar.log import Log
from sidecar.projection.projection_of import names_of, projection_of
from sidecar.status.describe import status_of
from sidecar.words.changes import news
from state import codec
from state.cpuset import CPUSet
from state.model import State
from state.topology import uniform
from tests.fuzz.edge import Edge
from tests.fuzz.mutations import VALUES, broken, document
from tests.support.decide.stories import static

RECORDED: Final = Path(__file__).parent.parent / "engines" / "recorded"
INFO: Final = EngineInfo(name="docker", version="20.10.24", api_version="1.41", ncpu=8)
ID: Final = "d" * 64

MOST_KEPT: Final = 256 * 1024
"""Bytes that are kept of one container at most, as JSON."""

_LABELS: Final = {
    "exclusive": "2",
    "min": "1",
    "max": "4",
    "scale": "fill",
    "signal": "HUP",
    "near": "0000:00:1f.0",
    "numa": "single-numa-node",
    "on-shortage": "wait",
    "projection": "voice",
    "grace": "10s",
    "weight": "3",
    "move": "true",
    "cpus": "2-3",
    "quota": "keep",
    "excluisve": "1",
}


def _recorded(name: str) -> Any:
    return json.loads((RECORDED / name).read_bytes())


def _container(chance: Random) -> dict[str, Any]:
    """Return an inspect answer with labels that the sidecar reads."""
    told: dict[str, Any] = _recorded(chance.choice(["docker-20.10-inspect.json", "podman-4.3-inspect.json"]))
    told["Id"] = ID
    labels = {f"cpuset.{key}": value for key, value in _LABELS.items() if chance.random() < 0.3}
    for key in list(labels):
        if chance.random() < 0.4:
            value = chance.choice(VALUES)
            labels[key] = value if isinstance(value, str) else json.dumps(value)
    told.setdefault("Config", {})["Labels"] = labels
    return told


def _sifted(body: bytes, chance: Random) -> bytearray:
    """Return an answer as it is kept, whether it counts as a large one or not."""
    intake = Sifted(docker_wire.is_wanted, plain=chance.choice([0, 1 << 20]))
    while body:
        size = chance.choice([1, 7, 64, 4096, len(body)])
        intake.feed(body[:size])
        body = body[size:]
    return intake.answer()


def inspect(chance: Random) -> None:
    """From an answer to a decision, and to all that is written of it: files, status, log, journal."""
    view = docker_wire.view_of(_sifted(document(_container(chance), chance), chance))
    assert len(codec.encode(view)) <= MOST_KEPT
    effective = CPUSet(range(8)) if view.phase.is_live else None
    view = msgspec.structs.replace(view, engine="docker", effective=effective)
    policy = chance.choice([PolicyName.STATIC, PolicyName.DYNAMIC, PolicyName.NONE])
    _carried_through(_world(policy), view)


def _world(policy: PolicyName) -> World:
    settings = static(policy=policy, unmanaged=("db-*",))
    first = begin(State(), uniform(cores=8), settings)
    return step(first, [EngineConnected(INFO, 0), InventoryTaken((), (), 1)])[0]


def _carried_through(before: World, view: ContainerView) -> None:
    fact = ContainerSeen(view, 2)
    world, orders = step(before, [fact])
    container = world.containers[view.key]
    names_of(world, container)
    lines = io.StringIO()
    for line in news(before, world):
        Log(lines).say(line.level, line.message, line.fields)
        Log(lines, is_json=True).say(line.level, line.message, line.fields)
    written = [codec.encode(projection_of(world, container)), codec.encode(status_of(world)), codec.encode(world.state)]
    assert all(content.decode().isprintable() for content in written)
    assert all(line.isprintable() for line in lines.getvalue().splitlines())
    assert codec.decode(codec.encode((fact,)), tuple[ContainerSeen, ...]) == (fact,)
    assert step(before, [fact])[1] == orders


def signal(chance: Random) -> None:
    """What a signal would do, read from an inspect answer."""
    told = _container(chance)
    told["Config"]["StopSignal"] = chance.choice(VALUES)
    docker_wire.side_effect_of(document(told, chance), chance.choice(["HUP", "9", "RTMIN+3"]))


def listing(chance: Random) -> None:
    """The list of all containers, and a glance from it."""
    each = {
        "Id": ID,
        "Names": ["/a", "/b/a"],
        "State": "running",
        "Image": "x",
        "Labels": {"cpuset.exclusive": "1"},
        "Mounts": [{"Type": "volume", "Name": "v", "Source": "/s", "Destination": "/d"}],
    }
    body = document([each, {**each, "Id": "e" * 64}], chance)
    assert all(len(id) == 64 for id in docker_wire.ids_of(body))
    view = docker_glance.glance_of(body, ID)
    assert len(codec.encode(view)) <= MOST_KEPT


def sieve(chance: Random) -> None:
    """What is kept of a large answer is JSON, if the answer was, and the same whatever the pieces."""
    body = document(_container(chance), chance)
    kept = [_large(body, chance) for _ in range(2)]
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    assert kept[0] == kept[1]
    msgspec.json.decode(kept[0])


def _large(body: bytes, chance: Random) -> bytes:
    intake = Sifted(docker_wire.is_wanted, plain=0)
    intake.feed(b"")
    at = 0
    while at < len(body):
        size = chance.choice([1, 3, 50, 1000])
        intake.feed(body[at : at + size])
        at += size
    return bytes(intake.answer())


def events(chance: Random) -> None:
    """A stream of lines in pieces, of both engines."""
    lines = [
        document(
            {
                "Type": "container",
                "Action": "create",
                "Actor": {"ID": ID, "Attributes": {"name": "x", "cpuset.exclusive": "1"}},
                "status": "create",
                "id": ID,
                "timeNano": 1,
            },
            chance,
        )
        for _ in range(3)
    ]
    reader = Lines(chance.choice([64, 4096]))
    stream = b"\n".join(lines) + b"\n"
    for at in range(0, len(stream), size := chance.choice([1, 13, 1000])):
        for line in reader.feed(stream[at : at + size]):
            if isinstance(line, Torn):
                docker_wire.torn_event_of(line.head, line.tail)
                libpod_wire.torn_event_of(line.head, line.tail)
            else:
                docker_wire.event_of(line)
                libpod_wire.event_of(line)
                libpod_wire.attributes_of(line, frozenset())


def introduction(chance: Random) -> None:
    """What an engine reports about itself."""
    version = document(_recorded("docker-20.10-version.json"), chance)
    engine_identity.api_version_of(version, (1, 47))
    engine_identity.is_podman(version)
    engine_identity.engine_info_of(document(_recorded("docker-20.10-info.json"), chance), version)


def podman_introduction(chance: Random) -> None:
    """The same, of Podman."""
    libpod_wire.engine_info_of(document(_recorded("podman-4.3-info.json"), chance), chance.choice(["4.3.1", "9" * 99]))


def refusal(chance: Random) -> None:
    """Any refusal is one error, and its text is one printable line of bounded length."""
    status = chance.choice([400, 403, 404, 409, 418, 500, 503, 599])
    content = document({"message": chance.choice(VALUES), "cause": "no such container"}, chance)
    error = answer_errors.error_of(status, content)
    assert isinstance(error, EngineError)
    assert str(error).isprintable()
    assert len(str(error)) < 2000


def update(chance: Random) -> None:
    """The answer to an order."""
    docker_wire.check_updated(broken(b'{"Warnings":["cpuset"]}', chance))


EDGES: Final = (
    Edge("inspect", inspect, (EngineError,)),
    Edge("signal", signal, (EngineError,)),
    Edge("list", listing, (EngineError,)),
    Edge("sieve", sieve, (EngineError,)),
    Edge("events", events),
    Edge("introduction", introduction, (EngineError,)),
    Edge("podman introduction", podman_introduction, (EngineError,)),
    Edge("refusal", refusal),
    Edge("update", update, (EngineError,)),
)
