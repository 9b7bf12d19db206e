"""The API on a real socket: its answers, that it waits for decisions, and that nothing upsets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from sidecar.api import web_app
from sidecar.decide.contacts import Away
from sidecar.decide.facts import Fact, ResizeRequested
from sidecar.decide.settings import PolicyName
from sidecar.status.document import ContainerStatus, Status
from sidecar.status.machine_levels import WholeMachine, whole_machine_of
from state import codec
from state.cpuset import CPUSet
from state.lease import LEASE_SECONDS
from state.model import State
from state.topology import uniform
from tests.api.apirig import NOW, Elastic, Rig, until
from tests.support.decide.contacts import with_readiness
from tests.support.decide.real import Real
from tests.support.decide.stories import Story, cpus

pytestmark = pytest.mark.trio


def leaving(story: Story, real: Real) -> CPUSet:
    """Return the CPUs that leave it, by the State."""
    take = story.world.state.assignments[real.key].leaving
    assert take is not None
    return take.cpus


def of(rig: Rig, real: Real) -> str:
    return f"/v1/containers/{rig.story.known(real).view.name}"


async def test_what_is_is_answered_from_the_world(rig: Rig) -> None:
    """The State, the status, the machine, one container by its name or the beginning of its id."""
    story, world = rig.story, rig.story.world
    assert isinstance(story, Elastic)
    async with rig.serving():
        assert codec.convert((await rig.ask("GET", "/v1/state"))[1], State) == world.state
        status = codec.convert((await rig.ask("GET", "/v1/status"))[1], Status)
        assert {each.name: str(each.granted) for each in status.containers} == {"batch": "1-6", "man": "7"}
        assert status.updated_at == "2026-03-04T05:06:07.000+00:00"
        machine = codec.convert((await rig.ask("GET", "/v1/topology"))[1], WholeMachine)
        assert machine == whole_machine_of(world.topology)
        for wanted in ("man", story.man.key.id, story.man.key.short):
            code, told = await rig.ask("GET", f"/v1/containers/{wanted}")
            assert (code, codec.convert(told, ContainerStatus).name) == (200, "man")
        assert await rig.ask("GET", "/healthz") == (200, {"status": "ok", "problems": []})
        assert await rig.ask("GET", "/readyz") == (200, {"status": "ready"})
        rig.board.report("journal", "the disk is full")
        assert await rig.ask("GET", "/healthz") == (200, {"status": "ok", "problems": ["the disk is full"]})
        rig.board.post(with_readiness(world, Away()))
        code, told = await rig.ask("GET", "/readyz")
        assert (code, list(told)) == (503, ["error"])


async def test_an_answer_says_whether_the_daemon_vouches_for_it(rig: Rig) -> None:
    """As readers of the files see it; one of a daemon that stalled claims nothing."""
    claims = {"is_ready": True, "vouched": True}
    asked = "GET", "/v1/containers/man"
    async with rig.serving():
        told = (await rig.ask("GET", "/v1/status"))[1]
        assert {**told, **claims, "vouched": False} == told
        rig.board.vouched_at = NOW.timestamp() - LEASE_SECONDS + 1
        told, man = (await rig.ask("GET", "/v1/status"))[1], (await rig.ask(*asked))[1]
        assert {**told, **claims} == told
        assert (man["vouched"], man["is_settled"], man["is_alone"]) == (True, True, True)
        rig.board.vouched_at = NOW.timestamp() - LEASE_SECONDS - 1
        told, man = (await rig.ask("GET", "/v1/status"))[1], (await rig.ask(*asked))[1]
        assert (told["vouched"], told["is_ready"], told["updated_at"]) == (
            False,
            False,
            "2026-03-04T05:05:51.000+00:00",
        )
        assert not any(each["is_settled"] or each["is_alone"] for each in told["containers"])
        assert (man["vouched"], man["is_settled"], man["is_alone"]) == (False, False, False)
        assert man["explanation"][0].startswith("The daemon is stopped, stalled or stuck, or cannot write its status.")
        rig.board.post(with_readiness(rig.story.world, Away()))
        told, man = (await rig.ask("GET", "/v1/status"))[1], (await rig.ask(*asked))[1]
        assert (told["vouched"], told["is_ready"]) == (False, False)
        assert man["explanation"][0].startswith("The daemon waits for its engine. This is what it last said")


async def test_the_routes_are_listed_with_the_listeners_that_serve_them(rig: Rig) -> None:
    """At `/v1`; and the answer to a route that there is not names them, too."""
    async with rig.serving():
        code, told = await rig.ask("GET", "/v1")
        assert code == 200
        listed = {(each["method"], each["path"]): each["listeners"] for each in told["routes"]}
        assert list(listed) == [(route.method, route.path) for route in rig.api.routes]
        assert listed["GET", "/metrics"] == ["unix", "loopback", "network"]
        assert listed["GET", "/v1/status"] == ["unix", "loopback"]
        assert listed["POST", "/v1/defragment"] == ["unix"]
        code, told = await rig.ask("GET", "/v2")
        assert (code, "POST /v1/defragment" in told["error"]) == (404, True)


async def test_a_release_of_one_container_is_answered_with_where_it_goes(rig: Rig) -> None:
    """A second one is refused: it has none any more."""
    story = rig.story
    assert isinstance(story, Elastic)
    async with rig.serving():
        code, told = await rig.ask("POST", of(rig, story.man) + "/release")
        assert (code, told["sharing"], told["granted"]) == (200, "shared", "")
        assert told["refusal"] == "its exclusive CPUs were released by hand"
        again = await rig.ask("POST", of(rig, story.man) + "/release")
        assert again == (409, {"error": "man has no exclusive CPUs"})


async def test_a_release_of_one_that_has_not_started_is_answered_at_once(rig: Rig) -> None:
    """It is not granted CPUs again before its start."""
    new = rig.story.arrive("new", 1, starts=False)
    rig.tell()
    async with rig.serving():
        with trio.fail_after(5):
            code, told = await rig.ask("POST", of(rig, new) + "/release")
        assert (code, told["granted"]) == (200, "")
        rig.story.settle()
        rig.tell()
        assert (await rig.ask("GET", of(rig, new)))[1]["granted"] == ""


async def test_a_release_of_one_that_starts_at_that_moment_is_answered_at_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was released, and has asked again before the answer."""
    story = rig.story
    assert isinstance(story, Elastic)
    honest, man = story.feed, story.man

    def feed(*facts: Fact) -> None:
        monkeypatch.setattr(story, "feed", honest)
        story.feed(*facts)
        assert story.granted(man) is None
        story.moments = 10**9  # Later than the clock of the API.
        story.end(man)
        story.again(man)

    monkeypatch.setattr(story, "feed", feed)
    async with rig.serving():
        with trio.fail_after(5):
            code, told = await rig.ask("POST", of(rig, man) + "/release")
    assert (code, told["granted"]) == (200, story.granted(man))


async def test_a_resize_is_answered_with_what_was_decided(rig: Rig) -> None:
    """Its CPUs, its future CPUs, what it waits for; and which container loses CPUs until when."""
    story = rig.story
    assert isinstance(story, Elastic)
    async with rig.serving():
        code, told = await rig.ask("POST", of(rig, story.man) + "/resize", {"cpus": 3})
        assert code == 200
        taken = leaving(story, story.batch)
        grown = str(taken | cpus("7"))
        assert (told["name"], told["cpus"], told["granted"], told["ordered"]) == ("man", "7", grown, 3)
        assert told["waits_for"] == f"batch to leave {taken}, after 2 s of notice"
        code, told = await rig.ask("GET", of(rig, story.batch))
        assert told["leaving"] == {
            "cpus": str(taken),
            "number": 1,
            "reason": "the share of man grew, which redistributes 2 CPUs above batch's floor of 2",
            "is_due": False,
            "notice_seconds": 2.0,
            "until": "2026-03-04T05:06:09.000+00:00",
        }
        assert rig.asked == [ResizeRequested(story.man.key, 3)]


async def test_the_answer_waits_for_the_decision(rig: Rig) -> None:
    """Not before the allocator decided; and not indefinitely."""
    story = rig.story
    assert isinstance(story, Elastic)
    rig.deciding = trio.Event()
    answers: list[tuple[int, Any]] = []

    async def ask() -> None:
        answers.append(await rig.ask("POST", of(rig, story.man) + "/resize", {"cpus": 2}))

    async with rig.serving(), trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        while not rig.asked:  # noqa: ASYNC110 - a client in a thread
            await trio.sleep(0.001)
        rig.board.report("journal", "something else changed")
        await trio.testing.wait_all_tasks_blocked()
        assert answers == []
        rig.deciding.set()
    assert [(code, told["ordered"]) for code, told in answers] == [(200, 2)]


async def test_no_decision_is_told_as_such(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is bounded, and with a full inbox it does not begin."""
    monkeypatch.setattr("sidecar.api.requests.DECISION_SECONDS", 0.01)
    story = rig.story
    assert isinstance(story, Elastic)
    rig.deciding = trio.Event()
    async with rig.serving():
        code, told = await rig.ask("POST", of(rig, story.man) + "/resize", {"cpus": 2})
        assert (code, told) == (504, {"error": "not decided within 0.01 s; it may be yet"})
        codes = [(await rig.ask("POST", "/v1/defragment"))[0] for _ in range(9)]
        assert codes == [504] * 8 + [503]


@pytest.mark.parametrize(
    ("name", "asked", "reason"),
    [
        ("man", 4, "man may have 1 to 3 CPUs (cpuset.min, cpuset.max), not 4"),
        ("man", 0, "man may have 1 to 3 CPUs (cpuset.min, cpuset.max), not 0"),
        ("man", -5, "man may have 1 to 3 CPUs (cpuset.min, cpuset.max), not -5"),
        ("batch", 3, "the size of batch is decided by fill: set its label cpuset.scale=manual"),
    ],
)
async def test_what_may_not_be_ordered_is_409_with_its_cure(rig: Rig, name: str, asked: int, reason: str) -> None:
    async with rig.serving():
        assert await rig.ask("POST", f"/v1/containers/{name}/resize", {"cpus": asked}) == (409, {"error": reason})
    assert rig.asked == []


async def test_under_static_nothing_changes(tmp_path: Path) -> None:
    rig = Rig(tmp_path, Elastic(policy=PolicyName.STATIC))
    async with rig.serving():
        for route, body in (("/v1/containers/man/resize", {"cpus": 2}), ("/v1/defragment", None)):
            code, told = await rig.ask("POST", route, body)
            assert (code, told["error"].partition(":")[0]) == (409, "the policy is static")


async def test_people_can_acknowledge_for_a_workload(rig: Rig) -> None:
    """The pending take, with or without its number; a second time is an error."""
    story = rig.story
    assert isinstance(story, Elastic)
    async with rig.serving():
        assert (await rig.ask("POST", of(rig, story.batch) + "/ack"))[0] == 409
        await rig.ask("POST", of(rig, story.man) + "/resize", {"cpus": 3})
        code, told = await rig.ask("POST", of(rig, story.batch) + "/ack", {"number": 7})
        assert (code, told) == (409, {"error": "take 1 waits for an acknowledgement of batch, not take 7"})
        code, told = await rig.ask("POST", of(rig, story.batch) + "/ack", {"number": 1})
        taken = leaving(story, story.batch)
        assert (code, told["granted"], told["leaving"]["is_due"]) == (200, str(cpus("1-6") - taken), True)
        assert (await rig.ask("POST", of(rig, story.batch) + "/ack"))[0] == 409
        story.settle()
        rig.tell()
        assert (await rig.ask("GET", of(rig, story.man)))[1]["cpus"] == str(taken | cpus("7"))
        assert (await rig.ask("GET", "/v1/state"))[1]["acknowledged"] == 1


async def test_a_defragmentation_says_what_it_moved(tmp_path: Path) -> None:
    """The moves with their reasons; or why there is none."""
    settings: dict[str, Any] = {"policy": PolicyName.DYNAMIC, "reserved_cpus": cpus("0,4")}
    story = Story(uniform(cores=4, threads=2), max_moves=0, **settings)
    singles = {each: story.arrive(f"on-{each}", 1) for each in ("1", "5", "2", "6", "3", "7")}
    story.settle()
    assert {story.granted(real) for real in singles.values()} == set(singles)
    for each in ("5", "6"):
        story.away(singles[each])
    torn = story.arrive("torn", 2, labels={"cpuset.move": "true"})
    story.settle()
    rig = Rig(tmp_path, story)
    async with rig.serving():
        assert await rig.ask("POST", "/v1/defragment") == (
            200,
            {"moves": [], "notes": ["no move would make it better"]},
        )
        story.away(singles["1"])
        story.change_settings(**settings)
        rig.tell()
        code, told = await rig.ask("POST", "/v1/defragment")
        reason = "moved closer together: on 1 core instead of 2"
        move = {"container": torn.key.id, "name": "torn", "lost": "6", "gained": "1", "reason": reason}
        assert (code, told) == (200, {"moves": [move], "notes": []})


async def test_metrics_are_prometheus_text(rig: Rig) -> None:
    """Pool, grants, refusals, takes; counters from the State."""
    story = rig.story
    assert isinstance(story, Elastic)
    async with rig.serving():
        await rig.ask("POST", of(rig, story.man) + "/resize", {"cpus": 3})
        story.arrive("greedy", 20)
        rig.tell()
        await trio.testing.wait_all_tasks_blocked()
        code, content = await rig.raw("GET", "/metrics")
    text = content.decode()
    values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}
    assert code == 200
    assert (values["cpuset_sidecar_shared_cpus"], values["cpuset_sidecar_exclusive_cpus"]) == (1, 7)
    assert values["kubelet_cpu_manager_exclusive_cpu_allocation_count"] == 7
    assert values["kubelet_cpu_manager_pinning_requests_total"] == 1
    assert values["kubelet_cpu_manager_pinning_errors_total"] == 1
    assert values['cpuset_sidecar_refusals_total{code="not-enough"}'] == 1
    assert values["cpuset_sidecar_takes_pending"] == 1
    assert values["cpuset_sidecar_cpus_leaving"] == 2
    assert values["cpuset_sidecar_takes_forced_total"] == values["cpuset_sidecar_takes_acknowledged_total"] == 0
    assert values['cpuset_sidecar_containers{sharing="exclusive"}'] == 2
    assert values["cpuset_sidecar_answers_births"] == values["cpuset_sidecar_births_answered_total"] == 0
    assert "# TYPE kubelet_cpu_manager_pinning_requests_total counter" in text


async def test_events_tell_every_change_with_its_reason(rig: Rig) -> None:
    """Server-sent, as they come, until the client leaves."""
    story = rig.story
    assert isinstance(story, Elastic)
    async with rig.serving():
        stream = await rig.send(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n")
        seen = await until(stream, lambda text: b": following" in text)
        assert b"content-type: text/event-stream" in seen
        await rig.ask("POST", of(rig, story.man) + "/resize", {"cpus": 3})
        seen = await until(stream, lambda text: b'"grew"' in text)
        told = [json.loads(line[6:]) for line in seen.splitlines() if line.startswith(b"data: ")]
        assert [(each["message"], each["container"]) for each in told] == [
            ("shrank", "batch"),
            ("take started", "batch"),
            ("grew", "man"),
        ]
        assert told[2]["reason"] == "it was resized to 3 CPUs"
        assert told[0]["time"] == "2026-03-04T05:06:07.000+00:00"


async def test_a_follower_hears_that_the_daemon_lives(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although nothing changes."""
    monkeypatch.setattr(web_app, "ALIVE_SECONDS", 0.01)
    async with rig.serving():
        stream = await rig.send(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n")
        await until(stream, lambda text: text.count(b": alive") > 1)


async def test_the_nearest_name_is_told(rig: Rig) -> None:
    async with rig.serving():
        code, told = await rig.ask("GET", "/v1/containers/bach")
        assert (code, told["error"]) == (404, "there is no container 'bach'; did you mean 'batch'?")


@pytest.mark.trio
async def test_an_encoded_slash_is_part_of_a_name(rig: Rig) -> None:
    """It divides no path: neither into a name and another route, nor into parts of a route that is there."""
    async with rig.serving():
        assert (await rig.ask("GET", "/v1/containers/%62atch"))[0] == 200
        assert (await rig.ask("GET", "/v1/containers/%2Fbatch"))[0] == 200
        for path, named in {
            "/v1/containers/batch%2fexplanation": "batch/explanation",
            "/v1/containers/batch%2Fresize/explanation": "batch/resize",
        }.items():
            status, told = await rig.ask("GET", path)
            assert (status, named in told["error"]) == (404, True), told
        assert (await rig.ask("GET", "/v1%2fstatus"))[1]["error"].startswith("there is no such route")
