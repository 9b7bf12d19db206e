"""What happened in a simulation, and where each container ran from then on: Happening and Frame. Pure values.

Decisions use the sentences of the daemon's log (`sidecar.words.changes`); what the simulated people, engine and
workloads do has words of its own (`What`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

import msgspec

from sidecar.decide.facts import Fact, ResizeRequested
from sidecar.decide.world import World
from sidecar.words.changes import Line, at_start, news
from sidecar.words.counts import counted
from sidecar.words.sizes_text import about_size
from state.cpuset import EMPTY, CPUSet
from state.model import State


class What(enum.StrEnum):
    """What happens beside the decisions, and `now`, which says how things stand. From `start` to `restart`: what was to
    happen, and would change nothing.
    """

    CREATED = "created"
    STARTED = "started"
    NOT_STARTED = "could not start"
    STOPPED = "stopped"
    REMOVED = "removed"
    RUNS_ON = "runs on"
    IN_PLACE = "in place"
    ACKNOWLEDGES = "acknowledges"
    SIGNALLED = "was sent a signal"
    DEMAND = "would use"
    RESIZE = "resize"
    RELEASE = "release"
    DEFRAGMENT = "defragment"
    RELOAD = "reload"
    OFFLINE = "went offline"
    ONLINE = "came online"
    WARNING = "warning"
    SIDECAR_STARTED = "the sidecar starts"
    SIDECAR_CRASHED = "the sidecar is killed"
    START = "start"
    STOP = "stop"
    SWITCH_OFF = "offline"
    SWITCH_ON = "online"
    CRASH = "crash"
    RESTART = "restart"
    NOW = "now"
    BROKEN = "BROKEN"


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened, at `at` seconds. `container` is a name, "" if no container is concerned.

    `cpus` are the CPUs gained or lost, or, for `runs on`, all that the container has now; `was` is what it had instead
    before. `why` is a sentence for people, "" for none. `seconds` is the notice of a take that begins, or the time from
    the decision until a container is in place.
    """

    at: float
    what: str
    container: str = ""
    cpus: CPUSet = EMPTY
    was: CPUSet = EMPTY
    why: str = ""
    seconds: float | None = None


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """One container for some time: where it runs, its grant, and what is leaving it.

    `granted` is None without a grant, `alone` is whether it is told to be, and `wants` the CPUs that it would use if it
    had them.
    """

    name: str
    cpus: CPUSet
    granted: CPUSet | None = None
    leaving: CPUSet = EMPTY
    alone: bool = False
    wants: float = 0.0


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """The host from `at` on, until the next frame. `what` tells it from a Happening where both are printed."""

    at: float
    what: What = What.NOW
    online: CPUSet
    reserved: CPUSet
    holdings: tuple[Holding, ...]


def told(before: World, now: World, at: float) -> Iterator[Happening]:
    """Yield the lines of the daemon's log about this decision."""
    for line in news(before, now):
        yield _happening(line, at)


def after_resizes(before: World, now: World, burst: Iterable[Fact], at: float) -> Iterator[Happening]:
    """Yield what `cpuset-sidecar resize` says of the sizes that were ordered in this decision, and the log does not: a
    change says itself what became of the number.
    """
    for key in (fact.container for fact in burst if isinstance(fact, ResizeRequested)):
        grant, container = now.state.assignments.get(key), now.containers.get(key)
        if grant is None or container is None:
            continue
        was = before.state.assignments.get(key)
        rounded, short = about_size(now, container, grant)
        if was is not None and was.cpus == grant.cpus:
            said = [text for text in (rounded, short) if text] or [f"it has {counted(len(grant.cpus), 'CPU')} already"]
        else:
            said = [short] if short else []
        if said:
            yield Happening(at=at, what=What.RESIZE, container=grant.name, why="; ".join(said))


def begun(recorded: State, world: World, at: float) -> Iterator[Happening]:
    """Yield the lines of the daemon's log about what its start changed in the recorded State."""
    for line in at_start(recorded, world):
        yield _happening(line, at)


def _happening(line: Line, at: float) -> Happening:
    fields = dict(line.fields)
    container = str(fields.pop("container", ""))
    cpus, was = fields.pop("cpus", fields.pop("to", None)), fields.pop("from", None)
    said = [str(fields.pop(key)) for key in ("reason", "note") if key in fields]
    notice = fields.get("notice_seconds")
    return Happening(
        at=at,
        what=line.message,
        container=container,
        cpus=cpus if isinstance(cpus, CPUSet) else EMPTY,
        was=was if isinstance(was, CPUSet) else EMPTY,
        why="; ".join(said),
        seconds=notice if isinstance(notice, float) else None,
    )
