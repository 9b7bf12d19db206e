"""The reference matches the code: labels, keys, commands, fields, messages; all of them, and no others."""

from __future__ import annotations

import argparse
import ast
import re
from pathlib import Path

import msgspec
import pytest

from sidecar.__main__ import COMMANDS, parser
from sidecar.config.config import Config
from sidecar.config.keys import KEYS
from sidecar.decide.container.labels import LABELS, NAMES, Label, OnMistake
from sidecar.decide.engine_traits import EngineTraits
from sidecar.decide.facts import EngineInfo
from sidecar.decide.placement.options import NODE_OPTIONS
from sidecar.status.document import ContainerStatus, Status
from sidecar.status.machine_map import MachineMap
from state.mistakes import Flaw, OneOf
from state.model import Assignment, Originals, Refused, State
from state.projection import Projection
from state.refusal import Refusal, RefusalCode
from tests.docs.pages import PAGES, ROOT, headings, names, present, rows, section, shown
from tests.support.sources import SOURCES_GROUP, files, nodes

REFERENCE = ROOT / "docs" / "reference"
OTHER_CPUSET_WORDS = {
    "cpuset.cpus",
    "cpuset.mems",
    "cpuset.memory_migrate",
    "cpuset.effective_cpus",
    "cpuset.cpus.effective",
    "cpuset.exclusiv",
}
"""Files of the kernel, and a slip that is shown as one."""


def first_column(text: str) -> list[str]:
    return [name for row in rows(text) for name in names(row[0])]


def test_every_label_is_documented_and_no_other() -> None:
    """The table of labels has the labels that are read, in their order."""
    page = REFERENCE / "labels.md"
    table = [row for row in rows(page.read_text()) if row[0].startswith("`cpuset.")]
    assert [names(row[0])[0] for row in table] == list(NAMES)


@pytest.mark.parametrize("label", LABELS, ids=NAMES)
def test_the_words_and_the_default_of_a_label_are_those_of_its_row(label: Label) -> None:
    """The label's reader accepts each word on the page, and none is left out; the page's default is the real one, and
    names the key that sets it, if any.
    """
    [row] = [row for row in rows((REFERENCE / "labels.md").read_text()) if names(row[0]) == [label.name]]
    shown, default = names(row[1]), names(row[2])
    assert [word for word in shown if isinstance(label.read(word), Flaw)] == []
    if isinstance(flaw := label.read("no such word"), OneOf):
        assert shown == list(flaw.words)
    if label.key:
        assert row[2] == f"the key `{label.key}`"
    elif default and default[0] not in NAMES:
        assert label.read(default[0]) == label.default
    else:
        assert label.default in (None, "")


def test_the_labels_that_only_warn_are_named() -> None:
    """All others refuse exclusive CPUs, and the page says so."""
    warn = [label.name for label in LABELS if label.on_mistake is OnMistake.WARN]
    assert set(warn) <= set(names(section(REFERENCE / "labels.md", "When something is wrong").split("An unknown")[0]))


def test_every_refusal_code_is_documented() -> None:
    """The table of codes has all of them, and no other."""
    assert first_column(section(REFERENCE / "labels.md", "When something is wrong")) == [
        code.value for code in RefusalCode
    ]


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_no_page_shows_a_label_that_is_not_read(page: Path) -> None:
    """Every text that looks like a label of ours is one, or a file of the kernel."""
    found = set(re.findall(r"(?<![\w/-])cpuset\.[a-z][a-z_.-]*[a-z]", present(page)))
    assert found - set(NAMES) <= OTHER_CPUSET_WORDS


def test_every_key_is_documented_with_its_default() -> None:
    """The table of keys has all keys in order; each default, read as the configuration reads it, is the default."""
    table = [row for row in rows((REFERENCE / "configuration.md").read_text()) if len(row) == 4]
    assert [names(row[0])[0] for row in table] == list(KEYS)
    for row in table:
        key, default = names(row[0])[0], names(row[1])
        if not default:
            assert row[1] == "none"
            assert not getattr(Config(), key)
            assert KEYS[key].default == ""
            continue
        assert default[0] == KEYS[key].default
        for field, value in KEYS[key].set_by(KEYS[key].read(default[0])).items():
            assert getattr(Config(), field) == value, key


def test_every_placement_option_is_documented() -> None:
    """And no other."""
    page = REFERENCE / "configuration.md"
    assert first_column(section(page, "Placement")) == list(NODE_OPTIONS)


def commands() -> dict[str, argparse.ArgumentParser]:
    [action] = [each for each in parser(*COMMANDS)._actions if isinstance(each, argparse._SubParsersAction)]
    return dict(action.choices)


def test_every_command_is_documented_and_no_other() -> None:
    """In the order of `--help`."""
    assert headings(REFERENCE / "commands.md", 2) == [*commands(), "Exit codes", "Not yet"]


@pytest.mark.parametrize("name", commands())
def test_every_flag_of_a_command_is_documented_and_no_other(name: str) -> None:
    """A command's section names its flags."""
    there = {flag for action in commands()[name]._actions for flag in action.option_strings if flag.startswith("--")}
    told = set(re.findall(r"--[a-z][a-z-]*", section(REFERENCE / "commands.md", name)))
    assert told == there - {"--help"}


def test_every_field_of_a_projection_is_documented() -> None:
    """In the order of the file."""
    fields = first_column(section(REFERENCE / "projection.md", "Fields of status.json"))
    assert fields == list(Projection.__struct_fields__)


def test_every_field_of_the_status_document_is_documented() -> None:
    """Of the document and of its containers."""
    text = section(REFERENCE / "files.md", "status.json")
    assert sorted(first_column(text)) == sorted((*Status.__struct_fields__, *ContainerStatus.__struct_fields__))
    for kind in (EngineInfo, EngineTraits, MachineMap):
        assert set(kind.__struct_fields__) <= set(names(text))


def test_every_field_of_the_checkpoint_is_documented() -> None:
    """Of the State, and of its parts."""
    text = section(REFERENCE / "files.md", "checkpoint.json")
    assert first_column(text) == list(State.__struct_fields__)
    kinds: tuple[type[msgspec.Struct], ...] = (Assignment, Refused, Refusal, Originals)
    for kind in kinds:
        assert set(kind.__struct_fields__) <= set(names(text))


@pytest.fixture(scope="module")
def words() -> str:
    """Return every text in the code, one per line, without its fields."""
    return "\n".join(
        node.value
        for path in files("sidecar", "state")
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


@pytest.mark.xdist_group(SOURCES_GROUP)
def test_every_message_that_is_explained_is_one_that_the_code_says(words: str) -> None:
    """The first column of the tables of troubleshooting is found in the code's texts."""
    page = ROOT / "docs" / "troubleshooting.md"
    messages = [
        name
        for heading in ("The daemon does not start", "A container does not get its CPUs")
        for row in rows(section(page, heading))
        for name in re.findall(r"`(.+?)`", row[0])
    ]
    assert len(messages) > 25
    assert [message for message in messages if message not in words] == []


@pytest.mark.xdist_group(SOURCES_GROUP)
def test_every_log_line_that_is_explained_is_one_that_the_code_writes(words: str) -> None:
    """The table of log lines quotes the code."""
    lines = [names(row[1])[0] for row in rows(section(REFERENCE / "files.md", "Log lines"))]
    assert len(lines) > 10
    assert [line for line in lines if line not in words] == []
