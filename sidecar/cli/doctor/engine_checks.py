"""What people must know about the engine that answers, and about a second one on this host."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from sidecar.cli.doctor.host_checks import EngineReport, Finding, Verdict, check_engine
from sidecar.engines.address import choose, usual_places
from sidecar.failures import EngineUnavailable
from sidecar.host.cgroup.engine_lock import LockHolder, whereabouts
from sidecar.words.counts import agree, counted
from sidecar.words.start_gaps import start_gaps


def check_notes(report: EngineReport, *, has_hand: bool = False) -> Iterator[Finding]:
    """Yield what can this engine not do? Where a hand answers births, no container starts outside its CPUs because an
    event comes late.
    """
    if report.engine is None:
        return
    cure = "see docs/how-to/run-with-podman.md" if report.engine.name == "podman" else ""
    filled = start_gaps(report.engine.traits) if has_hand else frozenset()
    for note in report.engine.notes:
        if note in filled:
            continue
        yield Finding("engine's limits", Verdict.WARN, note, cure)


def check_builds(report: EngineReport, *, has_hand: bool = False) -> Iterator[Finding]:
    """Check for builds that nothing confines, where containers ask for exclusive CPUs. A hand answers the steps of
    Docker's builders as births, but those of BuildKit under systemd's driver only in one place.
    """
    engine = report.engine
    asking = [view for view in report.views if "cpuset.exclusive" in view.labels]
    if engine is None or not asking:
        return
    is_answered = has_hand and engine.traits.confines_builds
    if is_answered and engine.cgroup_driver == "cgroupfs":
        return
    whose = f"steps of `{engine.name} build`"
    if is_answered:
        whose = f"unless systemd starts {engine.name} for the host, steps of `{engine.name} build` by BuildKit"
    says = f"{whose} run outside containers: on all CPUs, exclusive ones too, while a build lasts"
    cure = "build elsewhere"
    if engine.traits.confines_builds:
        cure += ", or in a container: docker buildx create --driver docker-container --use"
    yield Finding("builds", Verdict.WARN, says, cure)


def check_others(report: EngineReport, others: Iterable[tuple[str, EngineReport]]) -> Iterator[Finding]:
    """Check for containers of another engine. `others`: where it listens, and what it answered."""
    known = {view.id for view in report.views}
    for place, other in others:
        foreign = [view for view in other.views if view.id not in known]
        # Podman often stands in at Docker's place, too: then both show the same containers.
        if other.engine is None or not foreign:
            continue
        says = (
            f"{other.engine.name} {other.engine.version} at {place} has {counted(len(foreign), 'more container')}, "
            f"which {agree(len(foreign), 'is', 'are')} not confined, and may also run on exclusive CPUs"
        )
        cure = "serve both (docs/how-to/serve-several-engines.md), or pin those of the other to the reserved CPUs"
        yield Finding("second engine", Verdict.WARN, says, cure)


UNJUDGED: Final = Finding(
    "containers",
    Verdict.OK,
    "not judged: their cpusets and limits may be those that the other sidecar set, which alone knows the originals",
)
"""Instead of what is wrong with containers, where a sidecar of another state directory manages them."""


def check_sidecars(holder: LockHolder | None, *, is_running: bool) -> Iterator[Finding]:
    """Check whether a sidecar of another state directory manages this engine. `holder` has the lock on it; a daemon
    `is_running` on the directory that was asked about.
    """
    if holder is None:
        return
    if is_running:
        yield Finding("one sidecar", Verdict.OK, "no other sidecar manages this engine")
    else:
        says = f"a sidecar of another state directory manages this engine{whereabouts(holder)}: no second one starts"
        yield Finding("one sidecar", Verdict.WARN, says, "ask about that one with --state-dir, or stop it first")


def check_further(reports: Iterable[tuple[str, EngineReport]], *, has_hand: bool = False) -> Iterator[Finding]:
    """Check each further engine that the sidecar is to serve: its name, and what it answered."""
    for name, report in reports:
        for each in (
            *check_engine(report),
            *check_notes(report, has_hand=has_hand),
            *check_builds(report, has_hand=has_hand),
        ):
            yield msgspec.structs.replace(each, question=f"{name}: {each.question}")
        if report.engine and report.engine.name != name.partition(":")[0]:
            says = f"{report.engine.name} answers where {name} should"
            yield Finding(f"{name}: name", Verdict.FAIL, says, "correct its address in engines")


def other_places(
    configured: Iterable[str], environ: Mapping[str, str], exists: Callable[[str], bool]
) -> tuple[str, ...]:
    """Return where an engine may listen that is not configured; a link to one that is does not count."""
    seen = set()
    for address in configured:
        with suppress(EngineUnavailable):
            if chosen := choose(address, environ, exists).path:
                seen.add(os.path.realpath(chosen))
    places = []
    for place in usual_places(environ):
        real = os.path.realpath(place)
        if exists(place) and real not in seen:
            seen.add(real)
            places.append(place)
    return tuple(places)
