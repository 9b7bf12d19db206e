"""The picture of a history: what it shows of each container, and that it is repeatable."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from sidecar.log import printable
from sidecar.simulation.picture import picture
from sidecar.simulation.virtual_host import Simulation
from state.cpuset import CPUSet
from state.topology import uniform
from tests.simulation.hosts import host, runs

SVG = "{http://www.w3.org/2000/svg}"


def story(name: str = "batch") -> Simulation:
    """Return a history with an elastic container, and an arrival at 10 s that takes 4 of its 7 CPUs back, with 5 s of
    notice.
    """
    sim = host()
    runs(sim, name, 1, most=7, grace="5s")
    sim.at(10, lambda: runs(sim, "server", 4))
    sim.advance(30)
    return sim


def drawn(sim: Simulation, begins: float = 0.0, title: str = "A story") -> str:
    return picture(title, sim.machine, sim.frames, sim.log, 30.0, begins)


def rectangles(text: str, fill: str) -> list[tuple[float, float, float, float]]:
    """Return x, y, width and height of those with this fill, without the legend and the background."""
    found = []
    for each in ET.fromstring(text).iter(f"{SVG}rect"):
        if each.get("fill") == fill and each.get("width") not in ("12", "912") and each.get("x"):
            x, y, width, height = (float(each.attrib[key]) for key in ("x", "y", "width", "height"))
            found.append((x, y, width, height))
    return found


def test_what_leaves_is_hatched_for_as_long_as_its_notice_lasts() -> None:
    """Four CPUs of 14 pixels each, for 5 of 30 seconds, 800 pixels wide."""
    [(x, _, width, height)] = rectangles(drawn(story()), "url(#l0072b2)")
    assert height == 4 * 14
    assert abs(x - (96 + 10.001 / 30 * 800)) < 0.1
    assert abs(width - 5.01 / 30 * 800) < 0.1


def test_each_container_has_a_colour_and_the_reserved_cpu_its_own() -> None:
    text = drawn(story())
    assert rectangles(text, "#e69f00")
    assert rectangles(text, "#c4c4c4") == [(96.0, rectangles(text, "#c4c4c4")[0][1], 800.0, 14.0)]


def test_the_same_history_is_the_same_picture() -> None:
    assert drawn(story()) == drawn(story())


def test_a_part_of_a_history_can_be_drawn() -> None:
    """From 9 s on, the notice is wider."""
    [(_, _, width, _)] = rectangles(drawn(story(), begins=9.0), "url(#l0072b2)")
    assert abs(width - 5.01 / 21 * 800) < 0.1


def test_a_name_cannot_break_the_picture() -> None:
    """Foreign text is escaped."""
    text = drawn(story('<script>&"\x1b'))
    found = ET.fromstring(text)
    assert [each for each in found.iter() if each.tag.endswith("script")] == []
    assert "\x1b" not in text


def test_what_is_unprintable_is_written_out_in_names_and_in_the_title() -> None:
    """As the command prints it: an escape, a line end, a mark that turns the direction and one that is no XML."""
    hostile = "\u0645\x1b[31m\n\u202e\u200b\ufffe]]>"
    told = [each.text or "" for each in ET.fromstring(drawn(story(hostile), title=hostile)).iter()]
    assert told.count(printable(hostile)) == 3
    assert f"{printable(hostile)} arrives" in told


def test_a_large_machine_is_drawn_in_few_shapes() -> None:
    """Neighbours that are alike are one rectangle."""
    sim = host(machine=uniform(packages=2, cores=64, threads=2))
    runs(sim, "batch", 8, most=200)
    sim.advance(30)
    text = drawn(sim)
    assert len(re.findall("<rect", text)) < 40
    assert len(sim.cpus_of("batch") | CPUSet.of(0)) > 200
