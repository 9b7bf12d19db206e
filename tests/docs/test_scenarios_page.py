"""The page on scenarios matches the reader and the output of the simulation, completely."""

from __future__ import annotations

import re

import pytest

from sidecar.config.keys import KEYS
from sidecar.simulation.busy_host import Pace, ScenarioError
from sidecar.simulation.happenings import Happening, What
from sidecar.simulation.scenario import Do, simulation_of
from sidecar.simulation.scenario_file import scenario_of
from sidecar.simulation.settings_sections import AT_START, OTHER_KEYS
from sidecar.simulation.toml_sections import seconds
from tests.docs.pages import ROOT, names, rows, section

PAGE = ROOT / "docs" / "reference" / "scenarios.md"
CONTAINER = '[[container]]\nname = "a"\n'


def table(heading: str) -> list[list[str]]:
    return rows(section(PAGE, heading))


def first_column(heading: str) -> list[str]:
    return [name for row in table(heading) for name in names(row[0])]


def keys_that_are_read(before: str) -> list[str]:
    """Return the keys that the reader lists when asked for an unknown one. It lists all or the nearest."""
    with pytest.raises(ScenarioError) as caught:
        scenario_of(f"{before}\nzzzzzzzz = 1\n")
    match = re.search(r"unknown key 'zzzzzzzz': the keys are (.*)$", str(caught.value))
    assert match, caught.value
    return match[1].split(", ")


@pytest.mark.parametrize(
    ("heading", "before"),
    [("The file", ""), ("machine", "[machine]"), ("pace", "[pace]"), ("container", CONTAINER)],
)
def test_every_key_of_a_section_is_documented_and_no_other(heading: str, before: str) -> None:
    assert sorted(first_column(heading)) == sorted(keys_that_are_read(before))


def test_every_key_of_an_event_is_documented_and_no_other() -> None:
    """The keys that some verb takes."""
    taken: set[str] = set()
    for verb, more in (
        ("resize", 'container = "a"\ncpus = 4'),
        ("offline", 'cpus = "3"'),
        ("run", 'container = "a"'),
        ("reload", 'settings = { linger = "1s" }'),
        ("crash", ""),
    ):
        taken |= set(keys_that_are_read(f'{CONTAINER}[[event]]\nat = "1s"\ndo = "{verb}"\n{more}'))
    assert set(first_column("event")) == taken


def test_every_verb_is_documented_and_no_other() -> None:
    assert first_column("What can happen") == [each.value for each in Do]


def test_every_pace_has_its_default() -> None:
    found = {names(row[0])[0]: seconds(names(row[1])[0]) for row in table("pace")}
    assert found == {name: getattr(Pace(), name) for name in Pace.__struct_fields__}


def test_every_key_of_the_configuration_that_means_nothing_is_named() -> None:
    named = tuple(names(section(PAGE, "settings")))[2:]
    assert named[: len(OTHER_KEYS)] == OTHER_KEYS


def test_the_keys_that_a_reload_changes_are_those_that_the_guide_names() -> None:
    """All others take effect only after a restart, or mean nothing here."""
    guide = section(ROOT / "docs" / "how-to" / "upgrade-and-change-policy.md", "Change policy, options, reservation")
    at_once = guide.partition("These keys change at once:")[2].partition("The other keys")[0]
    assert {*names(at_once), *AT_START, *OTHER_KEYS} == set(KEYS)
    assert not set(names(at_once)) & {*AT_START, *OTHER_KEYS}


def test_every_field_and_word_that_is_printed_is_documented() -> None:
    """The first table has the fields, the second the words."""
    printed = first_column("What is printed")
    fields = list(Happening.__struct_fields__)
    assert printed[: len(fields)] == fields
    assert printed[len(fields) :] == [each.value for each in What]


def test_in_place_says_what_is_meant_beside_an_unmanaged_container() -> None:
    """Settled, and not alone: one that is kept out may run on the same CPUs."""
    runs = "".join(f'[[event]]\nat = "{at}s"\ndo = "run"\ncontainer = "{name}"\n' for at, name in ((1, "a"), (2, "b")))
    out = 'labels = { "cpuset.manage" = "off" }\n[[container]]\nname = "b"\nlabels = { "cpuset.exclusive" = "2" }\n'
    settings = '[settings]\npolicy = "dynamic"\nreserved = "0"\ntenants_may = ["opt-out"]\n'
    simulation = simulation_of(scenario_of(f"[machine]\ncores = 4\n{settings}{CONTAINER}{out}{runs}"))
    simulation.advance(10)
    [said] = [each for each in simulation.log if each.what == What.IN_PLACE]
    assert said.cpus <= simulation.cpus_of("a")
    [row] = [row for row in table("What is printed") if What.IN_PLACE in names(row[0])]
    assert "settled" in row[1]
    assert "not alone" in row[1]


def test_the_page_says_that_no_hand_answers_births() -> None:
    """Or `started` over an owner's CPUs would be taken for a broken promise."""
    assert "hand" in OTHER_KEYS
    model = section(PAGE, "What is a model")
    assert "no\n[hand](../how-to/the-kernel-first.md)" in model
    assert "`started 0-3`" in model
