"""What cannot happen in a scenario, found before it is played: all of it at once, each with its place. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sidecar.misreadings import Misreading, TypedFlaw
from sidecar.scenario_flaws import IsThere, LastCPU, NoSuchCPUs, NotThere
from sidecar.simulation.scenario import Do, Event
from state.cpuset import EMPTY, CPUSet


class PlacedEvent(NamedTuple):
    """An event, and where its CPUs stand in the file."""

    event: Event
    cpus_where: str


class Unclear(NamedTuple):
    """An event that could not be read: the containers that it may create or remove, whether it may switch CPUs, and
    those of its CPUs that could be read, with their place.
    """

    containers: tuple[str, ...] = ()
    switches: bool = False
    cpus: CPUSet = EMPTY
    cpus_where: str = ""


def impossible(
    events: Iterable[PlacedEvent], online: CPUSet | None, ends: float, unclear: Iterable[Unclear] = ()
) -> Iterator[Misreading]:
    """Yield the events that fail at their time, up to the end: on missing or doubled containers, on CPUs that the
    machine does not have. `online` is what it has, None where that is not known.

    What the `unclear` events may change is not judged.
    """
    unclear = tuple(unclear)
    doubtful = {name for each in unclear for name in each.containers}
    is_switched = any(each.switches for each in unclear)
    for each in unclear:
        yield from _missing(each.cpus, each.cpus_where, online)
    there: list[str] = []
    now = online
    for event, cpus_where in sorted(events, key=lambda each: each.event.at):
        if event.at > ends:
            return
        if event.container in doubtful:
            pass
        elif event.do in (Do.RUN, Do.CREATE):
            if event.container in there:
                yield _at(event, IsThere())
            else:
                there.append(event.container)
        elif event.container and event.container not in there:
            yield _at(event, NotThere(tuple(there)))
        elif event.do is Do.REMOVE:
            there.remove(event.container)
        if online is None or now is None:
            continue
        yield from _missing(event.cpus, cpus_where, online)
        if event.do is Do.OFFLINE and not now - event.cpus and not is_switched:
            yield _at(event, LastCPU())
        elif event.do is Do.OFFLINE:
            now -= event.cpus
        elif event.do is Do.ONLINE:
            now |= event.cpus & online


def _missing(cpus: CPUSet, where: str, online: CPUSet | None) -> Iterator[Misreading]:
    """Yield the mistake if the machine does not have all of these."""
    if online is not None and (missing := cpus - online):
        yield Misreading(where=where, name="cpus", given=str(cpus), is_text=False, flaw=NoSuchCPUs(missing, online))


def _at(event: Event, flaw: TypedFlaw) -> Misreading:
    return Misreading(where=event.where, name=f"{event.do} at {event.at:g} s", given=event.container, flaw=flaw)
