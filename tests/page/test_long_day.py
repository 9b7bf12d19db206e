"""A page that is left open for a day keeps what it had in its second hour, and no more."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from tests.page.browser import Simulated, eventually, opened
from tests.page.long_day import streamed

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page"), pytest.mark.timeout(300)]

HOURS = 24
MORE = 1.15
"""The most that the last hours may have, of what the first have that are full: collections of garbage are not exact."""


def first_document(link: str) -> dict[str, Any]:
    """Return the document with which a daemon's live stream begins."""
    with urllib.request.urlopen(f"{link}v1/live", timeout=10) as answer:
        while not (line := answer.readline()).startswith(b"event: status"):
            assert line
        told: dict[str, Any] = json.loads(answer.readline().removeprefix(b"data: "))
        return told


def kept(page: Any, debugger: Any) -> dict[str, float]:
    """Return what the page keeps: bytes of its heap, nodes of its document, listeners."""
    page.wait_for_timeout(300)
    for _ in range(3):
        debugger.send("HeapProfiler.collectGarbage")
    told = {each["name"]: each["value"] for each in debugger.send("Performance.getMetrics")["metrics"]}
    return {"heap": told["JSHeapUsedSize"], "nodes": told["Nodes"], "listeners": told["JSEventListeners"]}


def lived(
    browser: Any, simulated: Callable[..., Simulated], hours: int, script: Callable[[str], str] = str
) -> list[dict[str, float]]:
    """Return what a page keeps after each hour; in the second half a row of its table was opened."""
    host = simulated(2, 2, 24, 2)
    for number in range(20):
        host.run(f"owner-{number}", 4)
    host.run("web")
    found = []
    with streamed(first_document(host.link), script) as day, opened(browser, day.link) as page:
        debugger = page.context.new_cdp_session(page)
        debugger.send("Performance.enable")
        for hour in range(hours):
            day.pass_hour()
            last = f"job-{(hour + 1) * 360}"
            eventually(lambda last=last: last in page.inner_text("#tenants-body"))  # type: ignore[misc]
            if hour == hours // 2:
                page.locator("#tenants-body .name button").first.click()
            # Out of sight, it is drawn so seldom that some hours would be without what the others have.
            page.locator("#time").scroll_into_view_if_needed()
            found.append(kept(page, debugger))
    return found


def grown(hours: list[dict[str, float]]) -> list[str]:
    """Return what is more in each hour of the last quarter than in any of the first, without the hour that fills the
    history. What leaks is never given back, and a look in the middle of a drawing finds what goes with it twice.
    """
    quarter = len(hours) // 4
    first, last = hours[1 : 1 + quarter], hours[-quarter:]
    return [what for what in first[0] if min(each[what] for each in last) > MORE * max(each[what] for each in first)]


def test_looks_in_the_middle_of_a_drawing_are_no_leak() -> None:
    quiet, drawing = {"heap": 3e6, "nodes": 7000.0}, {"heap": 4e6, "nodes": 14000.0}
    assert grown([quiet] * 4 + [quiet] * 5 + [drawing, quiet, drawing]) == []
    assert grown([{**quiet, "nodes": 7000.0 + 300 * hour} for hour in range(12)]) == ["nodes"]


def test_a_day_leaks_nothing(browser: Any, simulated: Callable[..., Simulated]) -> None:
    """8,640 containers come and go, and as many changes of grants twice."""
    assert not grown(hours := lived(browser, simulated, HOURS)), hours


def test_a_page_that_keeps_what_it_was_told_is_found_out(browser: Any, simulated: Callable[..., Simulated]) -> None:
    """A planted fault."""

    def leaky(script: str) -> str:
        honest = "take(parse(event.data));"
        assert honest in script
        return script.replace(honest, f"(globalThis.kept ??= []).push(JSON.parse(event.data)); {honest}")

    assert "heap" in grown(hours := lived(browser, simulated, HOURS // 2, leaky)), hours
