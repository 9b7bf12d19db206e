"""What is refused of a page in a browser, on every listener: other origins, other sites, and every change."""

from __future__ import annotations

import pytest

from sidecar.api.browsers import Visitor, objection
from tests.api.apirig import Elastic, Rig
from tests.api.test_tcp_listener import ask, serving

HOST = "127.0.0.1:9413"


@pytest.mark.parametrize(
    ("visitor", "method", "is_answered"),
    [
        (Visitor(), "GET", True),
        (Visitor(), "POST", True),
        (Visitor(site="same-origin", mode="cors"), "GET", True),
        (Visitor(site="none", mode="navigate"), "GET", True),
        (Visitor(site="cross-site", mode="navigate"), "GET", True),
        (Visitor(origin=f"http://{HOST}"), "GET", True),
        (Visitor(origin="http://evil.example"), "GET", False),
        (Visitor(origin="http://127.0.0.1:9414"), "GET", False),
        (Visitor(origin="null"), "GET", False),
        (Visitor(site="cross-site", mode="no-cors"), "GET", False),
        (Visitor(site="same-site", mode="cors"), "GET", False),
        (Visitor(origin=f"http://{HOST}"), "POST", False),
        (Visitor(site="same-origin"), "POST", False),
        (Visitor(site="cross-site", mode="navigate"), "POST", False),
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
