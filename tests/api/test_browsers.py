"""What is refused of a page in a browser, on every listener: other origins, other sites, and every change."""

from __future__ import annotations

import pytest
import trio

from sidecar.api.browsers import Visitor, objection
from tests.api.apirig import Elastic, Rig, until
from tests.api.test_tcp_listener import ask, serving

HOST = "127.0.0.1:9413"


@pytest.mark.parametrize(
    ("visitor", "method", "is_answered"),
    [
        (Visitor(), "GET", True),
        (Visitor(), "POST", True),
        (Visitor(site="same-origin", mode="cors"), "GET", True),
        (Visitor(site="none", mode="navigate"), "GET", True),
        (Visitor(site="none", mode="navigate", shown_as="document"), "GET", True),
        (Visitor(site="same-origin", mode="cors", shown_as="empty"), "GET", True),
        (Visitor(site="same-origin", mode="no-cors", shown_as="script"), "GET", True),
        (Visitor(site="cross-site", mode="navigate", shown_as="document"), "GET", True),
        (Visitor(site="cross-site", mode="navigate"), "GET", False),
        *(
            (Visitor(site=site, mode="navigate", shown_as=inside), "GET", False)
            for site in ("cross-site", "same-site", "same-origin", "none")
            for inside in ("iframe", "frame", "object", "embed")
        ),
        (Visitor(origin=f"http://{HOST}"), "GET", True),
        (Visitor(origin="http://evil.example"), "GET", False),
        (Visitor(origin="http://127.0.0.1:9414"), "GET", False),
        (Visitor(origin="null"), "GET", False),
        (Visitor(site="cross-site", mode="no-cors"), "GET", False),
        (Visitor(site="same-site", mode="cors"), "GET", False),
        (Visitor(origin=f"http://{HOST}"), "POST", False),
        (Visitor(site="same-origin"), "POST", False),
        (Visitor(site="cross-site", mode="navigate", shown_as="document"), "POST", False),
    ],
)
def test_only_the_page_itself_and_programs_are_answered(visitor: Visitor, method: str, is_answered: bool) -> None:
    assert (objection(visitor, method, HOST) == "") is is_answered


@pytest.mark.trio
async def test_no_page_changes_anything_on_the_unix_socket_either(rig: Rig) -> None:
    """It may be forwarded to a port of somebody's own computer, where any page could post to it."""
    assert isinstance(rig.story, Elastic)
    async with rig.serving():
        for headers in ({"origin": "http://localhost:8080"}, {"sec-fetch-site": "cross-site"}):
            status, told = await rig.ask("POST", "/v1/containers/man/resize", {"cpus": 3}, **headers)
            assert (status, list(told)) == (403, ["error"])
    assert rig.asked == []


@pytest.mark.trio
async def test_over_tcp_another_site_reads_nothing_and_no_answer_may_be_shared(rig: Rig) -> None:
    """403 for its requests; and no answer has a header that lets another origin read, embed or frame it."""
    async with serving(rig) as port:
        assert (await ask(port, "GET", "/v1/status", **{"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}))[
            0
        ] == 403
        for route in ("/", "/page.js", "/page.css", "/v1/status", "/v1/history", "/nothing"):
            headers = await rig.headers(port, route)
            assert not [name for name in headers if name.startswith("access-control-")]
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.trio
async def test_no_answer_of_any_route_may_be_framed(rig: Rig) -> None:
    """Whatever its kind and status: every route, also one that follows, and what is refused or is no HTTP at all.
    There is one policy: of two, a browser obeys both, and the page's own script would not run.
    """
    paths = [route.path.format(container="batch", cpu="1") for route in rig.api.routes if route.method == "GET"]
    requests = [f"GET {path} HTTP/1.1\r\nhost: {HOST}\r\n" for path in [*paths, "/v1/plan?cpus=1", "/nothing"]]
    requests += [
        f"POST /v1/status HTTP/1.1\r\nhost: {HOST}\r\n",
        "GET /v1/status HTTP/1.1\r\nhost: evil.example\r\n",
        f"GET /v1/status HTTP/1.1\r\nhost: {HOST}\r\nsec-fetch-site: cross-site\r\n",
        f"GET /metrics HTTP/1.1\r\nhost: {HOST}\r\naccept: application/openmetrics-text\r\n",
        "no HTTP\r\n",
    ]
    kinds = set[str]()
    async with serving(rig) as port:
        for request in requests:
            for before in ("", "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\nsec-fetch-dest: iframe\r\n"):
                status, headers = await head(port, f"{request}{before}\r\n")
                assert [value for name, value in headers if name == "content-security-policy"], request
                policy, *others = [value for name, value in headers if name == "content-security-policy"]
                assert not others
                assert {"default-src 'none'", "frame-ancestors 'none'"} <= set(policy.split("; ")), request
                assert not before or status in (400, 403)
                kinds |= {value.partition(";")[0] for name, value in headers if name == "content-type"}
    assert kinds == {
        "application/json",
        "application/openmetrics-text",
        "text/css",
        "text/event-stream",
        "text/html",
        "text/javascript",
        "text/plain",
    }


async def head(port: int, request: str) -> tuple[int, list[tuple[str, str]]]:
    """Send a request over TCP, and leave after the head of its answer: its status, and its headers."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(request.encode())
        told = (await until(stream, lambda seen: b"\r\n\r\n" in seen)).partition(b"\r\n\r\n")[0].decode()
    first, *lines = told.split("\r\n")
    pairs = (line.partition(": ") for line in lines)
    return int(first.split()[1]), [(name.lower(), value) for name, _, value in pairs]
