"""Commands whose output cannot be written, or whose streams are closed: a sentence and a code, never a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCENARIO = str(Path(__file__).parents[2] / "compose/scenarios/two-cpus.toml")
FULL = "cpuset-sidecar: stdout cannot be written: there is no space left; free some\n"
CLOSED = "cpuset-sidecar: stdout cannot be written: it is not open for writing\n"


def ended(words: str, *python: str) -> tuple[int, str]:
    """Return the exit code of a command with a shell's redirections, and what it said on stderr."""
    command = f"exec '{sys.executable}' {' '.join(python)} -m sidecar {words}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "words",
    ["help", "--help", "--version", "completion bash", f"simulate {SCENARIO}", f"simulate --json {SCENARIO}"],
)
def test_output_that_cannot_be_written_is_a_failure(words: str) -> None:
    """A full device, or a closed stdout: whether it is noticed at once, or as the last of it is written."""
    assert ended(f"{words} > /dev/full") == (1, FULL)
    assert ended(f"{words} >&-") == (1, CLOSED)


def test_it_is_the_same_without_a_buffer() -> None:
    """As with PYTHONUNBUFFERED in an image."""
    assert ended("help > /dev/full", "-u") == (1, FULL)
    assert ended("help >&-", "-u") == (1, CLOSED)


def test_a_command_that_prints_nothing_needs_no_stdout(tmp_path: Path) -> None:
    """And a misuse, or a failure of its own, keeps its code and its sentence."""
    assert ended(f"topology --record {tmp_path}/machine >&- <&-") == (0, "")
    assert "devices/system/cpu/online: " in (tmp_path / "machine").read_text()
    code, said = ended("plan --cups 1 --cpus 1 >&-")
    assert (code, said.splitlines()[-1]) == (2, "cpuset-sidecar plan: unknown flag '--cups'; did you mean '--cpus'?")
    assert ended(f"state --state-dir {tmp_path}/none > /dev/full")[0] == 1


def test_without_stderr_the_code_remains() -> None:
    """Closed or full: what is lost there changes nothing."""
    for where in ("2>&-", "2> /dev/full"):
        assert ended(f"state --state-dir /nowhere {where}") == (1, "")
        assert ended(f"nonsense {where}") == (2, "")
        assert ended(f"simulate {SCENARIO} > /dev/null {where}") == (0, "")


def test_a_closed_stdin_cannot_be_read() -> None:
    assert ended("state --file - <&-") == (1, "cpuset-sidecar: - cannot be read: Bad file descriptor\n")


def test_a_reader_that_leaves_is_no_error_after_a_help_either() -> None:
    """It ends by argparse, before the command is run."""
    done = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m sidecar --help | true; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("0\n", "")
