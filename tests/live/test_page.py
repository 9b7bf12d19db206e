"""The page on a real engine, in a real Chromium, by the link of `cpuset-sidecar page`."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.live.containers import Containers
from tests.live.sidecarprocess import LAST, SidecarProcess
from tests.live.waiting import PATIENCE
from tests.page.browser import browsing, eventually, opened

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

APPEARS_SECONDS = 1.0
"""From the engine's answer to a start until the container is on the page."""


@pytest.fixture
def browser() -> Iterator[Any]:
    """Provide a Chromium, for one test: see `tests/page/conftest.py`."""
    with browsing() as found:
        yield found


@contextmanager
def paged(running: SidecarProcess) -> Iterator[str]:
    """Run the command, and yield its link."""
    with subprocess.Popen(running.command_line("page"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def told(page: Any, is_so: Callable[[str], bool]) -> None:
    """Wait until the table of the page fulfils the condition."""
    eventually(lambda: is_so(page.inner_text("#tenants-body")), 30 * PATIENCE)


def test_a_container_is_on_the_page_within_a_second_and_gone_when_it_is(
    browser: Any, running: SidecarProcess, workloads: Containers
) -> None:
    """By its name, as alone on its CPU, with the reason; the page follows a daemon that is killed and comes back."""
    with paged(running) as link, opened(browser, link) as page:
        id = workloads.create("voice", "sleep", "600", labels={"cpuset.exclusive": "1"})
        workloads.api.act(id, "start")
        began = time.monotonic()
        told(page, lambda text: "voice" in text)
        assert time.monotonic() - began < APPEARS_SECONDS * PATIENCE
        told(page, lambda text: "settled, alone" in text)
        assert "exclusive, of " in page.locator(f"#machine [data-cpu='{LAST}']").get_attribute("aria-label")
        page.locator("#tenants-body .name button", has_text="voice").click()
        eventually(lambda: f"was granted {LAST}" in page.inner_text("tr.detail"))

        running.kill()
        eventually(lambda: "cannot be reached since" in page.inner_text("#banner"), 30 * PATIENCE)
        assert "voice" in page.inner_text("#tenants-body")
        running.start()
        eventually(lambda: page.locator("body.is-live").count() == 1, 30 * PATIENCE)

        workloads.api.remove(id)
        told(page, lambda text: "voice" not in text)


def test_a_daemon_that_is_frozen_is_unvouched(browser: Any, running: SidecarProcess, workloads: Containers) -> None:
    """Fifteen seconds after its last word; and no more once it goes on."""
    workloads.run("web")
    with paged(running) as link, opened(browser, link) as page:
        told(page, lambda text: "web" in text)
        running.freeze()
        try:
            eventually(lambda: page.locator("body.is-unvouched").count() == 1, 40 * PATIENCE)
        finally:
            running.thaw()
        eventually(lambda: page.locator("body.is-live").count() == 1, 40 * PATIENCE)
