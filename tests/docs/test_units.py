"""The units of the pages, as systemd judges them: alone, together, and beside an engine's unit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.decide.container.labels import read_labels
from sidecar.host.units.unit_labels import labels_of
from tests.docs.units import PAGES, UNIT, blocks, by_events, drop_ins, judged, slices, strict

ENGINE = {
    "docker.service": """\
[Unit]
Description=An engine, whose start brings the sidecar's with it
Wants=cpuset-sidecar.service
[Service]
Type=notify
ExecStart=/bin/true
"""
}
INSTALLED = Path("/usr/lib/systemd/system/docker.service")
KNOWN = {
    "run-on-a-host.md",
    "start-strictly.md",
    "security.md",
    "cgroup-v2-and-systemd.md",
    "confine-everybody-at-once.md",
    "give-a-service-cpus.md",
}
"""The pages with units. That of the shared slice has a quadlet's, beside what `install-slice` writes."""


def test_each_page_with_a_unit_is_known_here() -> None:
    """So that none is published unjudged."""
    assert {page.name for page in PAGES.glob("*.md") if blocks(page)} == KNOWN


@pytest.mark.parametrize("unit", [by_events, strict])
def test_the_units_of_the_pages_compose_with_an_engine_s(unit: Callable[[], str], tmp_path: Path) -> None:
    """Both start, in whichever order the page wants."""
    assert judged(tmp_path, {UNIT: unit(), **ENGINE}) == ""


@pytest.mark.parametrize("unit", [by_events, strict])
def test_all_files_of_the_pages_compose(unit: Callable[[], str], tmp_path: Path) -> None:
    """A reader may follow every page: the unit, all drop-ins, the slices."""
    assert judged(tmp_path, {UNIT: unit(), **drop_ins(), **slices(), **ENGINE}) == ""


@pytest.mark.parametrize("name", [*drop_ins(), *slices()])
def test_each_file_is_right_alone(name: str, tmp_path: Path) -> None:
    """A drop-in beside the unit that it is for, a slice by itself."""
    text = {**drop_ins(), **slices()}[name]
    assert judged(tmp_path, {name: text, **({UNIT: by_events()} if name.startswith(UNIT) else {})}) == ""


@pytest.mark.parametrize("unit", [by_events, strict])
def test_they_compose_with_the_engine_that_is_installed(unit: Callable[[], str], tmp_path: Path) -> None:
    """Its unit has an order of its own: after the network, its socket and containerd."""
    if not INSTALLED.exists():
        pytest.skip("there is no docker.service here: see `make vm-test`")
    assert judged(tmp_path, {UNIT: unit(), **drop_ins(), **slices(), "docker.service": INSTALLED.read_text()}) == ""


def test_both_orders_at_once_are_a_cycle(tmp_path: Path) -> None:
    """As with a drop-in instead of other lines: the page says that it is not enough, and what shows it."""
    both = by_events().replace("After=docker.service\n", "After=docker.service\nBefore=docker.service\n")
    assert "ordering cycle" in judged(tmp_path, {UNIT: both, **ENGINE})
    assert "ordering cycle" in (PAGES / "start-strictly.md").read_text()


@pytest.mark.parametrize("name", [UNIT, *drop_ins(), *slices()])
def test_a_mistake_in_any_of_them_is_seen(name: str, tmp_path: Path) -> None:
    """So that silence means something."""
    files = {UNIT: by_events(), **drop_ins(), **slices()}
    assert judged(tmp_path, {**files, name: files[name].replace("=", "Wrong=")}) != ""


def test_the_drop_in_of_a_service_asks_for_what_its_page_says() -> None:
    """And for nothing that is unknown."""
    labels = labels_of([drop_ins()[f"{UNIT}.d/cpus.conf"]])
    assert labels == {"cpuset.exclusive": "2", "cpuset.numa": "single"}
    assert read_labels(labels).mistakes == ()
