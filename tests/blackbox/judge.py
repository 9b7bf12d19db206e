"""The judge: all promises over one history, and the smallest scenario that still breaks one of them."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

from tests.blackbox import (
    promises_keeping,
    promises_rest,
    promises_settings,
    promises_sharing,
    promises_sizes,
    promises_starts,
)
from tests.blackbox.chronicle import Chronicle, chronicle_of
from tests.blackbox.finding import Finding
from tests.blackbox.plain_values import Scenario
from tests.blackbox.player import printed

PROMISES = (
    *promises_sharing.PROMISES,
    *promises_sizes.PROMISES,
    *promises_keeping.PROMISES,
    *promises_rest.PROMISES,
    *promises_settings.PROMISES,
    *promises_starts.PROMISES,
)


def judged(chronicle: Chronicle) -> tuple[Finding, ...]:
    """Return the broken promises of a history, the earliest first, one for each promise and container."""
    found: dict[tuple[str, str], Finding] = {}
    for promise in PROMISES:
        for each in promise(chronicle) if chronicle.stages or promise is promises_keeping.nothing_breaks else ():
            found.setdefault((each.promise, each.container), each)
    return tuple(sorted(found.values(), key=lambda each: each.at))


def broken_in(scenario: Scenario) -> tuple[Finding, ...]:
    """Play a scenario, and return its broken promises."""
    return judged(chronicle_of(scenario, printed(scenario)))


def cut_down(scenario: Scenario, promise: str) -> Scenario:
    """Return the scenario without what is not needed to break this promise: events, containers, labels, settings."""
    small, is_smaller = scenario, True
    while is_smaller:
        is_smaller = False
        for less in _smaller(small):
            if any(each.promise == promise for each in broken_in(less)):
                small, is_smaller = less, True
                break
    return small


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenarios that lack one thing. A container goes with its events."""
    for name in [each["name"] for each in scenario["container"]]:
        less = deepcopy(scenario)
        less["container"] = [each for each in less["container"] if each["name"] != name]
        less["event"] = [each for each in less["event"] if each.get("container") != name]
        yield less
    for number in range(len(scenario["event"])):
        less = deepcopy(scenario)
        del less["event"][number]
        if _is_possible(less):
            yield less
    for number, container in enumerate(scenario["container"]):
        for part in container.get("labels", {}):
            less = deepcopy(scenario)
            del less["container"][number]["labels"][part]
            yield less
        for key in set(container) - {"name", "labels"}:
            less = deepcopy(scenario)
            del less["container"][number][key]
            if "follows" in less["container"][number] or "moves_in" not in less["container"][number]:
                yield less
    for key in set(scenario["settings"]) - {"policy", "reserved"}:
        less = deepcopy(scenario)
        del less["settings"][key]
        yield less
    for number, event in enumerate(scenario["event"]):
        for key in event.get("settings", {}) if len(event.get("settings", {})) > 1 else ():
            less = deepcopy(scenario)
            del less["event"][number]["settings"][key]
            yield less
    if "isolated" in scenario["machine"]:
        less = deepcopy(scenario)
        del less["machine"]["isolated"]
        yield less


def _is_possible(scenario: Scenario) -> bool:
    there: set[str] = set()
    for event in scenario["event"]:
        name = event.get("container")
        if event["do"] in ("run", "create"):
            if name in there:
                return False
            there.add(name)
        elif name and name not in there:
            return False
        elif event["do"] == "remove":
            there.discard(name)
    return True
