"""The JSON Schemas in the package are those of the types, and what commands print fits them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from sidecar.__main__ import COMMANDS, main, parser
from sidecar.cli.json_schemas import DIALECT, FOLDER, SCHEMAS, schema_text
from state import codec
from tests.cli.test_commands import BUSY, leave
from tests.cli.top.statuses import owner, plain_one, seen
from tests.support.schemas import misfits, unfit

OF_COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "status": ("status", "problems"),
    "top": ("status",),
    "events": ("event",),
    "topology": ("topology",),
    "plan": ("plan",),
    "simulate": ("happening",),
    "explain": ("explain",),
    "disturbed": ("disturbed", "disturber"),
    "resize": ("resize",),
    "release": ("explain",),
    "defragment": ("defragment",),
    "watch": ("reading",),
    "ack": ("ack",),
    "state": ("state",),
    "doctor": ("doctor", "doctor-quiet"),
    "install-runtime": ("install",),
    "install-slice": ("install",),
    "swarm": ("swarm",),
}
"""The schemas of what each command prints with `--json`. A test of each command compares what it prints."""

OTHERS: Final = ("projection", "history")
"""Schemas of what programs read otherwise."""


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_file_is_the_schema_of_its_type(name: str) -> None:
    """`make schemas` writes them."""
    assert (FOLDER / f"{name}.schema.json").read_text() == schema_text(name)
    assert json.loads(schema_text(name))["$schema"] == DIALECT


def test_there_is_no_other_file() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(f"{name}.schema.json" for name in SCHEMAS)


def test_every_command_that_prints_json_has_its_schemas() -> None:
    """And there is no schema of nothing."""
    [commands] = [each for each in parser(*COMMANDS)._actions if isinstance(each, argparse._SubParsersAction)]
    printing = {name for name, made in commands.choices.items() if "--json" in made._option_string_actions}
    assert printing == set(OF_COMMANDS)
    assert {*(name for names in OF_COMMANDS.values() for name in names), *OTHERS} == set(SCHEMAS)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("status", ["status", "--json"]),
        ("status", ["top", "--once", "--json"]),
        ("problems", ["status", "--problems", "--json"]),
        ("explain", ["explain", "web", "--json"]),
        ("explain", ["explain", "1", "--json"]),
        ("plan", ["plan", "--cpus", "1", "--json", "--empty", "--policy", "static", "--reserved", "0"]),
        ("plan", ["plan", "--defragment", "--json", "--policy", "dynamic", "--reserved", "0"]),
        ("topology", ["topology", "--json"]),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else each,
)
def test_what_a_command_prints_fits_its_schema(
    name: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every field is described, and each is there."""
    leave(tmp_path, BUSY)
    main([*command, *([] if command[0] == "topology" else ["--state-dir", str(tmp_path)])])
    assert misfits(name, capsys.readouterr().out) == []


@pytest.mark.parametrize(
    "command",
    [["status"], ["status", "--exclusive"], ["top", "--once"], ["explain", "web"]],
    ids=lambda each: " ".join(each),
)
def test_each_line_of_containers_as_json_fits_what_explain_prints(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One container is told in one form by all commands, with the word whether the daemon vouches for it."""
    leave(tmp_path, BUSY)
    main([*command, "--format", "json", "--state-dir", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert [misfits("explain", line) for line in lines] == [[]] * len(lines)
    assert {json.loads(line)["vouched"] for line in lines} == {False}


def test_a_history_fits_its_schema() -> None:
    """As the API answers it."""
    assert misfits("history", codec.encode(seen(owner("a", "1-2", 1), plain_one("b", 2)).history)) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [("policy", 3), ("version", "1"), ("is_ready", 1), ("shared", "no list"), ("containers", {}), ("more", 1)],
)
def test_what_does_not_fit_is_found(
    place: str, value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another type, a text that is no CPU list, a field that is not described, and one that is missing."""
    leave(tmp_path, BUSY)
    main(["status", "--json", "--state-dir", str(tmp_path)])
    told = json.loads(capsys.readouterr().out)
    schema = json.loads(schema_text("status"))
    assert unfit({**told, place: value}, schema, schema) != []
    assert unfit({key: each for key, each in told.items() if key != place}, schema, schema) != [] or place == "more"


def test_a_schema_is_printed_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    """As it is in the package; an unknown name is told with the known ones."""
    assert main(["help", "--schema", "status"]) == 0
    assert capsys.readouterr().out == schema_text("status")
    with pytest.raises(SystemExit):
        main(["help", "--schema", "stat"])
    assert "did you mean 'state'?" in capsys.readouterr().err
