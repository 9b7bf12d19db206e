"""Random scenarios as plain values, and their TOML: a machine, settings and containers from a seed.

Nothing of the program is used: the keys are those of docs/reference/scenarios.md. A scenario ends with a rest, in which
all that was begun comes to its end.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.blackbox.drawn_settings import settings_of
from tests.blackbox.plain_values import REST, Scenario, Table
from tests.blackbox.story import Story

NAMES: Final = "abcdefg"

ROLE: Final = "com.docker.compose"
"""The prefix of the labels that say which container replaces which."""

MISSPELT: Final = ("cpuset.exclusiv", "cpusets.exclusive", "cpuset-exclusive", "cpu-set.exclusive", "cpuset.maximum")
"""Names of labels that are like a right one."""


def scenario_of(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    rng = random.Random(seed)
    machine, count = _machine(rng)
    settings = settings_of(rng, machine, count)
    containers = [_container(rng, name, settings, count) for name in NAMES[: rng.randint(1, 7)]]
    containers += _successors(rng, containers)
    events = Story(rng, machine, settings, containers, count).told()
    return {"machine": machine, "settings": settings, "container": containers, "event": events}


def toml_of(scenario: Scenario) -> str:
    """Return the text of a scenario."""
    ends = max((event["at"] for event in scenario["event"]), default=0.0) + REST
    parts = [f"ends = {ends:g}\n", _lines("[machine]", scenario["machine"]), _lines("[settings]", scenario["settings"])]
    parts += [_lines("[pace]", scenario["pace"])] if "pace" in scenario else []
    parts += [_lines("[[container]]", each) for each in scenario["container"]]
    parts += [_lines("[[event]]", each) for each in scenario["event"]]
    return "\n".join(parts)


def _successors(rng: random.Random, containers: Sequence[Table]) -> list[Table]:
    """Return containers that replace others: of the same project, service and number. These get the labels, too."""
    found: list[Table] = []
    for each in containers:
        labels = each.get("labels", {})
        if not labels.get("cpuset.exclusive", "0").isdigit() or "cpuset" in each or rng.random() > 0.2:
            continue
        each["labels"] = labels | {
            f"{ROLE}.project": "shop",
            f"{ROLE}.service": each["name"],
            f"{ROLE}.container-number": "1",
        }
        found.append({**each, "name": f"{each['name']}-new", "labels": dict(each["labels"])})
        if rng.random() < 0.2:
            found[-1]["labels"]["cpuset.exclusive"] = str(rng.randint(1, 3))
    return found


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
    machine: Table = {"sockets": sockets, "nodes": nodes, "cores": cores, "threads": threads}
    if threads > 1 and rng.random() < 0.3:
        machine["adjacent"] = True
    count = groups * cores
    if count > 4 and rng.random() < 0.2:
        # Never CPU 0 and its sibling, nor what is reserved by count: the lowest.
        machine["isolated"] = ",".join(map(str, sorted(rng.sample(range(3, count), rng.randint(1, (count - 2) // 2)))))
    return machine, count


def _container(rng: random.Random, name: str, settings: Table, count: int) -> Table:
    kind = rng.choices(("fixed", "elastic", "plain", "pinned", "unmanaged", "bad"), (8, 9, 4, 2, 1, 1))[0]
    if kind in ("plain", "unmanaged"):
        made: Table = {"name": name} if kind == "plain" else {"name": name, "labels": {"cpuset.manage": "off"}}
        if kind == "plain":
            _dress(rng, made)
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
    if rng.random() < 0.15:
        labels["cpuset.priority"] = rng.choice(("0", "4", "9"))
    if rng.random() < 0.12:
        container["runtime"] = "cpuset"
        if rng.random() < 0.1:
            labels[rng.choice(MISSPELT)] = "1"
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


def _dress(rng: random.Random, plain: Table) -> None:
    """Give a container that asks for nothing what a rule may match, a misspelt label, or the strict runtime."""
    if rng.random() < 0.3:
        plain["image"] = rng.choice(("db:1", "web:2"))
    labels: dict[str, str] = {f"{ROLE}.project": "shop"} if rng.random() < 0.3 else {}
    if rng.random() < 0.3:
        labels[rng.choice(MISSPELT)] = str(rng.randint(1, 2))
    if rng.random() < 0.2:
        plain["runtime"] = "cpuset"
    if labels:
        plain["labels"] = labels


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
