"""What cannot happen in a scenario, found before it is played: all of it at once, each with its place. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sidecar.misreadings import Misreading, TypedFlaw
from sidecar.scenario_flaws import IsThere, LastCPU, NoSuchCPUs, NotThere
from sidecar.simulation.scenario import Do, Event
from state.cpuset import CPUSet


class PlacedEvent(NamedTuple):
    """An event, and where its CPUs stand in the file."""

    event: Event
    cpus_where: str


def impossible(events: Iterable[PlacedEvent], online: CPUSet | None, ends: float) -> Iterator[Misreading]:
    """Yield the events that fail at their time, up to the end: on missing or doubled containers, on CPUs that the
    machine does not have. `online` is what it has, None where that is not known.
    """
    there: list[str] = []
    now = online
    for event, cpus_where in sorted(events, key=lambda each: each.event.at):
        if event.at > ends:
            return
        if event.do in (Do.RUN, Do.CREATE):
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
        if missing := event.cpus - online:
            yield Misreading(
                where=cpus_where, name="cpus", given=str(event.cpus), is_text=False, flaw=NoSuchCPUs(missing, online)
            )
        if event.do is Do.OFFLINE and not now - event.cpus:
            yield _at(event, LastCPU())
        elif event.do is Do.OFFLINE:
            now -= event.cpus
        elif event.do is Do.ONLINE:
            now |= event.cpus & online


def _at(event: Event, flaw: TypedFlaw) -> Misreading:
    return Misreading(where=event.where, name=f"{event.do} at {event.at:g} s", given=event.container, flaw=flaw)
