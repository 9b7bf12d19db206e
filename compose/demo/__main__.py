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

from compose.demo.evidence import Line, Span, cpus_of, figures, intrusions, settled_spans, whole_seconds
from compose.demo.project import Project
from compose.demo.screen import Screen
from compose.demo.witness import Witness
from compose.host import packages
from compose.host.commands import HostLacks, attempt, output, say, tail
from compose.host.composer import compose_command
from compose.host.engine import engine
from compose.host.image import build_images, remove_images

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
    screen = Screen(lambda colours: project.ask("status", terminal=colours).stdout.rstrip())

    screen.headline("The sidecar starts. CPU 0 is reserved for the host; the others may be given away.")
    if others := len(output("docker", "ps", "--quiet").split()):
        screen.note(
            f"{others} other containers run here: they are in the shared pool meanwhile, and get back what they had."
        )
    project.up("sidecar")
    screen.until(lambda: project.ask("status").returncode == 0, "the sidecar is ready", SETTLE_SECONDS)

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
    return judge(screen, witness, lines, beside, notes, until)


def judge(
    screen: Screen, witness: Witness, lines: list[Line], beside: list[Line], notes: dict[str, list[Line]], until: int
) -> int:
    """Say what the evidence says. Returns 0 if all of it is as promised."""
    spans = settled_spans(lines, until)
    own = figures(whole_seconds(lines, spans))
    other = figures(whole_seconds(beside, spans))
    assert own is not None
    granted = frozenset().union(*(span.cpus for span in spans))
    seconds = sum(span.until - span.since for span in spans) / 1e9
    screen.headline(f"What the workloads say about the {seconds:.1f} seconds in which the exclusive one was settled:")
    screen.figures({"exclusive": own, "plain": other})

    wrong = [
        line for line in whole_seconds(lines, spans) if cpus_of(line["allowed"]) not in {span.cpus for span in spans}
    ]
    found = [intrusion for mine in notes.values() for intrusion in intrusions(mine, spans)]
    late = [intrusion for intrusion in found if intrusion.is_late_start]
    outside = sum((witness.seen(span.since, span.until) for span in spans), start=witness.seen(0, 0))
    on_granted = sum(count for cpu, count in outside.items() if cpu in granted)
    ran = sum(1 for mine in notes.values() for line in mine if line["kind"] == "ran")

    findings = [
        (
            not wrong,
            f"its own /proc/self/status allowed it CPU {' '.join(own.allowed)} alone, in each of {own.seconds} seconds",
        ),
        (
            len(found) == len(late),
            f"no noisy process was there, by {ran} notes of their own from {len(notes)} containers (sched_getcpu)",
        ),
        (
            not on_granted or bool(late),
            f"nor by the host's /proc: {on_granted} of {outside.total()} samples of their running threads",
        ),
        (
            other is None or own.share > other.share,
            "and it got more of its CPU than the plain workload got of the shared ones",
        ),
    ]
    for is_true, text in findings:
        screen.verdict(is_true, text)
    if late:
        longest = max(intrusion.length_ns for intrusion in late) / 1e6
        screen.note(
            f"(a newborn neighbour was there for at most {longest:.0f} ms, until pinned: the strict start closes this)"
        )
    return 0 if all(is_true for is_true, _ in findings) else 1


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
    made: list[str] = []
    try:
        made = build_images()
        yield
    finally:
        if not keep:
            remove_images(made)


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
        # From here on a second Ctrl-C would leave things behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        say("taking everything down")
        if project.containers("sidecar", running_only=True):
            done = project.ask("release")
            if done.returncode != 0:
                say(f"the sidecar could not give back what it took: {done.stderr.strip()}")
        project.down()
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
