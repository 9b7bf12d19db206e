"""Names and projects that others wrote: text on the page in a real Chromium, whatever is in it, and seen as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest

from sidecar.log import printable
from tests.page.browser import Simulated, eventually, opened, picture
from tests.page.test_page import IMG, names

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page"), pytest.mark.timeout(180)]

Make = Callable[..., Simulated]

ARABIC = "خادم‮ الصوت " * 16
HOSTILE = ("\u200b", "\u202eevil", "\x1b[31mred\x01", "two\nlines", "\U000e0001tag", "\xa0", "\u3164")
UNPRINTABLE = r"""() => {
  const texts = (each) => [...each.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data);
  const values = (each) => [...each.attributes].map((one) => one.value);
  const told = [...document.querySelectorAll("*")].flatMap((each) => [...texts(each), ...values(each)]);
  return told.filter((each) => /[\p{Cf}\p{Co}\p{Zl}\p{Zp}\p{DI}]|(?![\n\t])\p{Cc}|(?! )\p{Zs}/u.test(each));
}"""
"""All text and all attributes with what cannot be seen in them."""


def test_names_are_text(browser: Any, simulated: Make) -> None:
    """Markup, two hundred letters from right to left with a mark that turns them, and a project of the same kind."""
    host = simulated(1, 1, 8, 1)
    host.run(IMG, 2, com_docker_compose_project=IMG)
    host.run(ARABIC[:200], 2, com_docker_compose_project="<script>document.title='owned'</script>")
    with opened(browser, host.link) as page:
        eventually(lambda: len(names(page)) == 2)
        assert sorted(names(page)) == sorted([IMG, printable(ARABIC[:200])])
        for name in (IMG, printable(ARABIC[:200])):
            page.locator("#tenants-body .name button", has_text=name).click()
        eventually(lambda: page.locator("tr.detail dl").count() >= 2)
        page.locator("#machine .owned").first.hover()
        eventually(lambda: "granted" in page.inner_text("#tip"))
        assert page.locator("img").count() == 0
        assert page.title() == "cpuset-sidecar"
        box = page.locator("#tenants-body .name button").nth(0).bounding_box()
        assert box["width"] < 500
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        picture(page, "hostile-names")


def test_what_cannot_be_seen_is_written_out(browser: Any, simulated: Make) -> None:
    """Control characters, invisible ones and marks that turn the direction, in a name or a project: told as `status`
    and `top` tell them, in the table, of a CPU, in the time line, in the list of changes and in a saved picture, which
    is well-formed.
    """
    host = simulated(1, 1, 16, 1)
    for name in HOSTILE:
        host.run(name, 2, com_docker_compose_project=name)
    with opened(browser, host.link) as page:
        eventually(lambda: len(names(page)) == len(HOSTILE))
        assert sorted(names(page)) == sorted(map(printable, HOSTILE))
        assert set(map(printable, HOSTILE)) <= set(page.locator("#filter-project option").all_text_contents())
        for place in range(len(HOSTILE)):
            page.locator("#tenants-body .name button").nth(place).click(timeout=5000)
        eventually(lambda: page.locator("tr.detail dl").count() >= len(HOSTILE))
        page.click("#changes-summary")
        eventually(lambda: page.locator("#changes-body .who").count() == len(HOSTILE))
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(300)
        page.locator("#machine .owned").first.hover()
        eventually(lambda: "granted" in page.inner_text("#tip"))
        assert page.evaluate(UNPRINTABLE) == []
        with page.expect_download() as saving:
            page.click("#save")
        titles = [
            each.text for each in ElementTree.parse(saving.value.path()).iter("{http://www.w3.org/2000/svg}title")
        ]
        for name in HOSTILE:
            assert any(each.startswith(f"{printable(name)}: CPUs ") for each in titles if each)
