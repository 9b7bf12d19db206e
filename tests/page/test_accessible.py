"""The page for everybody: axe-core finds nothing serious, and the keyboard is enough."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from typing import Any

import pytest

from tests.page.browser import Simulated, busy_hour, eventually, opened
from tests.page.test_page import PHONE, names, shop

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page"), pytest.mark.timeout(180)]

Make = Callable[..., Simulated]

AXE = "4.14.1"
DIGEST = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
"""SHA-512 of its archive, in base64, as the registry tells it."""


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Provide axe-core, by npm from the registry that it is configured for. Skip where that has none."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm here, which fetches axe-core: make test on a machine that has one")
    folder = tmp_path_factory.mktemp("axe")
    fetched = subprocess.run([npm, "pack", f"axe-core@{AXE}"], cwd=folder, capture_output=True, timeout=90, check=False)
    if fetched.returncode:
        pytest.skip("npm cannot fetch axe-core here: make test on a machine with a registry")
    archive = folder / f"axe-core-{AXE}.tgz"
    assert base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() == DIGEST
    with tarfile.open(archive) as packed:
        member = packed.extractfile("package/axe.min.js")
        assert member
        return member.read().decode()


def serious(page: Any, axe: str) -> list[str]:
    """Return what axe finds serious or critical, with the elements."""
    # Through the debugger, as an extension would: the policy of the page forbids every other script.
    page.evaluate(axe + "; undefined")
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {[node['target'] for node in each['nodes']][:3]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def every_part(page: Any) -> None:
    """Open all that can be opened."""
    eventually(lambda: len(names(page)) == 11)
    page.locator("#tenants-body .name button").first.click()
    page.click("#changes-summary")
    page.fill("#plan-cpus", "90")
    page.press("#plan-cpus", "Enter")
    eventually(lambda: "Refused" in page.inner_text("#plan-answer"))
    eventually(lambda: page.locator("tr.detail dl").count() >= 2)


@pytest.mark.parametrize("options", [{}, {"color_scheme": "dark"}, PHONE], ids=["light", "dark", "phone"])
def test_axe_finds_nothing_serious(browser: Any, simulated: Make, axe: str, options: dict[str, Any]) -> None:
    """Contrast, names, roles, order: with every part of the page open, and while the daemon is gone."""
    host = simulated(2, 2, 12, 2, past=busy_hour(1, 40))
    shop(host)
    with opened(browser, host.link, **options) as page:
        every_part(page)
        assert serious(page, axe) == []
        host.do("daemon", "down")
        eventually(lambda: page.is_visible("#banner"))
        assert serious(page, axe) == []


def test_the_keyboard_is_enough(browser: Any, simulated: Make) -> None:
    """One stop for Tab in the machine, arrows from there; a container opens and closes; the time line zooms."""
    host = simulated(1, 2, 8, 2)
    host.run("voice", 4)
    with opened(browser, host.link) as page:
        eventually(lambda: names(page) == ["voice"])
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.dataset.cpu") == "0"
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "CPU 1: exclusive, of voice; A1"
        eventually(lambda: "It is granted to voice" in page.inner_text("#tip"))
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.dataset.cpu") == "9"
        page.keyboard.press("Escape")
        assert not page.is_visible("#tip")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        eventually(lambda: page.locator("tr.detail").count() == 1)
        button = page.locator("#tenants-body .name button")
        assert button.get_attribute("aria-expanded") == "true"
        button.focus()
        page.keyboard.press("Enter")
        eventually(lambda: page.locator("tr.detail").count() == 0)
        assert page.evaluate("document.activeElement.textContent") == "voice"
        before = page.inner_text("#span")
        page.focus("#time")
        page.keyboard.press("+")
        eventually(lambda: page.inner_text("#span") != before)


def test_changes_are_said(browser: Any, simulated: Make) -> None:
    """In a live region, as sentences."""
    host = simulated(1, 1, 8, 1)
    with opened(browser, host.link) as page:
        host.run("voice", 2)
        eventually(lambda: "granted, voice, 1-2" in page.text_content("#said"))
