"""Each command imports what it needs itself: a short one starts in half the time."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from sidecar.__main__ import COMMANDS, DAEMON_PACKAGES, parser

_DECISIONS = ("sidecar.decide.books", "sidecar.decide.moves", "sidecar.decide.step", "sidecar.decide.world")
_OTHERS = ("sidecar.simulation", "sidecar.api", "sidecar.engines", "sidecar.host.machine")


_ALL_MODULES = {each.module for each in COMMANDS.values()}


def imported(*words: str) -> set[str]:
    """Return the modules that a command line imports before its command begins, in a process of its own."""
    code = f"""
import sys, sidecar.__main__ as program
program._carried_out = lambda args: 0
try:
    program.main({words!r})
except SystemExit:
    pass
sys.stderr.write("\\n" + " ".join(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.rpartition("\n")[2].split())


@pytest.mark.parametrize("name", ["status", "top", "disturbed", "watch"])
def test_a_command_that_reads_the_status_imports_no_decisions(name: str) -> None:
    """Nor what only other commands need; and no package that the daemon's host alone has."""
    others = (*_DECISIONS, *_OTHERS, *DAEMON_PACKAGES)
    assert [each for each in imported(name) if each.startswith(others)] == []


def test_a_command_that_decides_is_seen_to() -> None:
    """`plan` needs the decisions: the names above are those of modules."""
    assert set(_DECISIONS) <= imported("plan") | {"sidecar.decide.step"}


@pytest.mark.parametrize(
    ("words", "own"),
    [
        (("--version",), ()),
        (("--help",), ()),
        (("-h",), ()),
        ((), ()),
        (("no-command",), ()),
        (("help",), ("help",)),
        (("help", "status"), ("help", "status")),
        (("help", "--schema", "status"), ("help", "status")),
        (("status", "--help"), ("status",)),
        (("--no-flag", "status"), ("status",)),
    ],
)
def test_a_command_line_imports_the_modules_of_its_own_commands(words: tuple[str, ...], own: tuple[str, ...]) -> None:
    """The list of all commands needs none of them, nor what reads the configuration."""
    found = imported(*words)
    assert found & _ALL_MODULES == {COMMANDS[name].module for name in own}
    if words and words[0].startswith("-") and not own:
        assert not any(each.startswith(("sidecar.config", "sidecar.decide", "trio")) for each in found)


@pytest.mark.parametrize("words", [("completion", "bash"), ("help", "--man")])
def test_what_is_about_all_commands_imports_all(words: tuple[str, ...]) -> None:
    assert imported(*words) >= _ALL_MODULES


def test_each_command_is_added_by_the_module_that_its_name_stands_for() -> None:
    """Alone it has the arguments and the help that it has beside all others."""
    together = _choices(parser(*COMMANDS))
    assert list(together) == list(COMMANDS)
    for name, made in together.items():
        alone = _choices(parser(name))
        assert list(alone) == ([name] if name != "help" else list(COMMANDS))
        assert alone[name].format_help() == made.format_help()


def _choices(made: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    [commands] = [each for each in made._actions if isinstance(each, argparse._SubParsersAction)]
    return dict(commands.choices)
