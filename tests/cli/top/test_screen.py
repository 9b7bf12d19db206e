"""The screen of `top` at any size: what stands on it, and that nothing is wider or longer than it."""

from __future__ import annotations

import re
from datetime import timedelta
from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.cli.machine_drawing import coloured, plain
from sidecar.cli.status_choice import Choice
from sidecar.cli.top.cell_text import COLOUR, cells_of, uncoloured
from sidecar.cli.top.input_events import KeyPress, Mouse
from sidecar.cli.top.measurement import Measurement
from sidecar.cli.top.screen import LEAST_HEIGHT, LEAST_WIDTH, Look, Screen, Seen, drawn, is_still, still_of
from sidecar.cli.top.tenant_table import tenant_rows
from sidecar.cli.top.time_lines import ASCII_BARS, BARS
from sidecar.cli.top.view import Panel, View, after
from sidecar.status.document import LeavingStatus
from sidecar.status.sight import GONE
from state.cpuset import CPUSet
from tests.cli.top.statuses import HOSTILE, documents, owner, plain_one, seen

HOST = seen(
    owner("voice", "1-2", 1),
    owner("batch", "3", 2),
    *(plain_one(f"web-{number}", 100 + number) for number in range(40)),
)


def look(width: int, height: int) -> Look:
    return Look(width=width, height=height, paint=plain, bars=BARS)


def text_of(screen: Screen) -> str:
    return "\n".join(uncoloured(line).rstrip() for line in screen.lines)


views = st.builds(
    View,
    panel=st.sampled_from(Panel),
    marked=st.sampled_from(["", f"{1:064x}"]),
    at=st.integers(0, 40),
    first=st.integers(0, 40),
    top=st.integers(0, 90),
    sort=st.sampled_from(["", "NAME", "KIND", "CPUS", "SIZE", "USE", "STATE", "gone"]),
    is_reversed=st.booleans(),
    wanted=st.sampled_from(["", "web", "خ", "\x1b", "%"]),
    is_typing=st.booleans(),
    is_paused=st.booleans(),
    only_owners=st.booleans(),
)
sizes = st.tuples(st.integers(0, 260), st.integers(0, 80))


@given(
    document=documents,
    view=views,
    size=sizes,
    paint=st.sampled_from([plain, coloured]),
    bars=st.sampled_from([BARS, ASCII_BARS]),
)
def test_no_line_is_wider_and_no_screen_longer_than_the_terminal(
    document: Seen, view: View, size: tuple[int, int], paint: object, bars: str
) -> None:
    """Whatever the names, the machine, the view and the size; and nothing that others wrote drives the terminal."""
    screen = drawn(document, view, Look(width=size[0], height=size[1], paint=paint, bars=bars))  # type: ignore[arg-type]
    assert len(screen.lines) <= size[1]
    for line in screen.lines:
        assert cells_of(line) <= size[0]
        assert COLOUR.sub("", line).isprintable()


@given(document=documents, size=sizes, keys=st.lists(st.sampled_from("jkgGsro/m?pd \r\x1bx"), max_size=12))
def test_any_keys_lead_to_a_view_that_can_be_shown(document: Seen, size: tuple[int, int], keys: list[str]) -> None:
    """The mark is a row that there is, and is seen."""
    view, names = View(), {"\r": "enter", "\x1b": "escape"}
    for key in keys:
        view = after(view, KeyPress(names.get(key, key)), drawn(document, view, look(*size)).layout)
    layout = drawn(document, view, look(*size)).layout
    if view.panel is Panel.TABLE and layout.ids and view.marked in layout.ids:
        assert layout.first <= layout.ids.index(view.marked) < layout.first + layout.page


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (132, 43), (250, 70)])
def test_each_size_has_the_machine_the_table_and_the_marked_one(size: tuple[int, int]) -> None:
    """As much of each as there is room for; the keys are the last line."""
    screen = drawn(HOST, View(marked=f"{2:064x}"), look(*size))
    text = text_of(screen)
    assert len(screen.lines) == size[1]
    assert "socket 0" in text
    assert re.search(r"^ A voice +.*settled, alone", text, re.MULTILINE)
    assert re.search(r"^>B batch", text, re.MULTILINE)
    assert "It asked for CPUs and was granted 3." in text
    assert re.search("last hour +▁*█+ 1 CPU at most", text)
    assert "q end  ? help" in screen.lines[-1]


@pytest.mark.parametrize("size", [(LEAST_WIDTH - 1, 24), (80, LEAST_HEIGHT - 1), (7, 2), (1, 1)])
def test_a_screen_that_is_too_small_says_so(size: tuple[int, int]) -> None:
    """And which key ends it."""
    screen = drawn(HOST, View(), look(*size))
    said = f"{size[0]}x{size[1]} is too small: top needs {LEAST_WIDTH}x{LEAST_HEIGHT}; q ends it"
    assert "".join("".join(screen.lines).split()) in "".join(said.split())
    assert screen.lines


@pytest.mark.parametrize("name", [name for name in HOSTILE if name])
def test_a_hostile_name_is_text(name: str) -> None:
    """In the table, the title and the hints: escaped where it is not printable, and cut where it is long."""
    document = seen(owner(name, "1", 1), owner("below", "2", 2))
    lines = drawn(document, View(wanted=name[:3]), look(100, 30)).lines
    marked = next(line for line in lines if uncoloured(line).startswith(">A"))
    assert cells_of(marked) == 100
    assert all(uncoloured(line).isprintable() for line in lines)


def test_a_thousand_cpus_are_folded() -> None:
    """A character for each core, in a third of the screen; the whole map is a key away."""
    document = seen(owner("voice", "1-700", 1), cores=1024)
    folded = drawn(document, View(), look(80, 24))
    assert "m shows the whole map" in text_of(folded)
    whole = drawn(document, View(panel=Panel.MAP), look(80, 24))
    assert "the machine, lines 1-22 of" in text_of(whole)


def test_what_is_wrong_is_said_above_the_table() -> None:
    """In whole sentences while there is room, and counted where there is none."""
    document = seen(plain_one("odd", 1, refusal="asked for 99"), plain_one("bad", 2, refusal="asked for 98"))
    assert "problem: bad: refused: asked for 98" in text_of(drawn(document, View(), look(100, 30)))
    assert "2 problems: problem: odd" in text_of(drawn(document, View(), look(80, 12)))


def test_a_filter_that_leaves_nothing_says_so() -> None:
    """And how to get out of it."""
    text = text_of(drawn(HOST, View(wanted="nowhere"), look(100, 30)))
    assert "nothing has 'nowhere' in its name, id, project, kind or state: Escape clears the filter" in text
    assert "filter nowhere (Escape clears)" in text


def test_a_measurement_is_shown_while_it_goes_on_and_when_it_is_over() -> None:
    """How long it takes, then what was printed; without one, how to make one."""
    view = View(panel=Panel.DISTURBED)
    assert "press d" in text_of(drawn(HOST, view, look(100, 30)))
    going = seen(measurement=Measurement(name="voice", seconds=5, passed=2))
    assert "CPUs of voice: 3 of 5 s left" in text_of(drawn(going, view, look(100, 30)))
    over = seen(measurement=Measurement(name="voice", seconds=5, passed=5, printed="kworker 3 times\n", code=0))
    assert "kworker 3 times" in text_of(drawn(over, view, look(100, 30)))


def test_a_press_of_the_mouse_marks_the_row_below_it() -> None:
    """And on a head it sorts."""
    screen = drawn(HOST, View(), look(100, 30))
    row = next(number for number, line in enumerate(screen.lines) if uncoloured(line).startswith(" B batch"))
    assert after(View(), Mouse("press", 8, row), screen.layout).marked == f"{2:064x}"
    assert after(View(), Mouse("press", 8, screen.layout.table_line), screen.layout).sort == "NAME"
    assert after(View(), Mouse("press", 8, 0), screen.layout) == View()


def test_the_screen_shows_what_the_command_line_chose() -> None:
    """It says so all the time, and also where nothing is of the choice; the filter knows projects as well."""
    known = seen(owner("web", "1-2", 1, project="shop"), owner("db", "3", 2), plain_one("log", 3, project="shop"))
    shop = View(choice=Choice(project="shop"))
    text = text_of(drawn(known, shop, look(120, 30)))
    assert "only what is of the project 'shop'; the daemon is running" in text
    assert names_in(known, shop) == ["web", "log"]
    assert names_in(known, View(wanted="shop")) == ["web", "log"]
    assert names_in(known, View(choice=Choice(cpus=CPUSet.parse("3")))) == ["db"]
    nothing = text_of(drawn(known, View(choice=Choice(project="none")), look(120, 30)))
    assert "nothing is of the project 'none' --" in nothing
    assert "Escape" not in nothing


def names_in(known: Seen, view: View) -> list[str]:
    return [row.tenant.name for row in tenant_rows(known.status, view, known.now, known.sight)]


TAKEN = LeavingStatus(cpus=CPUSet.of(2), number=1, reason="another needs it", notice_seconds=9)
UNTIL = msgspec.structs.replace(TAKEN, until=(HOST.now + timedelta(seconds=9)).isoformat())
TIMES: tuple[Seen, ...] = (
    HOST,
    msgspec.structs.replace(HOST, sight=GONE),
    msgspec.structs.replace(HOST, history=None, history_flaw="it is not readable"),
    seen(owner("voice", "1-2", 1, leaving=UNTIL), plain_one("web", 3, trouble="it fails")),
    seen(owner("voice", "1-3", 1), plain_one("web", 3, project="shop")),
)
VIEWS: tuple[View, ...] = (
    View(),
    View(marked=f"{2:064x}", at=1, is_paused=True),
    View(sort="NAME", is_reversed=True),
    View(wanted="web", panel=Panel.DETAILS),
    View(only_owners=True),
    View(choice=Choice(project="shop")),
)


@pytest.mark.parametrize("size", [(80, 24), (132, 43), (250, 70), (30, 8)])
def test_what_stays_is_not_drawn_anew_and_the_screen_is_the_same(size: tuple[int, int]) -> None:
    """Whatever changes: the time, the mark, the filter, the document. Wherever the part that stays is said to hold, the
    screen is that which is drawn anew.
    """
    held = 0
    for was, now, viewed, view in product(TIMES, TIMES, VIEWS, VIEWS):
        then = msgspec.structs.replace(now, now=now.now + timedelta(seconds=5))
        if is_still((was, viewed, look(*size)), then, view, look(*size)):
            held += 1
            assert drawn(then, view, look(*size), still_of(was, viewed, look(*size))) == drawn(then, view, look(*size))
    assert held >= len(VIEWS)


def test_the_time_and_the_mark_leave_most_of_it_as_it_is() -> None:
    """Another order, another filter, another size, and a take that counts down do not."""
    before = (HOST, View(marked="x", at=3), look(132, 43))
    then = msgspec.structs.replace(HOST, now=HOST.now + timedelta(seconds=9))
    assert is_still(before, then, View(panel=Panel.MAP, top=4, is_paused=True), look(132, 43))
    assert not is_still(before, then, View(sort="NAME"), look(132, 43))
    assert not is_still(before, then, View(wanted="web"), look(132, 43))
    assert not is_still(before, then, View(only_owners=True), look(132, 43))
    assert not is_still(before, then, View(choice=Choice(project="x")), look(132, 43))
    assert not is_still(before, then, View(), look(131, 43))
    assert not is_still(before, msgspec.structs.replace(then, history=None), View(), look(132, 43))
    assert not is_still(before, msgspec.structs.replace(then, sight=GONE), View(), look(132, 43))
    assert not is_still((TIMES[3], View(), look(132, 43)), TIMES[3], View(), look(132, 43))


def test_a_small_screen_has_a_state_and_the_marked_one() -> None:
    """Long names are cut before the state says nothing, and what few rows leave is the marked one's."""
    name = "project-of-somebody-voice-1"
    document = seen(owner(name, "1", 1), plain_one("project-of-somebody-web-1", 2, cpus=CPUSet.of(0)))
    text = text_of(drawn(document, View(), look(40, 12)))
    assert re.search(r"^>A project-of-\S* +1 +settled, alone$", text, re.MULTILINE)
    assert f"--- {name}" in text
    assert "q end" in text
    alone = text_of(drawn(seen(owner("db", "1", 1)), View(), look(40, 12)))
    assert re.search(r"^>A db .* settled, alone$", alone, re.MULTILINE)
