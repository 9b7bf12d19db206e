"""What the page asks: its files, the live stream, events that are resumed, the last hour, plans, CPUs, explanations."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

import pytest
import trio

from sidecar.api import change_record, live_document
from sidecar.api.page_files import POLICY, PageFiles
from sidecar.decide.contacts import Away
from sidecar.log import LogLevel
from sidecar.words.changes import Line
from sidecar.words.past import PAST
from state.lease import LEASE_SECONDS
from tests.api.apirig import NOW, Elastic, Rig, until
from tests.api.test_tcp_listener import ask, serving
from tests.support.decide.contacts import with_readiness
from tests.support.decide.stories import Story

pytestmark = pytest.mark.trio

MOST_BYTES = 120 * 1024


def events(seen: bytes) -> list[tuple[str, str, Any]]:
    """Return the events in what was read: id, name, data."""
    found = []
    for block in seen.decode().replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in fields:
            found.append((fields.get("id", ""), fields.get("event", ""), json.loads(fields["data"])))
    return found


async def follow(rig: Rig, route: str, last: str = "") -> trio.SocketStream:
    """Follow a route, as HTTP/1.0, so that the answer comes as it is."""
    head = f"GET {route} HTTP/1.0\r\nhost: x\r\n" + (f"last-event-id: {last}\r\n" if last else "")
    return await rig.send(f"{head}\r\n".encode())


async def test_the_page_has_the_past_tense_of_the_commands() -> None:
    """What a daemon said that is gone is told by the page as `status` and `explain` tell it: by the same verbs."""
    script = (files("sidecar.api") / "page" / "page.js").read_text()
    assert json.loads(script.split("const PAST = ")[1].split(";")[0]) == PAST


async def test_the_files_are_small_and_kept_by_their_hash(rig: Rig) -> None:
    """The HTML is asked for each time, and is 304 where it is known; the others are kept for ever under their hash."""
    assert PageFiles().size < MOST_BYTES
    async with serving(rig) as port:
        status, html = await ask(port, "GET", "/")
        headers = await rig.headers(port, "/")
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert headers["content-security-policy"] == POLICY
        again = await rig.headers(port, "/", **{"if-none-match": headers["etag"]})
        assert (again["status"], "content-length" in again) == ("304", False)
        for name, kind in (("page.css", "text/css"), ("page.js", "text/javascript")):
            named = html.decode().split(name)[1].split('"')[0]
            part = await rig.headers(port, f"/{name}{named}")
            assert part["content-type"] == f"{kind}; charset=utf-8"
            assert "immutable" in part["cache-control"]
            assert "immutable" not in (await rig.headers(port, f"/{name}?0"))["cache-control"]


async def test_the_page_names_no_other_server_and_has_no_script_of_its_own() -> None:
    """No inline script or style, nothing of another origin; the policy forbids all of that, too."""
    page = PageFiles()
    html = page._html.decode()
    assert "style=" not in html
    assert "<style" not in html
    assert html.count("<script") == html.count("<script src=") == 1
    assert " on" not in "".join(tag for tag in html.split("<") if tag.startswith(("body", "button", "form", "input")))
    texts = (html, *(part.decode() for part in page._parts.values()))
    # The name of a vocabulary: no browser asks for it.
    assert {found for text in texts for found in re.findall(r"""https?://[^"'\s]*|["'(]//[^"'\s]*""", text)} == {
        "http://www.w3.org/2000/svg"
    }
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert word not in page._parts["js"].decode()
    assert "'unsafe-inline'" not in POLICY
    for part in ("default-src 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"):
        assert part in POLICY.split("; ")


async def test_a_follower_that_comes_back_hears_what_it_missed(rig: Rig) -> None:
    """By the id of the last event that it has; nothing twice."""
    assert isinstance(rig.story, Elastic)
    async with rig.serving():
        stream = await follow(rig, "/v1/events")
        await until(stream, lambda text: b": following" in text)
        await rig.ask("POST", "/v1/containers/man/resize", {"cpus": 3})
        first = events(await until(stream, lambda text: b'"grew"' in text))
        await stream.aclose()
        rig.story.arrive("web")
        rig.story.settle()
        rig.tell()
        again = await follow(rig, "/v1/events", first[0][0])
        missed = events(await until(again, lambda text: b'"grew"' in text))
        assert [id for id, _, _ in missed] == [id for id, _, _ in first][1:]
        assert len({id for id, _, _ in first}) == len(first)


@pytest.mark.parametrize("last", ["0-1", "rubbish", "-", "{run}-99999", "{run}-x", "{run}--1"])
async def test_a_follower_that_missed_too_much_is_told(rig: Rig, last: str) -> None:
    """Another run, or an id that there was never: it looks at everything again."""
    async with rig.serving():
        stream = await follow(rig, "/v1/events", last.format(run=rig.api.record._run))
        seen = events(await until(stream, lambda text: b"missed" in text))
        assert [name for _, name, _ in seen] == ["missed"]


async def test_events_before_the_kept_ones_are_missed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that comes back too late, or reads too slowly, is told so, and then hears what comes."""
    monkeypatch.setattr(change_record, "MOST", 2)
    record = change_record.ChangeRecord(rig.board, lambda: NOW)
    for _ in range(5):
        record._add([Line(level=LogLevel.INFO, message="x", fields={})], NOW)
    assert record.from_id(f"{record._run}-2") == 0
    assert record.from_id(f"{record._run}-3") == 4
    told, following = record.events(1)
    assert (b"missed" in told, following) == (True, 6)
    assert record.events(6) == (b"", 6)
    assert record.events(4)[0].count(b"event: change") == 2


async def test_the_live_stream_is_the_document_and_then_what_changed(rig: Rig) -> None:
    """Applied to the first, the differences give the document that `/v1/status` gives."""
    story = rig.story
    assert isinstance(story, Elastic)
    async with rig.serving():
        stream = await follow(rig, "/v1/live")
        seen = events(await until(stream, lambda text: b"event: status" in text and text.endswith(b"\n\n")))
        [(_, _, whole)] = [each for each in seen if each[1] == "status"]
        containers = {each["id"]: each for each in whole["containers"]}
        assert {each["name"] for each in containers.values()} == {"batch", "man"}
        assert {each["engine"] for each in containers.values()} == {"reality"}
        web = story.arrive("web", labels={"com.docker.compose.project": "shop"})
        story.settle()
        rig.tell()
        seen = events(await until(stream, lambda text: b'"shop"' in text and text.endswith(b"\n\n")))
        for _, name, told in seen:
            if name == "difference":
                whole["fields"] |= told["fields"]
                containers |= {each["id"]: each for each in told["containers"]}
        assert [each["project"] for each in containers.values() if each["name"] == "web"] == ["shop"]
        story.away(web)
        rig.tell()
        seen = events(await until(stream, lambda text: web.key.id.encode() in text and text.endswith(b"\n\n")))
        for _, name, told in seen:
            if name == "difference":
                whole["fields"] |= told["fields"]
                containers |= {each["id"]: each for each in told["containers"]}
                for id in told["gone"]:
                    del containers[id]
        present = (await rig.ask("GET", "/v1/status"))[1]
        expected = {each["id"]: each for each in present.pop("containers")}
        assert {id: {**each, "engine": ""} for id, each in containers.items()} == {
            id: {**each, "engine": ""} for id, each in expected.items()
        }
        del present["updated_at"]
        assert whole["fields"] == present


async def test_the_live_stream_says_whether_the_daemon_vouches(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the document, and by itself although nothing changes; a stalled daemon's document claims nothing."""
    monkeypatch.setattr(live_document, "LEASE_PAUSE", 0.01)
    rig.board.vouched_at = NOW.timestamp()
    async with rig.serving():
        stream = await follow(rig, "/v1/live")
        seen = events(await until(stream, lambda text: text.count(b"event: lease") >= 2))
        assert {told.get("at", told)["vouched"] for _, _, told in seen} == {True}
        rig.board.vouched_at = NOW.timestamp() - LEASE_SECONDS - 1
        seen = events(await until(stream, lambda text: b"event: difference" in text and text.endswith(b"\n\n")))
        [told] = [told for _, name, told in seen if name == "difference"]
        assert told["at"]["vouched"] is False
        assert not any(each["is_settled"] for each in told["containers"])


async def test_changes_of_grants_are_in_the_stream_and_in_the_history(rig: Rig) -> None:
    """With their reasons."""
    assert isinstance(rig.story, Elastic)
    async with rig.serving():
        stream = await follow(rig, "/v1/live")
        await until(stream, lambda text: b"event: status" in text)
        await rig.ask("POST", "/v1/containers/man/resize", {"cpus": 3})
        seen = events(await until(stream, lambda text: b"event: grants" in text and text.endswith(b"\n\n")))
        grants = [each for _, name, told in seen if name == "grants" for each in told]
        assert "grew: it was resized to 3 CPUs" in [each["reason"] for each in grants]
        code, told = await rig.ask("GET", "/v1/history")
        assert code == 200
        assert [each for each in told["changes"] if each in grants] == grants
        assert {each["name"] for each in (*told["began"], *told["changes"])} == {"", "batch", "man"}


async def test_documents_are_made_for_readers_alone(rig: Rig) -> None:
    """None while no page is open, and one for all pages."""
    async with rig.serving():
        for _ in range(3):
            rig.tell()
            await trio.sleep(0.02)
        assert rig.api.live.version == 0
        streams = [await follow(rig, "/v1/live") for _ in range(3)]
        for stream in streams:
            await until(stream, lambda text: b"event: status" in text)
        assert rig.api.live.version == 1


async def test_a_plan_is_what_the_daemons_policy_would_grant(rig: Rig) -> None:
    """One request after the other, on this machine as it is; and nothing is granted by it."""
    rig.story = story = Story()
    story.arrive("voice", 2)
    story.settle()
    rig.tell()
    async with rig.serving():
        before = rig.board.latest
        code, told = await rig.ask("GET", "/v1/plan?cpus=2&cpus=9&label=cpuset.numa%3Dsingle")
        assert code == 200
        assert [(each["asked"], each["cpus"], each["code"]) for each in told["answers"]] == [
            (2, "3-4", ""),
            (9, "", "not-enough"),
        ]
        assert told["held"] == {"voice": "1-2"}
        assert rig.board.latest is before
    assert rig.asked == []


@pytest.mark.parametrize(
    "query", ["", "cpus=", "cpus=0", "cpus=-1", "cpus=x", "cpus=99999999", "label=a", "cpus=1&label=colour=red",
              "cpus=1&label=cpuset.exclusive=3", "cpus=1&other=2", "&".join(["cpus=1"] * 100)],
)  # fmt: skip
async def test_a_plan_that_cannot_be_understood_is_refused_with_what_can(rig: Rig, query: str) -> None:
    async with rig.serving():
        code, told = await rig.ask("GET", f"/v1/plan?{query}")
        assert (code, list(told)) == (400, ["error"])
        assert told["error"].startswith("a is not understood: a label is") is query.startswith("label=a")


async def test_nothing_is_planned_before_everything_was_looked_at(rig: Rig) -> None:
    rig.board.post(with_readiness(rig.story.world, Away()))
    async with rig.serving():
        assert (await rig.ask("GET", "/v1/plan?cpus=1"))[0] == 503


async def test_a_cpu_and_a_container_explain_themselves(rig: Rig) -> None:
    """In the words of `explain`."""
    async with rig.serving():
        code, told = await rig.ask("GET", "/v1/cpus/7")
        assert (code, told["kind"], told["owner"]) == (200, "exclusive", "man")
        assert told["explanation"][0] == "It is granted to man."
        for wrong, why in {
            "8": "this machine has no CPU 8: it has 0-7",
            "99999999999999999999": "this machine has no CPU 99999999999999999999: it has 0-7",
            "x": "'x' is no number of a CPU: this machine has 0-7",
            "-1": "'-1' is no number of a CPU: this machine has 0-7",
            "1e0": "'1e0' is no number of a CPU: this machine has 0-7",
            "a%1bb": "'a\\x1bb' is no number of a CPU: this machine has 0-7",
        }.items():
            assert await rig.ask("GET", f"/v1/cpus/{wrong}") == (404, {"error": why})
        rig.board.vouched_at = NOW.timestamp()
        code, told = await rig.ask("GET", "/v1/containers/batch/explanation")
        assert (code, told["name"]) == (200, "batch")
        assert any(sentence.startswith("They are ") for sentence in told["explanation"])
        assert (await rig.ask("GET", "/v1/containers/nothing/explanation"))[0] == 404
