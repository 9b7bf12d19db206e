"""The page in a real Chromium, before whole daemons on simulated machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.page.browser import Simulated, busy_hour, eventually, opened, picture

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page"), pytest.mark.timeout(180)]

Make = Callable[..., Simulated]

IMG = "<img src=x onerror=document.title='owned'>"
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}


def shop(host: Simulated, **labels: str) -> dict[str, str]:
    """Fill a machine of 96 CPUs; return ids by name."""
    sizes = {"voice": 4, "db-1": 8, "db-2": 8, "edge": 12, "game": 6, "audio": 2, "bench": 16}
    made = {
        name: host.run(name, cpus, com_docker_compose_project="shop" if name[0] in "de" else "lab", **labels)
        for name, cpus in sizes.items()
    }
    made |= {f"web-{n}": host.run(f"web-{n}", com_docker_compose_project="shop") for n in range(1, 5)}
    return made


def cell(page: Any, cpu: int) -> str:
    """Return what a CPU is called, without its mark."""
    told: str = page.locator(f"#machine [data-cpu='{cpu}']").get_attribute("aria-label")
    return told.partition(";")[0]


def names(page: Any) -> list[str]:
    """Return the names in the table, in their order."""
    found: list[str] = page.locator("#tenants-body .name button").all_text_contents()
    return found


def test_two_cpus(browser: Any, simulated: Make) -> None:
    """The smallest machine: one CPU is reserved, the other has its owner; it comes, is seen, and goes again."""
    host = simulated(1, 1, 2, 1, linger_seconds="1")
    with opened(browser, host.link) as page:
        assert page.locator("#machine .cpu").count() == 2
        voice = host.run("voice", 1)
        eventually(lambda: cell(page, 1) == "CPU 1: exclusive, of voice")
        assert cell(page, 0) == "CPU 0: reserved"
        host.run("web")
        eventually(lambda: names(page) == ["voice", "web"])
        eventually(lambda: "settled, alone" in page.inner_text("#tenants-body"))
        picture(page, "two-cpus")
        host.do("stop", voice)
        host.do("remove", voice)
        eventually(lambda: cell(page, 1) == "CPU 1: shared" and names(page) == ["web"])


def test_ninety_six_cpus(browser: Any, simulated: Make) -> None:
    """Sockets and nodes as they are; a CPU explains itself; a row opens; a plan is an outline; nothing is lost on the
    way from the daemon to the table.
    """
    host = simulated(2, 2, 12, 2, past=busy_hour(1, 40))
    made = shop(host)
    with opened(browser, host.link) as page:
        eventually(lambda: page.inner_text("#tenants-body").count("settled, alone") == 7)
        eventually(lambda: len(names(page)) == 11)
        assert page.locator("#machine .socket").count() == 2
        assert page.locator("#machine .node h4").all_text_contents() == ["node 0", "node 1", "node 2", "node 3"]
        assert page.locator("#machine .core").count() == 48
        picture(page, "96-cpus")

        owned = page.locator("#machine .owned").first
        owned.hover()
        eventually(lambda: "It is granted to voice" in page.inner_text("#tip"))
        assert "since " in page.inner_text("#tip")
        picture(page, "a-cpu", full=False)

        page.fill("#plan-cpus", "10")
        page.press("#plan-cpus", "Enter")
        eventually(lambda: page.inner_text("#plan-answer").startswith("CPUs "))
        eventually(lambda: page.locator("#machine .planned").count() == 10)
        picture(page, "plan")
        page.fill("#plan-cpus", "90")
        page.click("#plan button[type=submit]")
        eventually(lambda: "Refused: " in page.inner_text("#plan-answer"))
        eventually(lambda: page.locator("#machine .planned").count() == 0)

        page.click("#tenants-body button:text-is('db-1')")
        eventually(lambda: "It reads, in its status.json" in page.inner_text("tr.detail"))
        told = page.inner_text("tr.detail")
        assert f"cpuset-sidecar explain {made['db-1'][:12]}" in told
        assert "8 exclusive CPUs" in told or "granted" in told
        picture(page, "a-container")


def test_what_is_no_question_gets_no_answer_to_another_one(browser: Any, simulated: Make) -> None:
    """An answer goes as soon as something else is asked; what is no number of CPUs or no label is told in words for
    people, and so is a daemon that cannot be reached, here and in a row that opens.
    """
    host = simulated(1, 1, 8, 1)
    host.run("voice", 1)
    with opened(browser, host.link) as page:
        eventually(lambda: names(page) == ["voice"])
        for wrong in ("0", "-1", "1.5", "1e9", ""):
            page.fill("#plan-cpus", "2")
            page.press("#plan-cpus", "Enter")
            eventually(lambda: page.inner_text("#plan-answer").startswith("CPUs "))
            page.fill("#plan-cpus", wrong)
            assert page.inner_text("#plan-answer") == ""
            page.press("#plan-cpus", "Enter")
            assert page.inner_text("#plan-answer") == "A whole number of CPUs is asked for, from 1 to 8191."
            assert page.locator("#machine .planned").count() == 0
        page.fill("#plan-cpus", "1e3")
        page.press("#plan-cpus", "Enter")
        eventually(lambda: page.inner_text("#plan-answer").startswith("Refused: "))
        page.fill("#plan-labels", "near=eth0")
        page.press("#plan-cpus", "Enter")
        eventually(lambda: page.inner_text("#plan-answer").startswith("near=eth0 is not understood: a label is"))
        host.do("daemon", "down")
        eventually(lambda: "cannot be reached since" in page.inner_text("#banner"))
        page.press("#plan-cpus", "Enter")
        eventually(lambda: page.inner_text("#plan-answer") == "The daemon cannot be reached, or does not answer.")
        page.click("#tenants-body button:text-is('voice')")
        eventually(lambda: "The daemon cannot be reached" in page.inner_text("tr.detail"))
        assert "Failed to fetch" not in page.inner_text("body")


def test_the_table_is_sorted_and_filtered(browser: Any, simulated: Make) -> None:
    """By any column, by text, kind and project; and by the number of a CPU."""
    host = simulated(1, 2, 32, 1)
    shop(host)
    with opened(browser, host.link) as page:
        eventually(lambda: len(names(page)) == 11)
        page.click("#tenants-head [data-key=size] button")
        page.click("#tenants-head [data-key=size] button")
        eventually(lambda: names(page)[0] == "bench")
        assert page.get_attribute("#tenants-head [data-key=size]", "aria-sort") == "descending"
        page.fill("#filter-text", "db")
        eventually(lambda: sorted(names(page)) == ["db-1", "db-2"])
        page.fill("#filter-text", "1")
        eventually(lambda: "voice" in names(page))
        page.fill("#filter-text", "")
        page.select_option("#filter-kind", "shared")
        eventually(lambda: names(page) == ["web-1", "web-2", "web-3", "web-4"])
        page.select_option("#filter-kind", "")
        page.select_option("#filter-project", "lab")
        eventually(lambda: sorted(names(page)) == ["audio", "bench", "game", "voice"])


def test_dark_and_a_phone(browser: Any, simulated: Make) -> None:
    """By the system's wish; on a phone nothing is wider than it."""
    host = simulated(2, 2, 12, 2, past=busy_hour(1, 40))
    shop(host)
    with opened(browser, host.link, color_scheme="dark") as page:
        eventually(lambda: page.inner_text("#tenants-body").count("settled, alone") == 7)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 21, 23)"
        picture(page, "dark")
    with opened(browser, host.link, **PHONE) as page:
        eventually(lambda: page.inner_text("#tenants-body").count("settled, alone") == 7)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        picture(page, "phone")


def test_a_daemon_that_is_gone_and_comes_back(browser: Any, simulated: Make) -> None:
    """The page says since when, keeps what it was told, and goes on by itself; the hour before is still there."""
    host = simulated(1, 2, 8, 2, past=busy_hour(4, 13))
    host.run("voice", 4)
    with opened(browser, host.link) as page:
        eventually(lambda: names(page) == ["voice"])
        host.do("daemon", "down")
        eventually(lambda: "cannot be reached since" in page.inner_text("#banner"))
        assert names(page) == ["voice"]
        picture(page, "gone")
        host.do("daemon", "up")
        eventually(lambda: page.locator("body.is-live").count() == 1, 30)
        assert not page.is_visible("#banner")
        page.click("#changes-summary")
        eventually(lambda: page.inner_text("#changes-body").count("the daemon started") == 2)
        assert "it was removed" in page.inner_text("#changes-body")
        assert "granted" in page.inner_text("#changes-body")


def test_what_a_daemon_that_is_gone_has_said_is_told_as_what_was(browser: Any, simulated: Make) -> None:
    """Of the time after its last word nothing is claimed: no clause in the present, no bar and no axis that go on, in
    the page and in a picture that is saved then. A name is no verb. Once it is back, all is in the present again.
    """
    host = simulated(1, 2, 8, 2)
    host.run("takes", 4)
    with opened(browser, host.link) as page:
        eventually(lambda: "settled, alone" in page.inner_text("#tenants-body"))
        page.click("#tenants-body button:text-is('takes')")
        eventually(lambda: "It reads, in its status.json" in page.inner_text("tr.detail"))
        page.locator("#time-heading").scroll_into_view_if_needed()
        eventually(lambda: page.inner_text("#span").endswith(" to now"))
        host.do("daemon", "down")
        eventually(lambda: "cannot be reached since" in page.inner_text("#banner"))
        eventually(lambda: page.inner_text("#span").endswith(", the last that the daemon vouched for"))
        assert "was settled, alone" in page.inner_text("#tenants-body")
        assert cell(page, 1) == "CPU 1: was exclusive, of takes"
        told = page.inner_text("tr.detail")
        assert "This is what the daemon last said, at " in told
        assert "It ran on " in told
        assert " were free to grant" in page.inner_text("#summary")
        for present in ("It is ", "It runs on", "runs on\n", "It reads", "holds ", "now: ", " uses "):
            assert present not in told
        axis, bars = page.inner_text("#span"), page.locator("#time rect title").all_text_contents()
        assert not any("to now" in each for each in bars)
        page.wait_for_timeout(2500)
        assert page.inner_text("#span") == axis
        assert page.locator("#time rect title").all_text_contents() == bars
        with page.expect_download() as saving:
            page.click("#save")
        text = saving.value.path().read_text()
        assert "to now" not in text
        assert f"{axis.split(' to ')[1]}</text>" in text
        host.do("daemon", "up")
        eventually(lambda: page.inner_text("#span").endswith(" to now"), 30)
        eventually(lambda: "was " not in page.inner_text("#tenants-body .row"), 30)


def test_tabs_that_nobody_sees_leave_their_connections_to_others(browser: Any, simulated: Make) -> None:
    """A browser opens six connections to a host: tabs that are hidden rest, and the next one opens all the same. One
    that is looked at again knows what came meanwhile.
    """
    host = simulated(1, 1, 8, 1)
    host.run("voice", 2)
    context = browser.new_context()
    try:
        hidden = []
        for _ in range(5):
            page = context.new_page()
            page.goto(host.link)
            page.wait_for_selector("body.is-live #machine button")
            show(page, hidden=True)
            hidden.append(page)
        for page in hidden:
            page.wait_for_selector("body.is-connecting")
        for _ in range(5):
            page = context.new_page()
            page.goto(host.link, timeout=10_000)
            page.wait_for_selector("body.is-live #machine button", timeout=10_000)
        host.run("db", 1)
        assert names(hidden[0]) == ["voice"]
        page.close()
        show(hidden[0], hidden=False)
        eventually(lambda: names(hidden[0]) == ["db", "voice"])
        hidden[0].wait_for_selector("body.is-live")
    finally:
        context.close()


def show(page: Any, *, hidden: bool) -> None:
    """Have a page believe that nobody, or somebody, sees it: a browser without a screen shows all of its tabs."""
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_an_engine_that_is_gone_is_unvouched(browser: Any, simulated: Make) -> None:
    """The daemon answers, and vouches for nothing: the page says so, and takes it back."""
    host = simulated(1, 1, 8, 1)
    host.run("voice", 2)
    with opened(browser, host.link) as page:
        eventually(lambda: names(page) == ["voice"])
        host.do("engine", "down")
        eventually(lambda: page.locator("body.is-unvouched").count() == 1, 40)
        assert "vouches for nothing" in page.inner_text("#banner")
        picture(page, "unvouched")
        host.do("engine", "up")
        eventually(lambda: page.locator("body.is-live").count() == 1, 40)


def test_cpus_that_are_leaving_are_hatched_and_count_down(browser: Any, simulated: Make) -> None:
    """Under the policy dynamic: who has to leave, whom they go to, and how long that may take."""
    host = simulated(1, 2, 8, 2, policy="dynamic", past=busy_hour(2, 16))
    host.run("batch", 2, cpuset_max="24", cpuset_grace="20s")
    with opened(browser, host.link) as page:
        eventually(lambda: page.locator("#machine .owned").count() >= 20)
        host.run("voice", 10)
        eventually(lambda: page.locator("#machine .leaving").count() >= 2)
        assert "leaving batch" in page.locator("#machine .leaving").first.get_attribute("aria-label")
        assert "s left" in page.inner_text("#tenants-body")
        picture(page, "leaving")


def test_a_thousand_cpus_are_one_screen(browser: Any, simulated: Make) -> None:
    """Runs of alike cores are folded; unfolded again, each CPU is there. With 400 containers, too."""
    host = simulated(8, 1, 64, 2)
    for n in range(6):
        host.run(f"big-{n}", 16)
    with opened(browser, host.link) as page:
        eventually(lambda: len(names(page)) == 6)
        box = page.locator("#machine").bounding_box()
        assert box["y"] + box["height"] < 800
        picture(page, "1024-cpus")
        page.click("#fold")
        eventually(lambda: page.locator("#machine .cpu").count() == 1024)
        host.do("crowd", 380, {"cpuset.exclusive": "2"})
        host.do("crowd", 14, {})
        eventually(lambda: len(names(page)) == 400, 90)
        page.click("#fold")
        box = page.locator("#machine").bounding_box()
        assert box["y"] + box["height"] < 800
        picture(page, "400-containers", full=False)
        page.evaluate("document.querySelector('#time-heading').scrollIntoView()")
        picture(page, "400-containers-time", full=False)


def test_the_time_line_is_there_where_nobody_scrolled_to_it(browser: Any, simulated: Make) -> None:
    """For a picture of the whole page, and, with all that has changed, on paper."""
    host = simulated(2, 2, 12, 2, past=busy_hour(1, 40))
    shop(host)
    with opened(browser, host.link, viewport={"width": 1000, "height": 300}) as page:
        eventually(lambda: len(names(page)) == 11)
        eventually(lambda: page.locator("#time svg").count() == 1)
        eventually(lambda: "bench: CPUs" in "".join(page.locator("#time rect title").all_text_contents()))
        host.run("late", 2)
        eventually(lambda: "late" in names(page))
        page.pdf()
        assert "late: CPUs" in "".join(page.locator("#time rect title").all_text_contents())
        assert page.evaluate("scrollY") == 0


def test_the_time_line_is_saved_as_a_picture(browser: Any, simulated: Make) -> None:
    """An SVG that stands alone, with what is seen: names, CPUs, times."""
    host = simulated(1, 2, 8, 2, linger_seconds="0.1")
    voice = host.run("voice", 4)
    host.run(IMG, 2)
    with opened(browser, host.link) as page:
        eventually(lambda: len(names(page)) == 2)
        host.do("stop", voice)
        eventually(lambda: page.locator("#machine .owned").count() == 2)
        host.do("start", voice)
        eventually(lambda: page.locator("#machine .owned").count() == 6)
        page.click("#zoom-in")
        with page.expect_download() as saving:
            page.click("#save")
        text = saving.value.path().read_text()
        assert text.startswith("<svg xmlns=")
        assert "Who had which CPUs" in text
        assert "<title>voice: CPUs 1-2,17-18" in text
        assert "<img" not in text
        assert "var(--" not in text
