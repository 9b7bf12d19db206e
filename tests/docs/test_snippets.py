"""The code in the pages: runnable code is run, the rest is parsed.

A block with `follow` in its fence is a whole program that prints `CPUs: <list>` for each change of its projection. It
is compiled where need be, and run on a real projection directory that changes under it.
"""

from __future__ import annotations

import configparser
import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.__main__ import COMMANDS, parser
from sidecar.config.config import load
from sidecar.projection.projections import Projections
from state.cpuset import CPUSet
from state.projection import Projection, Sharing
from tests.docs.pages import ROOT, Block, blocks_in
from tests.support.composed import composer

CONTAINER = "ab" * 32
PATIENCE_SECONDS = 20.0
COMPOSE_HEAD = re.compile(r"^(services|volumes):", re.MULTILINE)


def program(block: Block, folder: Path) -> list[str]:
    """Return the command that runs a block. Skips if this machine lacks what it needs."""
    source = folder / f"program.{ {'python': 'py'}.get(block.language, block.language) }"
    source.write_text(block.text)
    match block.language:
        case "sh":
            return ["sh", str(source)]
        case "python":
            return [sys.executable, str(source)]
        case "c":
            return _built(
                folder, "gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", "program", str(source)
            )
        case "go":
            return _built(folder, "go", "build", "-o", "program", str(source))
        case _:
            raise AssertionError(f"{block}: nobody knows how to run {block.language}")


def _built(folder: Path, *command: str) -> list[str]:
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs the program {command[0]}, which is not here")
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, "GOCACHE": str(folder), "GO111MODULE": "off"})
    return [str(folder / "program")]


@contextmanager
def running(command: Sequence[str], directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program in a session of its own, since a shell has children; end it with the block."""
    environment = {**os.environ, "CPUSET_SIDECAR_DIR": str(directory), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, start_new_session=True) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, 9)


def next_line(process: subprocess.Popen[bytes]) -> str:
    """Return the next line of its output, waited for with a deadline."""
    assert process.stdout is not None
    deadline, text = time.monotonic() + PATIENCE_SECONDS, b""
    while not text.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing was printed in {PATIENCE_SECONDS:g} s"
        text += (byte := os.read(process.stdout.fileno(), 1))
        assert byte, "it ended"
    return text.decode().strip()


def told(cpus: CPUSet) -> Projection:
    return Projection(container=CONTAINER, name="web", sharing=Sharing.SHARED, cpus=cpus, desired=cpus)


FOLLOWERS = [block for language in ("sh", "python", "c", "go") for block in blocks_in(language, word="follow")]


@pytest.mark.parametrize("block", FOLLOWERS, ids=str)
def test_a_program_of_the_pages_follows_its_cpus(block: Block, tmp_path: Path) -> None:
    """It prints the CPUs in force when it starts, and after a change; and that the daemon does not vouch any more."""
    every = CPUSet(os.sched_getaffinity(0))
    one = CPUSet.of(every.lowest())
    root = tmp_path / "projections"
    projections = Projections(root, clock=time.time, lease_seconds=3600)
    projections.write(CONTAINER, (), told(one))
    with running(program(block, tmp_path), root / "by-id" / CONTAINER[:12]) as process:
        assert next_line(process) == f"CPUs: {one}"
        if every == one:
            pytest.skip("one CPU: nothing to change to")
        projections.write(CONTAINER, (), told(every))
        assert next_line(process) == f"CPUs: {every}"
        projections.end_leases()
        assert next_line(process) == f"CPUs: {every} (unvouched)"


def test_the_readme_and_the_how_to_have_a_program_in_each_language() -> None:
    """Shell and Python; the how-to also has C and Go."""
    how_to = ROOT / "docs" / "how-to" / "read-the-projection.md"
    for page, languages in ((ROOT / "README.md", {"sh", "python"}), (how_to, {"sh", "python", "c", "go"})):
        assert {block.language for block in FOLLOWERS if block.page == page} == languages


@pytest.mark.parametrize("block", blocks_in("sh"), ids=str)
def test_shell_can_be_parsed(block: Block) -> None:
    """By a POSIX shell."""
    subprocess.run(["sh", "-n"], input=block.text.encode(), check=True)


def lines_for_the_command() -> list[tuple[Block, str]]:
    """Return every `cpuset-sidecar ...` line that the pages show."""
    found = []
    for block in (*blocks_in("sh"), *blocks_in("console")):
        for line in block.text.splitlines():
            typed = line.removeprefix("$ ") if block.language == "console" and line.startswith("$ ") else line
            is_typed = block.language == "sh" or line.startswith("$ ")
            match = re.search(r"(?:^|(?:exec|run)(?: --rm)?(?: -T)? sidecar )(cpuset-sidecar [^|>;]*|release$)", typed)
            if is_typed and match:
                found.append((block, match[1].removeprefix("cpuset-sidecar ")))
    return found


@pytest.mark.parametrize(("block", "line"), lines_for_the_command(), ids=lambda value: str(value))
def test_a_command_of_the_pages_has_right_usage(block: Block, line: str) -> None:
    """The command's own parser accepts it. A shell substitution counts as one word."""
    parser(*COMMANDS).parse_args(shlex.split(re.sub(r"\$\([^)]*\)", "word", line)))


@pytest.mark.parametrize("block", [b for b in blocks_in("toml") if "scenario" not in b.words], ids=str)
def test_a_configuration_of_the_pages_is_read(block: Block, tmp_path: Path) -> None:
    """The daemon accepts each key and value; a part of a file is completed with what `static` needs."""
    keys = tomllib.loads(block.text)
    file = tmp_path / "cpuset-sidecar.toml"
    file.write_text(
        ("" if "policy" in keys else 'policy = "static"\n')
        + ("" if "reserved" in keys else 'reserved = "count:1"\n')
        + block.text
    )
    assert load(str(file), {}, {}).policy == "static"


@pytest.mark.parametrize("block", blocks_in("ini"), ids=str)
def test_the_systemd_unit_starts_a_command_that_there_is(block: Block) -> None:
    """Its ExecStart has right usage, and its directories are the defaults."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(block.text)
    path, *words = shlex.split(unit["Service"]["ExecStart"])
    assert Path(path).name == "cpuset-sidecar"
    parser(*COMMANDS).parse_args(words)
    assert unit["Service"]["StateDirectory"] == unit["Service"]["RuntimeDirectory"] == "cpuset-sidecar"


@pytest.mark.parametrize("block", [b for b in blocks_in("yaml") if COMPOSE_HEAD.search(b.text)], ids=str)
def test_a_compose_file_of_the_pages_is_one(block: Block, tmp_path: Path) -> None:
    """Docker Compose reads it, in a folder where the project's own compose file is."""
    words = composer()
    if words is None:
        pytest.skip("Docker Compose is missing")
    file = tmp_path / "compose.yaml"
    file.write_text(block.text)
    (tmp_path / "compose").symlink_to(ROOT / "compose")
    done = subprocess.run([*words, "-f", str(file), "config", "-q"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_readme_names_the_targets_that_make_has() -> None:
    """`make demo` and the others."""
    there = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in (ROOT / "README.md", ROOT / "docs" / "contributing.md"):
        assert set(re.findall(r"`make ([a-z-]+)", page.read_text())) <= there
