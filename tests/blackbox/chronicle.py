"""What was printed of a history, as values: its lines, and stages between which nothing changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from tests.blackbox.asked import (
    NUMBER,
    Asked,
    CPUs,
    Plan,
    asked_of,
    joined,
    keeping_its_number,
    labels_of,
    of_both,
    plan_of,
)
from tests.blackbox.plain_values import REST, Scenario, Table, numbers
from tests.blackbox.player import Printed


class Said(NamedTuple):
    """One line that was printed."""

    at: float
    what: str
    container: str
    cpus: CPUs
    was: CPUs
    why: str
    seconds: float | None


class Place(NamedTuple):
    """One container: the CPUs that it runs on (none if it does not run), its grant (None without), what is leaving, and
    whether it is told to be alone.
    """

    cpus: CPUs
    granted: CPUs | None
    leaving: CPUs
    is_alone: bool = False

    @property
    def own(self) -> CPUs:
        """What it runs on by its grant, what is leaving included."""
        return self.cpus & ((self.granted or frozenset()) | self.leaving)


NOWHERE = Place(frozenset(), None, frozenset())


class Stage(NamedTuple):
    """The host from `at` to `until`. `is_watched` says whether the sidecar runs, `since` from when on it does or not.

    `there` are all containers that exist, `running` those that run. `said` is what was printed when it began.
    `settings` are in force, and `under` are those under which each container was granted what it has.
    """

    at: float
    until: float
    online: CPUs
    reserved: CPUs
    places: dict[str, Place]
    there: frozenset[str]
    running: frozenset[str]
    is_watched: bool
    since: float
    said: tuple[Said, ...]
    settings: Table
    under: dict[str, Table]

    @property
    def is_dynamic(self) -> bool:
        """Whether sizes change."""
        return bool(self.settings["policy"] == "dynamic")

    @property
    def is_strict(self) -> bool:
        """Whether the reserved CPUs are not in the shared pool."""
        return "strict-cpu-reservation" in self.settings.get("options", [])

    def place(self, name: str) -> Place:
        """Return where a container is, NOWHERE if nothing is known."""
        return self.places.get(name, NOWHERE)

    @property
    def renewed(self) -> frozenset[str]:
        """The containers whose grant ended or was made now: also those that people released at the instant of their
        start, which are granted CPUs again at once.
        """
        words = ("granted", "released", "refused", "release")
        return frozenset(e.container for e in self.said if e.what in words and not e.why.startswith("not done"))

    @property
    def granted(self) -> CPUs:
        """All CPUs that are granted."""
        return joined(each.granted or frozenset() for each in self.places.values())


@dataclasses.dataclass(frozen=True)
class Chronicle:
    """A scenario with what was printed of it."""

    scenario: Scenario
    said: tuple[Said, ...]
    stages: tuple[Stage, ...]
    code: int = 0
    complaint: str = ""

    @cached_property
    def plan(self) -> Plan:
        """The machine."""
        return plan_of(self.scenario["machine"])

    @cached_property
    def isolated(self) -> CPUs:
        """The CPUs that the kernel isolates."""
        return numbers(self.scenario["machine"].get("isolated", ""))

    @cached_property
    def _containers(self) -> dict[str, Table]:
        return {each["name"]: each for each in self.scenario["container"]}

    @cached_property
    def _known(self) -> dict[tuple[str, int, int], Asked]:
        return {}

    @cached_property
    def _onlines(self) -> set[CPUs]:
        return {stage.online for stage in self.stages}

    def asked(self, name: str, stage: Stage) -> Asked:
        """Return what a container asks for: "new options apply to new grants", and one that has CPUs "keeps its number
        and its `min` if these changed", while "all else counts at once, whether its number changed or not". A cpuset of
        all CPUs that are online "is not a pin".
        """
        before = stage.under.get(name, stage.settings) if stage.place(name).granted is not None else stage.settings
        known = name, id(stage.settings), id(before)
        if known not in self._known:
            container, now = self._containers[name], stage.settings
            if before is not now:
                container, now = keeping_its_number(container, before, now), {**now, "rule": []}
            when_granted = {key: value for key, value in now.items() if key not in ("options", "numa")}
            when_granted |= {key: before[key] for key in ("options", "numa") if key in before}
            found = of_both(
                asked_of(container, when_granted, self.plan),
                asked_of(container, now, self.plan),
                len(self.plan.cores[0]),
            )
            if found.pin and any(online <= found.pin for online in self._onlines):
                found = found._replace(pin=frozenset(), number=0, is_in_doubt=True)
            self._known[known] = found
        return self._known[known]

    def asks_now(self, name: str, stage: Stage) -> Asked:
        """Return what it would ask for in a new request."""
        return self.asked(name, stage._replace(under={}))

    def has_request(self, name: str, stage: Stage) -> bool:
        """Return whether it would ask for CPUs of its own in a new request, rightly or not."""
        return NUMBER in labels_of(self._containers[name], stage.settings)

    def asked_since(self, name: str, since: float, at: float) -> bool:
        """Return whether it asked for CPUs of its own by a rule at any time from `since` to `at`, however briefly."""
        settings, is_asking = self.scenario["settings"], False
        reloads = sorted((e for e in self.scenario["event"] if e["do"] == "reload"), key=lambda e: float(e["at"]))
        for event in [{"at": 0.0, "settings": {}}, *reloads]:
            settings = {**settings, **event["settings"]}
            had, is_asking = is_asking, NUMBER in labels_of(self._containers[name], settings)
            if event["at"] <= at and (is_asking or had) and event["at"] >= since:
                return True
        return False

    def stage_at(self, at: float) -> Stage:
        """Return the stage in which something was printed."""
        return next((each for each in reversed(self.stages) if each.at <= at), self.stages[0])

    @property
    def last(self) -> Stage:
        """How it stands at the end."""
        return self.stages[-1]

    @cached_property
    def has_rested(self) -> bool:
        """Whether the end is a rest: the sidecar runs, and nothing was begun that is not over."""
        ended = max((event["at"] for event in self.scenario["event"]), default=0.0)
        return bool(self.stages) and self.last.is_watched and self.last.until >= ended + REST - 1

    @cached_property
    def reloads(self) -> tuple[float, ...]:
        """When other settings came into force."""
        return tuple(after.at for before, after in self.pairs() if before.settings is not after.settings)

    @cached_property
    def hotplugs(self) -> tuple[float, ...]:
        """When CPUs went offline, or came back."""
        return tuple(each.at for each in self.said if each.what in ("went offline", "came online"))

    def pool(self, stage: Stage) -> CPUs:
        """Return the shared pool, by its definition: what is online and not granted, and not kept for the host. With
        `prefer` and `only` it "never has" the isolated CPUs.
        """
        rest = stage.online - stage.granted - self.kept_isolated(stage)
        return (rest - stage.reserved or stage.reserved & stage.online or rest) if stage.is_strict else rest

    def kept_isolated(self, stage: Stage) -> CPUs:
        """Return the isolated CPUs that are for exclusive containers."""
        return self.isolated if stage.settings.get("isolated", "ignore") != "ignore" else frozenset()

    def is_stranger(self, name: str, stage: Stage) -> bool:
        """Return whether it is certainly pinned by hand, and left there: not if its request agrees with the pin."""
        asked = self.asked(name, stage)
        return bool(asked.pin) and asked.may_pin and asked.number == 0 and not asked.is_in_doubt

    def is_given_up(self, name: str, at: float) -> bool:
        """Return whether people have released its CPUs: "it asks again at its next start"."""
        words = ("release", "started")
        heard = [each for each in self.said if each.container == name and each.what in words and each.at <= at]
        last = [each for each in heard if not each.why.startswith("not done")][-1:]
        return any(each.what == "release" for each in last)

    def is_released_meanwhile(self, started: Said) -> bool:
        """Return whether people released it while it was being started: "it starts where it was told to, and others may
        run there already" (commands, `release`).
        """
        began = started.at - 1.0
        mine = (each for each in self.said if each.container == started.container)
        return any(each.what == "release" and began <= each.at <= started.at for each in mine)

    def pinned(self, stage: Stage, *, but: str = "") -> CPUs:
        """Return the CPUs of the containers that are pinned by hand."""
        return joined(self.asked(name, stage).pin for name in stage.there if name != but)

    def pairs(self) -> Iterator[tuple[Stage, Stage]]:
        """Yield each stage with the next one."""
        return zip(self.stages, self.stages[1:], strict=False)

    def stayed_online(self, before: Stage, after: Stage) -> CPUs:
        """Return the CPUs that are online in both stages, and did not go and come back at one instant between them."""
        gone = (each.cpus for each in self.said if each.what == "went offline" and before.at < each.at <= after.at)
        return (before.online & after.online) - joined(gone)

    def is_locked(self, name: str, stage: Stage) -> bool:
        """Return whether the engine has several orders of people for a container then: an update waits for all."""
        verbs = ("run", "start", "stop")
        events = [each for each in self.scenario["event"] if each.get("container") == name and each["do"] in verbs]
        return len([each for each in events if stage.at - 1 < each["at"] <= stage.at]) > 1

    def is_quiet(self, since: float, at: float) -> bool:
        """Return whether no CPU went or came from `since` to `at`, and no settings changed."""
        return not any(since <= each <= at for each in (*self.hotplugs, *self.reloads))


def chronicle_of(scenario: Scenario, printed: Printed) -> Chronicle:
    """Return the history that was printed of a scenario."""
    lines: list[Said] = []
    made: list[Stage] = []
    there: set[str] = set()
    running: set[str] = set()
    is_watched, since, pending = False, 0.0, len(lines)
    settings = _Settings(scenario)
    for each in printed.objects:
        if each["what"] != "now":
            line = _said(each)
            lines.append(line)
            _follow(line, there, running)
            settings.follow(line, is_watched=is_watched)
            if line.what in ("the sidecar starts", "the sidecar is killed"):
                is_watched, since = line.what == "the sidecar starts", line.at
                if made:
                    # A start and a crash at one instant: between them nothing was in force.
                    last = made.pop() if made[-1].at == line.at and not made[-1].said else made[-1]
                    now = last._replace(at=line.at, said=(), is_watched=is_watched, since=since)
                    made.append(now._replace(settings=settings.in_force))
            elif line.what == "reload" and made and made[-1].at == line.at and not made[-1].said:
                made[-1] = made[-1]._replace(settings=settings.in_force)
            continue
        if made and made[-1].at == each["at"]:
            # Several decisions of one instant: between them nothing was in force.
            pending -= len(made.pop().said)
        places = {
            one["name"]: Place(
                numbers(one["cpus"]),
                None if one["granted"] is None else numbers(one["granted"]),
                numbers(one["leaving"]),
                one["alone"],
            )
            for one in each["holdings"]
        }
        made.append(
            Stage(
                at=each["at"],
                until=each["at"],
                online=numbers(each["online"]),
                reserved=numbers(each["reserved"]),
                places=places,
                there=frozenset(there),
                running=frozenset(running),
                is_watched=is_watched,
                since=since,
                said=tuple(lines[pending:]),
                settings=settings.in_force,
                under=dict(settings.under),
            )
        )
        pending = len(lines)
    if made and pending < len(lines):
        now = made[-1]._replace(at=lines[-1].at, said=tuple(lines[pending:]), is_watched=is_watched, since=since)
        made.append(now._replace(there=frozenset(there), running=frozenset(running), settings=settings.in_force))
    ends = max((event["at"] for event in scenario["event"]), default=0.0) + REST
    return Chronicle(scenario, tuple(lines), tuple(_timed(made, ends)), printed.code, printed.complaint)


class _Settings:
    """The settings in force, from line to line: those of the file, which a sidecar that was killed reads at its start.

    `under` are those of each container's grant.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._edited = self._file = self.in_force = scenario["settings"]
        events = [each for each in scenario["event"] if each["do"] == "reload"]
        self._changes = [each["settings"] for each in sorted(events, key=lambda each: each["at"])]
        self.under: dict[str, Table] = {}

    def follow(self, line: Said, *, is_watched: bool) -> None:
        if line.what == "reload":
            self._edited = {**self._edited, **self._changes.pop(0)}
            if not line.why.startswith("not done"):
                self._file = self._edited
            self.in_force = self._file if is_watched else self.in_force
        elif line.what == "the sidecar starts":
            self.in_force = self._file
        elif line.what == "granted":
            self.under[line.container] = self.in_force
        elif line.what.startswith("the recorded grants were adapted") and " lost its exclusive CPUs" in line.why:
            # It may be granted others in the same decision, by the rules of now.
            self.under[line.why.partition(" lost")[0]] = self.in_force


def _timed(stages: Sequence[Stage], ends: float) -> Iterator[Stage]:
    for number, stage in enumerate(stages):
        yield stage._replace(until=stages[number + 1].at if number + 1 < len(stages) else ends)


def _follow(line: Said, there: set[str], running: set[str]) -> None:
    name = line.container
    if line.what == "created":
        there.add(name)
    elif line.what == "started":
        running.add(name)
    elif line.what in ("stopped", "removed"):
        running.discard(name)
        if line.what == "removed":
            there.discard(name)


def _said(each: dict[str, Any]) -> Said:
    return Said(
        at=each["at"],
        what=each["what"],
        container=each["container"],
        cpus=numbers(each["cpus"]),
        was=numbers(each["was"]),
        why=each["why"],
        seconds=each["seconds"],
    )
