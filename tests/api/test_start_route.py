"""POST /v1/starts on a real socket, over the real decisions: held, answered, refused, let go, and malformed."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from sidecar.api import start_route, web_app
from sidecar.api.tcp_listener import Access
from sidecar.api.web_app import Api
from sidecar.decide.container.container import Standing
from sidecar.decide.facts import ContainerSeen, ContainerView, EngineDisconnected, Phase, StartHeld, StartLetGo
from sidecar.decide.step import step
from sidecar.status.deadlines import Deadlines
from sidecar.status.present_status import PresentStatus
from state.key import ContainerKey
from tests.api.apirig import NOW, _blocking
from tests.api.startcounter import ID, KEY, Counter
from tests.support.decide.real import ENGINE
from tests.support.decide.stories import Story


async def until(is_so: Callable[[], object]) -> None:
    """Wait for the effect of another task."""
    with trio.fail_after(20):
        while not is_so():  # noqa: ASYNC110 - nobody tells
            await trio.sleep(0.001)


@pytest.fixture
def counter(tmp_path: Path) -> Counter:
    """Provide eight CPUs, of which one is reserved, without containers."""
    return Counter(tmp_path, Story())


@pytest.mark.trio
async def test_an_exclusive_container_is_answered_with_its_grant(counter: Counter) -> None:
    """The runtime gets what it writes: CPUs, no quota, and the place of the projection."""
    counter.glance(cpuset_exclusive="2")
    async with counter.serving():
        status, answer = await counter.ask(cpus="", quota=200_000, period=100_000, memory=1 << 20)
    assert status == 200
    granted = counter.board.latest.state.assignments[KEY]
    assert answer == {
        "update": {"cpus": str(granted.cpus), "mems": None, "quota": -1},
        "exclusive": True,
        "projection": {"directory": f"by-id/{ID[:12]}", "destination": "/run/cpuset-sidecar"},
    }
    view = counter.board.latest.containers[KEY].view
    assert (view.name, view.cpu_quota, view.cpu_period, view.memory) == ("strict", 200_000, 100_000, 1 << 20)


@pytest.mark.trio
async def test_a_directory_that_may_be_anothers_is_not_mounted(counter: Counter) -> None:
    """Two ids begin with the same twelve digits, and a directory belongs to one of them."""
    counter.glance()
    other = ContainerView(engine=ENGINE, id=ID[:12] + "d" * 52, name="other", phase=Phase.CREATED)
    counter.board.post(step(counter.board.latest, [ContainerSeen(other, 10_000)])[0])
    async with counter.serving():
        status, answer = await counter.ask(cpus="", memory=1 << 20)
    assert (status, answer["update"]["cpus"], answer["projection"]) == (
        200,
        str(counter.board.latest.state.shared),
        None,
    )


@pytest.mark.trio
async def test_a_shared_container_is_answered_with_the_pool(counter: Counter) -> None:
    """Without the CPUs that others are granted."""
    counter.glance()
    other = "d" * 64
    counter.glance(other, cpuset_exclusive="3")
    async with counter.serving():
        assert (await counter.ask(id=other))[0] == 200
        status, answer = await counter.ask()
    assert (status, answer["exclusive"]) == (200, False)
    assert answer["update"]["cpus"] == str(counter.board.latest.state.shared)


@pytest.mark.trio
async def test_an_unmanaged_container_is_answered_with_nothing(counter: Counter) -> None:
    """The bundle stays as it is."""
    counter.glance(cpuset_manage="off")
    async with counter.serving():
        assert await counter.ask() == (200, {"update": None, "exclusive": False, "projection": None})


@pytest.mark.trio
async def test_too_many_cpus_are_refused_with_the_reason(counter: Counter) -> None:
    """409, with the reason of the decision."""
    counter.glance(cpuset_exclusive="99")
    async with counter.serving():
        status, answer = await counter.ask()
    assert status == 409
    assert answer["error"].startswith("not started: asked for 99 exclusive CPUs")


@pytest.mark.trio
async def test_annotations_count_where_the_engine_tells_no_labels(counter: Counter) -> None:
    """Only ours, and labels take precedence."""
    counter.glance(cpuset_exclusive="1")
    other = "d" * 64
    counter.glance(other)
    annotations = {"cpuset.exclusive": "3", "other": "x"}
    async with counter.serving():
        first = await counter.ask(annotations=annotations)
        second = await counter.ask(id=other, annotations=annotations)
    assert [answer["exclusive"] for _, answer in (first, second)] == [True, True]
    granted = counter.board.latest.state.assignments
    assert (len(granted[KEY].cpus), len(granted[ContainerKey(ENGINE, other)].cpus)) == (1, 3)
    assert "other" not in counter.board.latest.containers[ContainerKey(ENGINE, other)].view.labels


@pytest.mark.trio
async def test_a_pin_by_hand_is_seen_in_the_bundle_where_nothing_but_a_glance_is_known(counter: Counter) -> None:
    """Another program has held its lock since before the first look. It starts where it is pinned."""
    counter.glance()
    counter.board.post(step(counter.board.latest, [ContainerSeen(counter.glances[ID], 100)])[0])
    assert counter.board.latest.containers[KEY].wish.standing is Standing.MANAGED
    async with counter.serving():
        status, answer = await counter.ask(cpus="3")
    assert (status, answer.get("update")) == (200, None)
    assert counter.board.latest.containers[KEY].wish.standing is Standing.STRANGER


@pytest.mark.trio
async def test_an_unknown_container_is_refused(counter: Counter) -> None:
    """With the engine's message."""
    async with counter.serving():
        status, answer = await counter.ask()
    assert (status, answer["error"]) == (409, f"not started: the engine knows no container {ID[:12]}")


@pytest.mark.trio
async def test_an_engine_that_gives_no_glance_is_not_needed_where_the_runtime_knows(counter: Counter) -> None:
    """Docker's own files, or annotations, identify it."""
    counter.glance_fails = True
    async with counter.serving():
        status, answer = await counter.ask(name="voice", labels={"cpuset.exclusive": "1"})
    assert (status, answer["exclusive"]) == (200, True)
    assert counter.board.latest.containers[KEY].view.name == "voice"


@pytest.mark.trio
async def test_an_answer_that_takes_too_long_is_a_refusal_and_ends_the_wait(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon is notified, and holds no start any more."""
    monkeypatch.setattr(start_route, "ANSWER_SECONDS", 0.1)
    counter.glance(cpuset_exclusive="1")
    counter.deciding = trio.Event()
    async with counter.serving():
        status, answer = await counter.ask()
        assert (status, answer["error"]) == (503, "not started: its CPUs were not free of others within 0.1 s")
        counter.deciding.set()
        await until(lambda: len(counter.asked) == 2)
    held, gone = counter.asked
    assert isinstance(held, StartHeld)
    assert gone == StartLetGo(KEY, held.number)
    assert counter.desk._waiting == {}


@pytest.mark.trio
async def test_a_runtime_that_is_killed_is_not_waited_for(counter: Counter) -> None:
    """Its connection ends, and the start is no longer held."""
    counter.glance(cpuset_exclusive="1")
    counter.deciding = trio.Event()
    async with counter.serving():
        stream = await trio.open_unix_socket(counter.path)
        body = json.dumps({"id": ID}).encode()
        await stream.send_all(b"POST /v1/starts HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        await until(lambda: counter.asked)
        await stream.aclose()
        await until(lambda: counter.inbox.statistics().current_buffer_used)
        counter.deciding.set()
        await until(lambda: len(counter.asked) == 2)
    assert isinstance(counter.asked[1], StartLetGo)


@pytest.mark.trio
async def test_while_the_engine_is_not_reached_the_books_answer(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine may itself be waiting for this answer: a container with a grant starts on it, one without a demand in
    the pool.
    """
    monkeypatch.setattr(start_route, "UNREACHED_SECONDS", 0.05)
    counter.glance(cpuset_exclusive="2")
    async with counter.serving():
        before = await counter.ask(quota=200_000)
        counter.board.post(step(counter.board.latest, [EngineDisconnected("gone")])[0])
        counter.board.report("engine", "gone")
        again = await counter.ask(quota=200_000)
        pool = await counter.ask(id="d" * 64, name="plain")
        late = await counter.ask(id="e" * 64, name="late", labels={"cpuset.exclusive": "1"})
        nobody = await counter.ask(id="f" * 64)
        inside = await counter.ask(id="a" * 64, name="inside", cgroup=f"/docker/{ID}/{'a' * 64}")
        assert counter.board.latest.containers[KEY].view.is_glance
        glanced = await counter.ask(cgroup=f"/docker/{'a' * 64}/{ID}")
    assert [status for status, _ in (inside, glanced)] == [409, 409]
    assert again == before
    assert again[1]["update"]["quota"] == -1
    assert pool[1]["update"] == {"cpus": str(counter.board.latest.state.shared), "mems": None, "quota": None}
    assert (late[0], nobody[0]) == (503, 503)
    assert "this container has no recorded grant" in late[1]["error"]
    assert "so this container cannot be identified" in nobody[1]["error"]


@pytest.mark.parametrize(
    "changed",
    [
        {"id": "abc"},
        {"id": ID.upper()},
        {"id": ID + "\n"},
        {"id": None},
        {"cpus": 5},
        {"cpus": "0" * 40_001},
        {"quota": "x"},
        {"quota": 2**70},
        {"annotations": {"cpuset.x": 1}},
        {"annotations": {str(n): "" for n in range(65)}},
        {"labels": {"x": "y" * 257}},
        {"name": "x" * 257},
        {"cgroup": "/" * 4097},
        {"cgroup": ["/docker"]},
    ],
)
@pytest.mark.trio
async def test_hostile_questions_are_refused(counter: Counter, changed: dict[str, Any]) -> None:
    """400, and nothing reaches the daemon."""
    counter.glance(cpuset_exclusive="1")
    async with counter.serving():
        status, answer = await counter.ask(**changed)
    assert status == 400
    assert "the body is not what is expected" in answer["error"]
    assert counter.asked == []


@pytest.mark.trio
async def test_a_question_of_any_size_is_bounded(counter: Counter) -> None:
    """A request longer than two sets of CPUs and some words is refused."""
    async with counter.serving():
        status, _ = await counter.ask(cpus="0" * (start_route.MAX_BODY + 1))
    assert status == 413


@pytest.mark.trio
async def test_a_field_of_a_later_runtime_is_passed_over(counter: Counter) -> None:
    """Daemon and runtime are not always upgraded together."""
    counter.glance()
    async with counter.serving():
        assert (await counter.ask(later=1))[0] == 200


def test_it_is_asked_for_on_the_daemons_own_socket_only(counter: Counter) -> None:
    """Not on TCP, whatever its reach, and not without an allocator."""
    for reach in Access:
        paths = {route.path for route in counter.api.table(reach).routes}
        assert ("/v1/starts" in paths) == (reach is Access.ALL)
    plain = Api(counter.board, counter.outbox, PresentStatus(counter.board, Deadlines(lambda: NOW)), clock=lambda: NOW)
    assert "/v1/starts" not in {route.path for route in plain.routes}


@pytest.mark.trio
async def test_many_are_held_at_once(counter: Counter) -> None:
    """Each is answered separately; two want the same CPUs, and one of them is refused."""
    ids = [f"{number:064x}" for number in range(1, 13)]
    for number, id in enumerate(ids):
        counter.glance(id, **({"cpuset_exclusive": "4"} if number < 2 else {}))
    answers: dict[str, tuple[int, Any]] = {}

    async def one(id: str) -> None:
        answers[id] = await counter.ask(id=id)

    async with counter.serving():
        # No container is updated here: one that was answered with the whole pool would block them indefinitely.
        for together in (ids[:2], ids[2:]):
            with trio.fail_after(20):
                async with trio.open_nursery() as nursery:
                    for id in together:
                        nursery.start_soon(one, id)
    assert sorted(answers[id][0] for id in ids[:2]) == [200, 409]
    assert [answers[id][0] for id in ids[2:]] == [200] * 10
    assert counter.desk._waiting == {}


@pytest.mark.trio
async def test_a_held_start_keeps_no_place_from_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither from other starts nor from the owner; an excess one gets an error."""
    monkeypatch.setattr("sidecar.api.connections.MOST", 1)
    monkeypatch.setattr(web_app, "MOST_ASKING", 3)
    counter = Counter(tmp_path, Story())
    counter.deciding = trio.Event()
    ids = [f"{number:064x}" for number in range(1, 4)]

    def is_held(count: int) -> bool:
        return len(counter.desk._waiting) == count

    async with counter.serving(), trio.open_nursery() as nursery:
        for held, id in enumerate(ids, start=1):
            counter.glance(id)
            nursery.start_soon(partial(counter.ask, id=id))
            # A connection without a request yet would yield its place to the next.
            await until(partial(is_held, held))
        assert await counter.ask(id="d" * 64) == (503, {"error": "not started: 3 starts are asked for at once"})
        ready = await trio.to_thread.run_sync(_blocking, counter.path, "GET", "/readyz", b"", {})
        assert ready[0] == 200
        counter.deciding.set()


def test_an_answer_has_the_shape_that_runtimes_read() -> None:
    """Names are part of the contract with the runtimes installed on hosts."""
    answer = start_route.StartAnswer(
        update=start_route.Bundle(cpus="1"), projection=start_route.ProjectionMount(directory="x")
    )
    assert list(msgspec.to_builtins(answer)) == ["update", "exclusive", "projection"]
