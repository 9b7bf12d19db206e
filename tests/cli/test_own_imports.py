"""Each command imports what it needs itself: a short one starts in half the time."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from sidecar.__main__ import COMMANDS, DAEMON_PACKAGES, parser

_DECISIONS = ("sidecar.decide.books", "sidecar.decide.moves", "sidecar.decide.step", "sidecar.decide.world")
_OTHERS = ("sidecar.simulation", "sidecar.api", "sidecar.engines", "sidecar.host.machine")


def imported(command: str) -> list[str]:
    """Return the modules that the parser of one command imports, in a process of its own."""
    code = f"import sys; from sidecar.__main__ import parser; parser({command!r}); print(*sys.modules)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("name", ["status", "top", "disturbed", "watch"])
def test_a_command_that_reads_the_status_imports_no_decisions(name: str) -> None:
    """Nor what only other commands need; and no package that the daemon's host alone has."""
    others = (*_DECISIONS, *_OTHERS, *DAEMON_PACKAGES)
    assert [each for each in imported(name) if each.startswith(others)] == []


def test_a_command_that_decides_is_seen_to() -> None:
    """`plan` needs the decisions: the names above are those of modules."""
    assert set(_DECISIONS) <= set(imported("plan")) | {"sidecar.decide.step"}


def test_each_command_is_added_by_the_module_that_its_name_stands_for() -> None:
    """Alone it has the arguments and the help that it has beside all others."""
    together = _choices(parser())
    assert list(together) == list(COMMANDS)
    for name, made in together.items():
        alone = _choices(parser(name))
        assert list(alone) == [name]
        assert alone[name].format_help() == made.format_help()


def _choices(made: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    [commands] = [each for each in made._actions if isinstance(each, argparse._SubParsersAction)]
    return dict(commands.choices)
