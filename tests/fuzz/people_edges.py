"""The edges of people and their programs: configuration, scenarios, names, and the API."""

from __future__ import annotations

import io
import json
import re
import tempfile
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import trio
from trio.testing import MockClock, memory_stream_pair

from sidecar.api.documents import Declined, parsed
from sidecar.api.http_connection import HttpConnection
from sidecar.api.start_route import StartBody
from sidecar.api.tcp_listener import Access
from sidecar.api.web_app import Api
from sidecar.board import Board
from sidecar.config.config import Config, read_config
from sidecar.config.keys import KEYS
from sidecar.decide.facts import Fact
from sidecar.failures import SidecarError
from sidecar.log import Log
from sidecar.readers import closest
from sidecar.simulation.scenario_file import scenario_of
from sidecar.status.deadlines import Deadlines
from sidecar.status.find_container import NotFound, find
from sidecar.status.present_status import PresentStatus
from sidecar.systemd_names import parent_in, pod_in
from sidecar.words.misread import sentences
from state.errors import StateError
from tests.fuzz.edge import Edge
from tests.fuzz.host_edges import content_of, in_memory
from tests.fuzz.mutations import VALUES, broken, document
from tests.support.decide.stories import Story

SCENARIOS: Final = Path(__file__).parents[2] / "compose" / "scenarios"
NOW: Final = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
ID: Final = "d" * 64

_TOML: Final = b"""policy = "dynamic"
reserved = "0"
options = ["full-pcpus-only"]
linger = "10s"
unmanaged = ["db-*"]
listen = "127.0.0.1:9413"
shared_min = 1

[[rule]]
name = "web-*"
labels = { "cpuset.exclusive" = "2", "cpuset.max" = "4" }
"""


def _word(chance: Random) -> str:
    value = chance.choice(VALUES)
    return value if isinstance(value, str) else json.dumps(value)


def configuration(chance: Random) -> None:
    """A file, variables and flags: a configuration, or sentences about mistakes that are one printable line each."""
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        file = Path(folder, "x.toml")
        file.write_bytes(broken(_TOML, chance) if chance.random() < 0.7 else _TOML)
        keys = chance.choices(list(KEYS), k=chance.randint(0, 3))
        environ = {f"CPUSET_SIDECAR_{key.upper()}": _word(chance) for key in keys}
        read = read_config(str(file), environ, {chance.choice(list(KEYS)): _word(chance)})
        if not isinstance(read, Config):
            told = sentences(read)
            assert told
            assert all(len(each) < 3000 for each in told), max(told, key=len)


def scenario(chance: Random) -> None:
    """A scenario for the simulation."""
    content = content_of(chance.choice(sorted(Path(SCENARIOS).glob("*.toml"))))
    scenario_of(broken(content, chance).decode("utf-8", "replace"))


def start(chance: Random) -> None:
    """The question of a runtime. Whatever its cgroup is called, it has a parent or none."""
    told = {"id": ID, "cpus": "0-3", "quota": 1, "memory": 2, "annotations": {"cpuset.exclusive": "1"}, "name": "x"}
    told["cgroup"] = chance.choice([f"/docker/{ID}", f"team.slice:docker:{ID}", f"/x/{ID}/libpod-{ID}"])
    asked = parsed(document(told, chance), StartBody)
    assert len(parent_in(asked.cgroup)) <= len(asked.cgroup)
    assert pod_in(asked.cgroup) in asked.cgroup


class _Named(NamedTuple):
    id: str
    name: str


def naming(chance: Random) -> None:
    """A full id is always that container, whatever others are named."""
    ids = [chance.choice("de") * chance.randint(0, 3) + "d" * 64 for _ in range(3)]
    ids = [id[:64] for id in dict.fromkeys(ids)]
    known = [_Named(id, chance.choice([_word(chance), *ids])) for id in ids]
    wanted = chance.choice([known[0].id, _word(chance), known[-1].id[:12]])
    closest(wanted, [each.name for each in known])
    found = find(known, wanted)
    assert found.id == wanted or wanted not in [each.id for each in known]


_REQUESTS: Final = (
    b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/containers/plain HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b'POST /v1/containers/plain/resize HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"cpus":2}',
    b"POST /v1/defragment HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"HEAD /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /v1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /v1/containers/%41/ack HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
    b"GET /healthz HTTP/1.0\r\n\r\n",
)


def requests(chance: Random) -> None:
    """Bytes on a connection: each answer is HTTP, none is a failure of the sidecar, and the connection ends."""
    lines = io.StringIO()
    content = broken(chance.choice(_REQUESTS), chance)
    clock = MockClock(autojump_threshold=0)
    received = trio.run(_exchanged, content, chance.choice(list(Access)), lines, chance, clock=clock)
    assert "failed to answer" not in lines.getvalue(), lines.getvalue()
    assert not received or re.match(rb"HTTP/1\.1 [1-5]\d\d ", received), received[:80]
    assert b" 500 " not in received.split(b"\r\n")[0]


async def _exchanged(content: bytes, reach: Access, lines: io.StringIO, chance: Random) -> bytes:
    outbox, _inbox = trio.open_memory_channel[Fact](10)
    story = _story()
    board = Board(story.world)
    api = Api(board, outbox, PresentStatus(board, Deadlines(lambda: NOW)), clock=lambda: NOW)
    client, server = memory_stream_pair()
    connection = HttpConnection(server, api.table(reach), lambda route, peer: False, Log(lines))
    received = bytearray()

    async def talk() -> None:
        with trio.move_on_after(5):
            for at in range(0, len(content), size := chance.choice([1, 20, 4000])):
                await client.send_all(content[at : at + size])
            await client.send_eof()
        while part := await client.receive_some(4096):
            received.extend(part)

    with trio.move_on_after(300):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.serve)
            with trio.move_on_after(100):
                await talk()
            nursery.cancel_scope.cancel()
    return bytes(received)


@cache
def _story() -> Story:
    story = Story()
    story.arrive("plain")
    return story


EDGES: Final = (
    Edge("configuration", configuration),
    Edge("scenario", scenario, (SidecarError, StateError)),
    Edge("start", start, (Declined,)),
    Edge("naming", naming, (NotFound,)),
    Edge("requests", requests),
)
