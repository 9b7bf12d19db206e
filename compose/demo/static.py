"""The story of the policy `static`: an exclusive container, a plain one and a noisy neighbour, and the proof that the
first one ran alone.
"""

from __future__ import annotations

import time

from compose.demo.dynamic import FOLDER
from compose.demo.evidence import (
    Line,
    Outside,
    Span,
    Verdict,
    cpus_of,
    figures,
    judge,
    settled_spans,
    whole_seconds,
)
from compose.demo.outsiders import Lookout, Sweep, outside_of
from compose.demo.project import Project, machine_size
from compose.demo.screen import Screen, others_note
from compose.demo.witness import Witness, members
from compose.host.commands import HostLacks, output

SETTINGS = {"LINGER": "1s", "PROJECTIONS": FOLDER}
SETTLE_SECONDS = 20.0
ALONE_SECONDS = 3  # whole seconds of work to judge by


def play(project: Project) -> int:
    """Play the story, then prove it. Return the exit code."""
    if machine_size() < 2:
        raise HostLacks("one CPU is too few: the host needs one, and another must be free to grant")
    witness = Witness()
    screen = Screen(project.status)

    screen.headline("The sidecar starts. CPU 0 is reserved for the host; the others can be granted.")
    if others := len(output("docker", "ps", "--quiet").split()):
        screen.note(others_note(others))
    project.up("sidecar")
    screen.until(project.is_ready, "the sidecar is ready", SETTLE_SECONDS)

    screen.headline(
        "A plain workload and a noisy neighbour, without labels: they share all CPUs that are not exclusive."
    )
    project.up("plain", "noisy")
    [plain], [noisy] = project.containers("plain"), project.containers("noisy")
    screen.until(lambda: len(seconds_of(project, plain)) >= 1, "the plain workload runs", SETTLE_SECONDS)
    witness.watch([noisy])
    witness.start()

    screen.headline("A workload with the label cpuset.exclusive: 1 arrives.")
    project.up("exclusive")
    [exclusive] = project.containers("exclusive")
    screen.until(
        lambda: bool(spans_of(project, exclusive)), "the exclusive workload is told that it is settled", SETTLE_SECONDS
    )
    lookout = Lookout()
    lookout.start(members(exclusive))
    screen.headline("Settled: no other container is on its CPU. Now the neighbour restarts, and a second one starts.")
    project.restart("noisy")
    witness.watch([noisy])
    project.up("noisy", scale="noisy=2")
    neighbours = project.containers("noisy")
    witness.watch(neighbours)

    def alone() -> bool:
        return len(whole_seconds(project.lines(exclusive), spans_of(project, exclusive))) >= ALONE_SECONDS

    screen.until(alone, f"{ALONE_SECONDS} seconds alone", SETTLE_SECONDS)
    until = time.monotonic_ns()
    witness.stop()
    lookout.stop()
    lines = project.lines(exclusive)
    notes = {container: project.lines(container) for container in neighbours}
    beside = project.lines(plain)

    screen.headline("The exclusive workload ends: after a moment (linger) its CPU returns to the shared pool.")
    project.stop("exclusive")
    screen.until(lambda: released(project, plain), "the plain workload may use all CPUs again", SETTLE_SECONDS)
    return tell(screen, judge(lines, beside, notes, witness.samples, until, outside(lines, until, lookout.sweeps)))


def outside(lines: list[Line], until: int, sweeps: list[Sweep]) -> Outside | None:
    """Return what else used the CPUs of the exclusive workload while it was settled; None if that was not seen."""
    spans = settled_spans(lines, until)
    own = figures(whole_seconds(lines, spans))
    return outside_of(sweeps, spans, own.share) if own else None


def tell(screen: Screen, verdict: Verdict) -> int:
    """Print what the evidence shows. Return 0 if all of it is as promised."""
    seconds = verdict.settled_seconds
    screen.headline(f"What the workloads report of the {seconds:.1f} seconds in which the exclusive one was settled:")
    screen.figures({"exclusive": verdict.own, "plain": verdict.beside})
    for finding in verdict.findings:
        screen.verdict(finding.is_true, finding.text)
    if verdict.late_ms:
        screen.note(f"(a newly started neighbour was there for {verdict.late_ms:.0f} ms, until it was pinned)")
    if verdict.outside and verdict.is_true:
        screen.note(f"({verdict.outside}: a cpuset keeps off containers only)")
    screen.note("`make demo-dynamic` shows how CPUs change hands while containers run.")
    return 0 if verdict.is_true else 1


def spans_of(project: Project, exclusive: str) -> list[Span]:
    """Return since when the exclusive container has been settled, by its own output."""
    return settled_spans(project.lines(exclusive), time.monotonic_ns())


def seconds_of(project: Project, container: str) -> list[Line]:
    """Return the seconds of work that a steady workload has reported."""
    return [line for line in project.lines(container) if line["kind"] == "worked"]


def released(project: Project, plain: str) -> bool:
    """Return whether the plain container read a shared pool of all CPUs of the machine."""
    told = [line for line in project.lines(plain) if line["kind"] == "told"]
    return bool(told) and len(cpus_of(told[-1]["cpus"])) == machine_size()
