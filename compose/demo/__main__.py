"""The demo: an exclusive container, a plain one and a noisy neighbour on a real engine, and the proof that it works.

Exit code 0 if the exclusive workload ran alone on its CPUs, 1 if not, or if this host cannot run it. Everything that
was brought here is taken away again, whatever happens; `--keep-images` leaves the images for the next time.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from compose.demo.evidence import Line, Span, Verdict, cpus_of, judge, settled_spans, whole_seconds
from compose.demo.project import Project
from compose.demo.screen import Screen
from compose.demo.witness import Witness
from compose.host import packages
from compose.host.commands import HostLacks, attempt, now_undisturbed, output, say, tail
from compose.host.composer import compose_command
from compose.host.engine import engine
from compose.host.image import build_images, remove_images, tags

SETTLE_SECONDS = 20.0
ALONE_SECONDS = 3  # whole seconds of work to judge by


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m compose.demo", description=__doc__)
    parser.add_argument("--keep-images", action="store_true", help="leave the images that were built on the engine")
    keep_images = parser.parse_args().keep_images
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with engine(with_compose=True) as found:
            project = Project(compose_command(), {"DOCKER_SOCKET": found.socket, "LINGER": "1s"})
            with _images(keep_images), _clean_project(project):
                code = play(project)
        if kept := packages.ours():
            say(f"packages that were installed are kept ({len(kept)}); `make demo-clean` removes them")
    except HostLacks as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; everything was taken down", file=sys.stderr)
        return 130
    return code


def play(project: Project) -> int:
    """The story, then the proof. Returns the exit code."""
    if machine_size() < 2:
        raise HostLacks("one CPU is too few: one is for the host, and one to be given away")
    witness = Witness()
    screen = Screen(lambda colours: status(project, colours))

    screen.headline("The sidecar starts. CPU 0 is reserved for the host; the others may be given away.")
    if others := len(output("docker", "ps", "--quiet").split()):
        screen.note(f"{others} other containers are here: they join the shared pool, and get back what they had.")
    project.up("sidecar")
    screen.until(lambda: is_ready(project), "the sidecar is ready", SETTLE_SECONDS)

    screen.headline(
        "A plain workload and a noisy neighbour, without labels: they share all CPUs but those that somebody owns."
    )
    project.up("plain", "noisy")
    [plain], [noisy] = project.containers("plain"), project.containers("noisy")
    screen.until(lambda: len(seconds_of(project, plain)) >= 1, "the plain workload works", SETTLE_SECONDS)
    witness.watch([noisy])
    witness.start()

    screen.headline("A workload with the label cpuset.exclusive: 1 arrives.")
    project.up("exclusive")
    [exclusive] = project.containers("exclusive")
    screen.until(
        lambda: bool(spans_of(project, exclusive)), "the exclusive workload is told that it is settled", SETTLE_SECONDS
    )
    screen.headline("Settled: nobody else is on its CPU any more. Now the neighbour is restarted, and gets a twin.")
    project.restart("noisy")
    witness.watch([noisy])
    project.up("noisy", scale="noisy=2")
    neighbours = project.containers("noisy")
    witness.watch(neighbours)

    def alone() -> bool:
        return len(whole_seconds(project.lines(exclusive), spans_of(project, exclusive))) >= ALONE_SECONDS

    screen.until(alone, f"{ALONE_SECONDS} seconds of work alone", SETTLE_SECONDS)
    until = time.monotonic_ns()
    witness.stop()
    lines = project.lines(exclusive)
    notes = {container: project.lines(container) for container in neighbours}
    beside = project.lines(plain)

    screen.headline("The exclusive workload ends: after a moment (linger) its CPU goes back to all.")
    project.stop("exclusive")
    screen.until(lambda: released(project, plain), "the plain workload may use all CPUs again", SETTLE_SECONDS)
    return tell(screen, judge(lines, beside, notes, witness.samples, until))


def tell(screen: Screen, verdict: Verdict) -> int:
    """Say what the evidence says. Returns 0 if all of it is as promised."""
    seconds = verdict.settled_seconds
    screen.headline(f"What the workloads say about the {seconds:.1f} seconds in which the exclusive one was settled:")
    screen.figures({"exclusive": verdict.own, "plain": verdict.beside})
    for finding in verdict.findings:
        screen.verdict(finding.is_true, finding.text)
    if verdict.late_ms:
        screen.note(f"(a newborn neighbour was there for {verdict.late_ms:.0f} ms, until it was pinned)")
    return 0 if verdict.is_true else 1


def status(project: Project, colours: bool) -> str:
    """What the sidecar says, as a person would ask it."""
    said = project.ask("status", terminal=colours)
    return said.stdout.rstrip() if said.returncode == 0 else "the sidecar is not ready yet"


def is_ready(project: Project) -> bool:
    """Whether the sidecar answers. HostLacks if it ended."""
    if project.has_failed("sidecar"):
        raise HostLacks("the sidecar ended by itself")
    return project.ask("status").returncode == 0


def spans_of(project: Project, exclusive: str) -> list[Span]:
    """Since when the exclusive container is settled, by its own words."""
    return settled_spans(project.lines(exclusive), time.monotonic_ns())


def seconds_of(project: Project, container: str) -> list[Line]:
    """The seconds of work that a steady workload has reported."""
    return [line for line in project.lines(container) if line["kind"] == "worked"]


def released(project: Project, plain: str) -> bool:
    """Whether the plain container was told a pool that is all that the machine has."""
    told = [line for line in project.lines(plain) if line["kind"] == "told"]
    return bool(told) and len(cpus_of(told[-1]["cpus"])) == machine_size()


def machine_size() -> int:
    """How many CPUs the engine's host has."""
    return int(output("docker", "info", "--format", "{{.NCPU}}"))


@contextmanager
def _images(keep: bool) -> Iterator[None]:
    present = tags()
    try:
        build_images()
        yield
    finally:
        if not keep:
            remove_images(present)


@contextmanager
def _clean_project(project: Project) -> Iterator[None]:
    """A project that is not there before, and not there after; other containers get back what they had."""
    project.down()
    try:
        yield
    except HostLacks:
        for container in project.containers("sidecar"):
            words = attempt("docker", "logs", "--tail", "20", container)
            print(f"the sidecar's last words:\n{tail(words.stdout + words.stderr, 20)}", file=sys.stderr)
        raise
    finally:
        now_undisturbed()
        say("taking everything down")
        try:
            if project.containers("sidecar") and project.strangers():
                project.release()
        except HostLacks as problem:
            say(f"the sidecar could not give back what it took: {problem}")
        project.down()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
