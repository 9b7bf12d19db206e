"""The command `ack`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from sidecar.cli import arguments
from sidecar.workload import cmd_ack
from state.cpuset import CPUSet
from state.errors import ProjectionError, ProjectionMissing
from tests.support.schemas import misfits
from tests.workload.execs import Told


@pytest.fixture
def projection(tmp_path: Path) -> Told:
    return Told(tmp_path)


def run(*words: object) -> int:
    parser = argparse.ArgumentParser()
    cmd_ack.add_parser(commands := parser.add_subparsers())
    typed = arguments.parse(parser, commands.choices, ["ack", *map(str, words)], {})
    code: int = typed.func(typed)
    return code


def test_it_acknowledges_what_is_told_now(projection: Told, capsys: pytest.CaptureFixture[str]) -> None:
    """By its generation."""
    projection.tell(CPUSet.parse("0-3"))
    asked = projection.tell(CPUSet.parse("0-3"), leaving=CPUSet.parse("2-3"))
    assert run("--dir", projection.directory) == 0
    assert projection.acknowledged() == f"{asked}\n"
    assert capsys.readouterr().out == f"acknowledged {asked}: leaving 2-3\n"


def test_without_anything_leaving_there_is_nothing_to_do(projection: Told, capsys: pytest.CaptureFixture[str]) -> None:
    """And that is no error."""
    projection.tell(CPUSet.parse("0-3"))
    assert run("--dir", projection.directory) == 0
    assert capsys.readouterr().out == "nothing to acknowledge: no CPU is about to be taken\n"
    assert projection.acknowledged() == ""


def test_an_earlier_generation_is_acknowledged_as_that(projection: Told, capsys: pytest.CaptureFixture[str]) -> None:
    """A workload that has followed only an earlier generation acknowledges that, and reads that there is more."""
    asked = projection.tell(CPUSet.parse("0-3"), leaving=CPUSet.parse("3"))
    projection.tell(CPUSet.parse("0-3"), leaving=CPUSet.parse("2-3"))
    assert run("--dir", projection.directory, asked) == 0
    assert projection.acknowledged() == f"{asked}\n"
    assert "newer: generation 2, leaving 2-3" in capsys.readouterr().out


def test_a_generation_that_there_is_not_yet_is_an_error(projection: Told) -> None:
    """It cannot have been followed."""
    projection.tell(CPUSet.parse("0-3"), leaving=CPUSet.parse("3"))
    with pytest.raises(ProjectionError, match="is at generation 1: 2 cannot be acknowledged yet"):
        run("--dir", projection.directory, 2)
    assert projection.acknowledged() == ""


def test_json_says_what_was_done(projection: Told, capsys: pytest.CaptureFixture[str]) -> None:
    """With null for nothing."""
    projection.tell(CPUSet.parse("0-3"))
    assert run("--dir", projection.directory, "--json") == 0
    nothing = capsys.readouterr().out
    assert json.loads(nothing)["acknowledged"] is None
    asked = projection.tell(CPUSet.parse("0-3"), leaving=CPUSet.parse("3"))
    assert run("--dir", projection.directory, "--json") == 0
    told = capsys.readouterr().out
    assert json.loads(told) == {
        "acknowledged": asked,
        "generation": asked,
        "leaving": "3",
        "directory": str(projection.directory),
    }
    assert [*misfits("ack", nothing), *misfits("ack", told)] == []


def test_no_projection_is_an_error(projection: Told) -> None:
    """Of the kind that `main` turns into a line and code 1."""
    with pytest.raises(ProjectionMissing):
        run("--dir", projection.directory)


def test_the_directory_is_the_workloads_own_by_default(projection: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for `watch`."""
    monkeypatch.setenv("CPUSET_SIDECAR_DIR", str(projection.directory))
    asked = projection.tell(CPUSet.parse("0-3"), leaving=CPUSet.parse("3"))
    assert run() == 0
    assert projection.acknowledged() == f"{asked}\n"


@pytest.mark.parametrize("word", ["x", "-1", "1.5", "9" * 20, "٣"])
def test_what_is_no_generation_is_wrong_usage(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Code 2."""
    with pytest.raises(SystemExit) as ended:
        run("--", word)
    assert ended.value.code == 2
    assert "write a whole number from 0 to " in capsys.readouterr().err
