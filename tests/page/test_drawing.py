"""What a frame of the page draws, and what it leaves as it was. Nothing is timed: it is the same on a slow machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.page.browser import Simulated, eventually, opened

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page"), pytest.mark.timeout(180)]

Make = Callable[..., Simulated]

_HELD_FRAMES = """(() => {
  const frames = [], told = EventTarget.prototype.addEventListener;
  window.requestAnimationFrame = (draw) => frames.push(draw);
  window.drawFrame = () => frames.splice(0).forEach((draw) => draw(performance.now()));
  window.documents = 0;
  EventSource.prototype.addEventListener = function (name, hear) {
    told.call(this, name, (event) => { hear(event); if (name === "status") window.documents += 1; });
  };
})()"""

_LAYERS = """() => [...document.querySelectorAll('#machine .core, #machine .cpu')].filter((each) => {
  const { position, overflowX, isolation } = getComputedStyle(each);
  return position !== 'static' || overflowX !== 'visible' || isolation !== 'auto';
}).map((each) => each.className)"""

_CELLS = "id => [...document.querySelector(`[data-test='${id}']`).cells].map((each) => each.isKept === true)"
_MARK_CELLS = """name => {
  const all = [...document.querySelectorAll('#tenants-body tr')];
  const row = all.find((each) => each.querySelector('button').textContent === name);
  row.dataset.test = name;
  for (const cell of row.cells) cell.isKept = true;
  row.querySelector('button').focus();
}"""


def test_the_first_frame_waits_for_no_machine(browser: Any, simulated: Make) -> None:
    """However early the daemon's answer is there: first the page, then what is in it."""
    host = simulated(1, 1, 4, 2)
    context = browser.new_context()
    context.add_init_script(_HELD_FRAMES)
    page = context.new_page()
    page.goto(host.link)
    eventually(lambda: page.evaluate("window.documents"))
    page.evaluate("window.drawFrame()")
    assert page.locator("#machine button").count() == 0
    assert page.inner_text("#live-text") == "live"
    eventually(lambda: page.evaluate("window.drawFrame()") or page.locator("#machine button").count() == 8)
    context.close()


def test_a_row_is_drawn_where_it_says_something_else(browser: Any, simulated: Make) -> None:
    """Its other cells stay the elements that they were, with the focus and whatever else somebody has there."""
    host = simulated(1, 1, 8, 2)
    voice = host.run("voice", 2)
    with opened(browser, host.link) as page:
        eventually(lambda: "settled, alone" in page.inner_text("#tenants-body"))
        page.evaluate(_MARK_CELLS, "voice")
        host.do("stop", voice)
        eventually(lambda: "keeps its CPUs" in page.inner_text("#tenants-body"))
        kept = page.evaluate(_CELLS, "voice")
        assert kept[:2] == [True, True]
        assert kept[-1] is False
        assert page.evaluate("document.activeElement.textContent") == "voice"


def test_a_cpu_is_no_layer_of_its_own(browser: Any, simulated: Make) -> None:
    """Whatever is positioned or clips its content is gone through with each frame, and there are a thousand of them.

    Those that are leaving are few, and have a bar in them.
    """
    host = simulated(1, 2, 8, 2, policy="dynamic")
    host.run("batch", 2, cpuset_max="24", cpuset_grace="20s")
    with opened(browser, host.link) as page:
        eventually(lambda: page.locator("#machine .owned").count() >= 20)
        assert page.evaluate(_LAYERS) == []
        host.run("voice", 10)
        eventually(lambda: page.locator("#machine .leaving").count() >= 2)
        assert all("leaving" in each for each in page.evaluate(_LAYERS))
