"""Plays a scenario by the command line, and returns what it printed. It alone knows that there is a program."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from sidecar.__main__ import main
from tests.blackbox.plain_values import Scenario
from tests.blackbox.scenarios import toml_of


class Printed(NamedTuple):
    """What `simulate --json` printed: the exit code, its objects in their order, and stderr."""

    code: int
    objects: list[dict[str, Any]]
    complaint: str


def printed(scenario: Scenario) -> Printed:
    """Return what the command prints of a scenario. An exception of the program counts as code 3."""
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scenario.toml"
        file.write_text(toml_of(scenario))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(["simulate", str(file), "--json"])
            except Exception as error:  # whatever the program does is a finding
                return Printed(3, _objects(out), f"{type(error).__name__}: {error}")
    return Printed(code, _objects(out), err.getvalue())


def _objects(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]
