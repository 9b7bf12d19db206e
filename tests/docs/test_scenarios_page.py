"""The page on scenarios matches the reader and the output of the simulation, completely."""

from __future__ import annotations

import re

import pytest

from sidecar.config.keys import KEYS
from sidecar.simulation.busy_host import Pace, ScenarioError
from sidecar.simulation.happenings import Happening, What
from sidecar.simulation.scenario import Do
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
