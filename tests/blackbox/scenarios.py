"""Random scenarios as plain values, and their TOML: a machine, settings, containers and events from a seed.

Nothing of the program is used: the keys are those of docs/reference/scenarios.md. A scenario ends with a rest, in which
all that was begun comes to its end.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

Table = dict[str, Any]
Scenario = dict[str, Any]

REST: Final = 130.0
"""Seconds after the last event: longer than every notice, cooldown and half-life that is drawn."""

SPACES: Final = (0.0, 0.0, 0.005, 0.05, 0.21, 0.5, 1.0, 2.0, 4.0, 9.0)
"""Seconds between two events."""

NAMES: Final = "abcdefg"


def scenario_of(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    rng = random.Random(seed)
    machine, count = _machine(rng)
    settings = _settings(rng, machine, count)
    containers = [_container(rng, name, settings, count) for name in NAMES[: rng.randint(1, 7)]]
    events = _Story(rng, machine, settings, containers, count).told()
    return {"machine": machine, "settings": settings, "container": containers, "event": events}


def toml_of(scenario: Scenario) -> str:
    """Return the text of a scenario."""
    ends = max((event["at"] for event in scenario["event"]), default=0.0) + REST
    parts = [f"ends = {ends:g}\n", _lines("[machine]", scenario["machine"]), _lines("[settings]", scenario["settings"])]
    parts += [_lines("[pace]", scenario["pace"])] if "pace" in scenario else []
    parts += [_lines("[[container]]", each) for each in scenario["container"]]
    parts += [_lines("[[event]]", each) for each in scenario["event"]]
    return "\n".join(parts)


def _lines(head: str, table: Mapping[str, Any]) -> str:
    return "\n".join([head, *(f"{key} = {_value(value)}" for key, value in table.items()), ""])


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_value(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)


def _machine(rng: random.Random) -> tuple[Table, int]:
    sockets, nodes, threads = rng.choice((1, 1, 1, 2)), rng.choice((1, 1, 2)), rng.choice((1, 2))
    groups = sockets * nodes * threads
    cores = rng.randint(max(1, -(-3 // groups)), max(2, min(64, rng.choice((6, 8, 12, 16, 32, 64))) // groups))
    machine = {"sockets": sockets, "nodes": nodes, "cores": cores, "threads": threads}
    if threads > 1 and rng.random() < 0.3:
        machine["adjacent"] = True
    return machine, groups * cores


def _settings(rng: random.Random, machine: Table, count: int) -> Table:
    policy = rng.choice(("static", "dynamic", "dynamic"))
    whole_core = "0-1" if machine.get("adjacent") else f"0,{count // 2}"
    reserved = rng.choice(("0", "0", whole_core if machine["threads"] > 1 else "0-1" if count > 3 else "0"))
    settings: Table = {"policy": policy, "reserved": reserved, "linger": rng.choice(("0s", "1s", "1s", "5s"))}
    if rng.random() < 0.3 and count > 5:
        settings["shared_min"] = rng.randint(1, 3)
    if rng.random() < 0.25:
        settings["shortage"] = "wait"
    if options := _options(rng, machine, is_host=True):
        settings["options"] = options
    if rng.random() < 0.3:
        settings["numa"] = rng.choice(("none", "restricted", "single"))
    if policy == "dynamic":
        settings["grace"] = rng.choice(("0s", "1s", "2s", "8s"))
        settings["cooldown"] = rng.choice(("0s", "2s", "10s"))
        if rng.random() < 0.2:
            settings["min_change"] = rng.randint(2, 4)
    return settings


def _options(rng: random.Random, machine: Table, *, is_host: bool) -> list[str]:
    options = []
    if machine["threads"] > 1 and rng.random() < 0.35:
        options.append("full-pcpus-only")
    if is_host and rng.random() < 0.15:
        options.append("strict-cpu-reservation")
    if rng.random() < 0.1:
        options.append("distribute-cpus-across-numa")
    elif rng.random() < 0.1 and "full-pcpus-only" not in options:
        options.append("distribute-cpus-across-cores")
    elif rng.random() < 0.1:
        options.append("prefer-align-cpus-by-uncorecache")
    return options


def _container(rng: random.Random, name: str, settings: Table, count: int) -> Table:
    kind = rng.choices(("fixed", "elastic", "plain", "pinned", "unmanaged", "bad"), (8, 9, 4, 2, 1, 1))[0]
    if kind in ("plain", "unmanaged"):
        made: Table = {"name": name} if kind == "plain" else {"name": name, "labels": {"cpuset.manage": "off"}}
        if kind == "unmanaged":
            made["labels"]["cpuset.exclusive"] = "1"
        return made
    if kind == "pinned":
        low = rng.randrange(count)
        return {"name": name, "cpuset": str(low) if rng.random() < 0.6 else f"{low}-{min(count - 1, low + 1)}"}
    if kind == "bad":
        labels = {"cpuset.exclusive": rng.choice(("1.5", "many", "1")), "cpuset.min": "7", "cpuset.max": "2"}
        return {"name": name, "labels": labels}
    wanted = rng.choice((1, 1, 2, 2, 3, 4, rng.randint(1, count)))
    labels = {"cpuset.exclusive": str(wanted)}
    container: Table = {"name": name, "labels": labels}
    if kind == "elastic":
        _make_elastic(rng, labels, wanted, count)
        if rng.random() < 0.4:
            container["follows"] = True
            container["moves_in"] = rng.choice(("0s", "50ms", "1s", "never"))
    _add_placement(rng, labels, settings, wanted)
    if labels.get("cpuset.scale") == "load":
        rises = {"at": f"{rng.randint(5, 40)}s", "cpus": rng.choice((0.2, wanted, 64))}
        container["demand"] = [{"at": "0s", "cpus": rng.choice((0.1, 1, wanted))}, rises]
    return container


def _make_elastic(rng: random.Random, labels: dict[str, str], wanted: int, count: int) -> None:
    labels["cpuset.min"] = str(rng.randint(1, wanted))
    labels["cpuset.max"] = str(rng.choice((wanted, wanted + 1, count)) if wanted <= count else wanted)
    if rng.random() < 0.3:
        labels["cpuset.scale"] = rng.choice(("load", "manual"))
    if rng.random() < 0.3:
        labels["cpuset.weight"] = rng.choice(("1", "30", "100"))
    if rng.random() < 0.4:
        labels["cpuset.grace"] = rng.choice(("0s", "500ms", "5s", "20s"))
    if rng.random() < 0.15:
        labels["cpuset.move"] = "true"


def _add_placement(rng: random.Random, labels: dict[str, str], settings: Table, wanted: int) -> None:
    if rng.random() < 0.25:
        labels["cpuset.numa"] = rng.choice(("single", "restricted", "best-effort", "none"))
    if rng.random() < 0.2:
        labels["cpuset.options"] = rng.choice(("", "full-pcpus-only", "full-pcpus-only"))
    if rng.random() < 0.3:
        labels["cpuset.on-shortage"] = rng.choice(("wait", "wait", "share", "stop"))


class _Story:
    """Draws the events: who is there, who was started, which CPUs are offline."""

    def __init__(
        self, rng: random.Random, machine: Table, settings: Table, containers: Sequence[Table], count: int
    ) -> None:
        self._rng = rng
        self._absent = [each["name"] for each in containers]
        self._there: list[str] = []
        self._manual = {e["name"] for e in containers if e.get("labels", {}).get("cpuset.scale") == "manual"}
        self._kept = numbers(settings["reserved"])
        self._count = count
        self._offline: set[int] = set()
        self._is_down = False
        self._events: list[Table] = []
        self._at = 1.0
        self._has_hotplug = rng.random() < 0.4 and count > 3
        self._has_crashes = rng.random() < 0.4

    def told(self) -> list[Table]:
        """Return the events: about each container's arrival, then what comes; at last the sidecar runs."""
        for _ in range(self._rng.randint(3, 16)):
            self._one()
            self._at = round(self._at + self._rng.choice(SPACES), 3)
        if self._is_down:
            self._say("restart")
        return self._events

    def _say(self, do: str, **more: object) -> None:
        self._events.append({"at": self._at, "do": do, **more})

    def _one(self) -> None:
        rng = self._rng
        choices = ["arrive"] * (3 if self._absent else 0) + (
            ["stop", "start", "restart", "remove"] if self._there else []
        )
        choices += ["crash"] if self._has_crashes else []
        choices += ["hotplug"] if self._has_hotplug else []
        choices += ["defragment"] if rng.random() < 0.1 else []
        choices += ["resize"] * 2 if self._manual & set(self._there) else []
        what = rng.choice(choices or ["defragment"])
        if what == "arrive":
            name = rng.choice(self._absent)
            self._absent.remove(name)
            self._there.append(name)
            self._say(rng.choices(("run", "create"), (9, 1))[0], container=name)
        elif what in ("stop", "start"):
            self._say(what, container=rng.choice(self._there))
        elif what == "restart":
            name = rng.choice(self._there)
            self._say("stop", container=name)
            self._say("start", container=name)
        elif what == "remove":
            name = rng.choice(self._there)
            self._there.remove(name)
            self._absent.append(name)
            self._say("remove", container=name)
        elif what == "resize":
            name = rng.choice(sorted(self._manual & set(self._there)))
            self._say("resize", container=name, cpus=rng.randint(1, self._count))
        elif what == "crash":
            self._is_down = not self._is_down
            self._say("crash" if self._is_down else "restart")
        elif what == "hotplug":
            self._switch()
        else:
            self._say("defragment")

    def _switch(self) -> None:
        if self._offline and self._rng.random() < 0.5:
            back = set(self._rng.sample(sorted(self._offline), self._rng.randint(1, len(self._offline))))
            self._offline -= back
            self._say("online", cpus=",".join(map(str, sorted(back))))
            return
        possible = [cpu for cpu in range(self._count) if cpu not in self._offline and cpu not in self._kept]
        gone = set(self._rng.sample(possible, min(len(possible) - 1, self._rng.choice((1, 1, 1, 2, 3)))))
        if gone:
            self._offline |= gone
            self._say("offline", cpus=",".join(map(str, sorted(gone))))


def numbers(text: str) -> frozenset[int]:
    """Return the CPUs of a list like `0-2,5`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        found |= set(range(int(low), int(high or low) + 1))
    return frozenset(found)
