"""The common parts of the tests of `exec`: the command as a process before a program, its projection, its threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from sidecar.projection.projections import Projections
from state.cpuset import CPUSet
from state.projection import Projection, Sharing, read

CONTAINER = "ab" * 32
PATIENCE_SECONDS = 30.0
ROOT = Path(__file__).parents[2]

PROGRAM = """
import argparse, sys
from sidecar.cli import arguments
from sidecar.workload import cmd_exec
parser = argparse.ArgumentParser(prog="cpuset-sidecar")
commands = parser.add_subparsers()
cmd_exec.add_parser(commands)
typed = arguments.parse(parser, commands.choices, sys.argv[1:], {})
sys.exit(typed.func(typed))
"""

EVERY = CPUSet(os.sched_getaffinity(0))

needs_two_cpus = pytest.mark.skipif(len(EVERY) < 2, reason="needs two CPUs, to take one away")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def told(cpus: CPUSet, leaving: CPUSet = CPUSet()) -> Projection:  # noqa: B008  # it does not change
    """Return the projection of a workload with these CPUs."""
    return Projection(
        container=CONTAINER,
        name="web",
        sharing=Sharing.EXCLUSIVE,
        cpus=cpus,
        desired=cpus - leaving,
        original=CPUSet.of(EVERY.lowest()),
        leaving=leaving,
        deadline_seconds=2.0 if leaving else None,
        settled=not leaving,
    )


class Told:
    """One container's projection, as the daemon writes it."""

    def __init__(self, root: Path) -> None:
        # Vouched for throughout, however slow the machine is.
        self._projections = Projections(root, clock=time.time, lease_seconds=3600)
        self.directory = root / "by-id" / CONTAINER[:12]

    def tell(self, cpus: CPUSet, leaving: CPUSet = CPUSet()) -> int:  # noqa: B008
        """Write it; return the generation."""
        self._projections.write(CONTAINER, (), told(cpus, leaving))
        return self.generation()

    def tell_of(self, cpus: CPUSet, *, alone: bool, never_alone: bool = False) -> None:
        """Write whether it is alone, or never will be."""
        said = msgspec.structs.replace(told(cpus), alone=alone, never_alone=never_alone, reason="as it was decided")
        self._projections.write(CONTAINER, (), said)

    def tell_again(self, cpus: CPUSet, leaving: CPUSet) -> int:
        """Write the same with the next generation, as a restarted daemon does; return the generation."""
        said = told(cpus, leaving)
        self._projections.write(CONTAINER, (), msgspec.structs.replace(said, reason="it was told before"))
        return self.generation()

    def generation(self) -> int:
        """The generation that was written last."""
        return read(self.directory).generation

    def end(self) -> None:
        """Vouch for nothing any more, as a daemon that stops."""
        self._projections.end_leases()

    def remove(self) -> None:
        """Remove the container's directory."""
        self._projections.remove(CONTAINER)

    def acknowledged(self) -> str:
        """Return what the workload has written; empty for nothing."""
        file = self.directory / "ack"
        return file.read_text() if file.exists() else ""

    def await_acknowledgement(self, generation: int) -> None:
        """Wait until the workload acknowledges this generation."""
        eventually(lambda: self.acknowledged() == f"{generation}\n", f"generation {generation} acknowledged")


@contextmanager
def executing(
    *words: str | Path, options: tuple[str | Path, ...] = (), stdin: int | None = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[str]]:
    """Run the command before a program, with its stdout and stderr; all of it is killed at the end."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-W", "error", "-c", PROGRAM, "exec", *map(str, options), "--", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command,
        stdin=stdin,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=environment,
        preexec_fn=_as_typed,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _as_typed() -> None:
    # Tests that run in the background ignore Ctrl-C, and a child would inherit that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def line(process: subprocess.Popen[str]) -> str:
    """Return the next line on stdout, waited for."""
    assert process.stdout
    return process.stdout.readline().rstrip("\n")


def complaint(process: subprocess.Popen[str]) -> str:
    """Return the next line on stderr, waited for."""
    assert process.stderr
    return process.stderr.readline().rstrip("\n")


def eventually(is_so: Callable[[], object], what: str) -> None:
    """Wait until the condition holds, with a deadline."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_SECONDS:g} s"
        time.sleep(0.005)


def await_program(process: subprocess.Popen[str], name: str) -> None:
    """Wait until the program runs. A child alone is no proof: pyinotify makes ctypes run a program to find libc."""

    def is_there() -> bool:
        return any(name in _name(below) for below in descendants(process.pid))

    eventually(is_there, f"{name} started")


def _name(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text()
    except OSError:
        return ""


def descendants(root: int) -> Iterator[int]:
    """Yield the processes below a process."""
    for thread in threads(root):
        try:
            children = Path(f"/proc/{root}/task/{thread}/children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield int(child)
            yield from descendants(int(child))


def threads(process: int) -> list[int]:
    """Return the threads of one process; none if it is gone."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{process}/task")]
    except OSError:
        return []


def affinities(root: int) -> list[CPUSet]:
    """Return the CPUs of each thread below a process."""
    found = []
    for process in descendants(root):
        for thread in threads(process):
            try:
                found.append(CPUSet(os.sched_getaffinity(thread)))
            except OSError:
                continue
    return found


def all_on(root: int, cpus: CPUSet) -> bool:
    """Return whether there are threads below a process, and each may use exactly these."""
    return set(affinities(root)) == {cpus}
