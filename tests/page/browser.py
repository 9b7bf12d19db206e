"""A real Chromium, headless, and hosts for it to look at. Without it, or without Playwright, tests skip and say so."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

from sidecar.status.grant_history import HOUR, GrantChange
from sidecar.status.history_file import HistoryFile
from state.cpuset import CPUSet

T = TypeVar("T")

ROOT = Path(__file__).parents[2]

PICTURES = ROOT / "docs" / "pictures"

NEEDS = "make test on a machine with Debian's chromium"


def chromium() -> str:
    """Return the program. Skip without it."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip(f"there is no chromium here: {NEEDS}")
    pytest.importorskip("playwright", reason=f"playwright is not installed: {NEEDS}")
    return found


@contextmanager
def browsing() -> Iterator[Any]:
    """Yield a browser for the length of the block."""
    program = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Its own sandbox wants a user other than root. It loads nothing but the page under test.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--js-flags=--expose-gc"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Any, link: str, **options: Any) -> Iterator[Any]:
    """Yield the page at this link, drawn. Errors of its script, and what its policy forbids, fail the test."""
    context = browser.new_context(
        **{"viewport": {"width": 1280, "height": 800}, "locale": "en-GB", "timezone_id": "UTC", **options}
    )
    wrong: list[str] = []
    try:
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda told: wrong.append(told.text) if "Content Security Policy" in told.text else None)
        page.goto(link)
        eventually(lambda: wrong or page.query_selector("body.is-live #machine button"), 30)
        assert wrong == []
        yield page
    finally:
        context.close()
    assert wrong == []


def eventually(is_so: Callable[[], T], seconds: float = 20) -> T:
    """Wait until the condition holds, and return what it gave."""
    end = time.monotonic() + seconds
    while not (told := is_so()):
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.02)
    return told


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def busy_hour(first: int, last: int) -> tuple[GrantChange, ...]:
    """Return an hour in which jobs came and went on these CPUs; all are gone at its end."""
    now, chance = time.time(), Random(7)
    made: list[GrantChange] = []
    for cpu in range(first, last, 6):
        at = now - HOUR + chance.uniform(20, 500)
        while at < now - 240:
            job, end = f"{chance.getrandbits(48):012x}", at + chance.uniform(120, 900)
            name = f"{chance.choice(['build', 'encode', 'fold', 'render'])}-{chance.randrange(100)}"
            cpus = CPUSet(range(cpu, min(cpu + chance.choice([3, 6]), last)))
            made += (
                GrantChange(at=at, container=job, name=name, cpus=cpus, reason="granted"),
                GrantChange(at=min(end, now - 60), container=job, name=name, reason="released: it was removed"),
            )
            at = end + chance.uniform(5, 300)
    return tuple(sorted(made, key=lambda each: each.at))


class Simulated:
    """A simulated host in a process of its own, told what to do. `link` is its page."""

    def __init__(
        self, folder: Path, shape: tuple[int, int, int, int], *, past: tuple[GrantChange, ...] = (), **options: str
    ) -> None:
        """Start it; `past` is what an earlier daemon has recorded."""
        port = free_port()
        self.link = f"http://127.0.0.1:{port}/"
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        if past:
            (folder / "state").mkdir(mode=0o700)
            HistoryFile(str(folder / "state")).replace(past)
        self._log = (folder / "log").open("w")
        given = {"listen": f"127.0.0.1:{port}", **options}
        words = [*map(str, shape), *(f"{key}={value}" for key, value in given.items())]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.page.simulated_host", str(folder), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        eventually(lambda: "also serving over TCP" in self.log() or self.process.poll() is not None, 60)

    def log(self) -> str:
        """Return what the daemon has logged."""
        return (self.folder / "log").read_text()

    def do(self, *words: Any) -> Any:
        """Carry out a command, and return its answer."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def run(self, name: str, exclusive: int = 0, **labels: str) -> str:
        """Create and start a container; return its id."""
        asked = {"cpuset.exclusive": str(exclusive)} if exclusive else {}
        id: str = self.do("run", name, {**asked, **{key.replace("_", "."): value for key, value in labels.items()}})
        return id

    def end(self) -> None:
        """End the process. One that has ended before, or that fails as it ends, fails the test with what it said."""
        if self.process.stdin:
            self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        self._log.close()
        assert self.process.returncode == 0, self.log()[-4000:]


def picture(page: Any, name: str, *, full: bool = True) -> None:
    """Take a picture for the pages, if it is wanted: `CPUSET_TESTS_PICTURES=1`. Pictures differ with each run."""
    if os.environ.get("CPUSET_TESTS_PICTURES"):
        page.wait_for_timeout(400)
        page.screenshot(path=str(PICTURES / f"page-{name}.png"), full_page=full)
