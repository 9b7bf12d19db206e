"""What the page costs a browser: `python -m tests.bench.painted [--openings 20] [--updates 40]`.

Chromium, headless, before a whole daemon on a simulated machine of 1,024 CPUs with 400 containers, of which 386 have
CPUs of their own; and, to compare, of 16 CPUs with 4. Each opening is in a context of its own, with nothing cached.
Each update is a container that stops, or starts again: what the page's main thread needs for it, and its script alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest

from tests.bench.latency import percentile
from tests.page.browser import Simulated, browsing, eventually, opened

BIG: Final = (8, 1, 64, 2)
SMALL: Final = (1, 1, 8, 2)

PAINT_MS: Final = 200.0
UPDATE_MS: Final = 16.0
"""What is aimed at: a first paint, and an update."""

_UPDATE_SECONDS: Final = 0.8
"""How long an update is waited for, which asks the page nothing meanwhile."""

_PARTS: Final = ("TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration")

_TIMES: Final = """() => {
  const paint = Object.fromEntries(performance.getEntriesByType('paint').map((each) => [each.name, each.startTime]));
  return [paint['first-paint'], paint['first-contentful-paint'], performance.now()];
}"""


def row(name: str, values: list[float], goal: float | None = None) -> str:
    """Return a row of the table, in milliseconds."""
    told = f"| {name} | {median(values):.1f} | {percentile(values, 0.9):.1f} | {max(values):.1f} |"
    return told if goal is None else f"{told} {'kept' if median(values) <= goal else 'MISSED'}: {goal:g} |"


def openings(browser: Any, link: str, times: int) -> tuple[list[float], list[float], list[float]]:
    """Return the milliseconds from the navigation until the first paint, and until the machine is drawn, at most; and
    until the first paint of a page that has nothing but a word, in turn with the others.
    """
    painted, drawn, empty = [], [], []
    with nearly_empty() as other:
        for _ in range(times):
            with opened(browser, link) as page:
                _, contentful, now = page.evaluate(_TIMES)
                painted.append(contentful)
                drawn.append(now)
            page = browser.new_page()
            page.goto(other)
            empty.append(eventually(partial(_first_paint, page)))
            page.close()
    return painted, drawn, empty


def _first_paint(page: Any) -> float:
    painted: float = page.evaluate(_TIMES)[1] or 0.0
    return painted


@contextmanager
def nearly_empty() -> Iterator[str]:
    """Serve a page of one word, and yield its link."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>one</title><p>word")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def updates(browser: Any, host: Simulated, id: str, times: int, *, unfolded: bool = False) -> dict[str, list[float]]:
    """Return what a frame of each of so many updates needed of the main thread, in milliseconds, by its parts, without
    what the page needs in the same time when nothing happens.
    """
    found: dict[str, list[float]] = {name: [] for name in (*_PARTS, "drawing")}
    with opened(browser, host.link) as page:
        if unfolded:
            page.click("#fold")
        session = page.context.new_cdp_session(page)
        # By the processor time of its thread, so that other load is not in it.
        session.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
        session.send("Performance.enable")
        page.evaluate("() => window.gc && window.gc()")
        time.sleep(1)
        for number in range(times):
            idle, still = _spent(page, session)
            host.do("stop" if number % 2 == 0 else "start", id)
            spent, drawn = _spent(page, session)
            for name in _PARTS:
                found[name].append((spent[name] - idle[name]) * 1e3 / max(1, drawn - still))
            found["drawing"].append(page.evaluate("window.drawn.took"))
    return found


def _spent(page: Any, session: Any) -> tuple[dict[str, float], int]:
    """Return the seconds that each part took in the next time, and how many frames were drawn."""
    frames, before = page.evaluate("window.drawn.frames"), _metrics(session)
    time.sleep(_UPDATE_SECONDS)
    after = _metrics(session)
    return {name: after[name] - before[name] for name in _PARTS}, page.evaluate("window.drawn.frames") - frames


def _metrics(session: Any) -> dict[str, float]:
    return {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}


def filled(folder: Path, shape: tuple[int, int, int, int], owners: int, others: int) -> tuple[Simulated, str]:
    """Return a host with so many containers, and the id of one that has CPUs of its own."""
    host = Simulated(folder, shape)
    one = host.run("voice", 2)
    host.do("crowd", owners - 1, {"cpuset.exclusive": "2"})
    host.do("crowd", others, {})
    return host, one


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--openings", type=int, default=20)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--owners", type=int, default=386, help="containers with CPUs of their own, of 1,024 CPUs")
    args = parser.parse_args()
    print("| milliseconds | median | p90 | worst | |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="cpuset-painted-") as folder, browsing() as browser:
        for name, shape, owners, others in (("16 CPUs", SMALL, 3, 1), ("1,024 CPUs", BIG, args.owners, 14)):
            host, one = filled(Path(folder) / name.partition(" ")[0], shape, owners, others)
            try:
                eventually(partial(_is_there, browser, host, owners + others), 300)
                painted, drawn, empty = openings(browser, host.link, args.openings)
                print(row(f"{name}: opened to its first paint", painted, PAINT_MS))
                print(row("a page of one word, in turn with it", empty))
                print(row(f"{name}: opened to the machine drawn, or less", drawn), flush=True)
                for is_unfolded in (False, True) if shape == BIG else (False,):
                    found = updates(browser, host, one, args.updates, unfolded=is_unfolded)
                    what = f"{name}{', every CPU shown' if is_unfolded else ''}"
                    print(row(f"{what}: an update, all of the main thread", found["TaskDuration"], UPDATE_MS))
                    for part, values in found.items():
                        if part != "TaskDuration":
                            print(row(f"{what}: of it {part}", values), flush=True)
            finally:
                host.end()
    return 0


def _is_there(browser: Any, host: Simulated, many: int) -> bool:
    with suppress(AssertionError), opened(browser, host.link) as page:
        return bool(page.locator("#tenants-body .name button").count() >= many)
    return False


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pytest.skip.Exception as lacking:
        sys.exit(str(lacking))
