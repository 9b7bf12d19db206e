"""What a scenario describes, by the words of the pages: the machine's cores and nodes, and what containers ask for."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from tests.blackbox.plain_values import Table, numbers

CPUs = frozenset[int]

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Plan(NamedTuple):
    """The machine: the CPUs of each core, of each node, and of each socket."""

    cores: tuple[CPUs, ...]
    nodes: tuple[CPUs, ...]
    sockets: tuple[CPUs, ...]

    @property
    def all(self) -> CPUs:
        """All CPUs of the machine."""
        return joined(self.cores)


class Asked(NamedTuple):
    """What one container asks for. `number` is 0 for a container that asks for nothing, or whose labels are invalid.

    `floor` and `ceiling` are whole cores where `whole_cores` says so; `least` and `most` are as said. `pin` is
    empty without a pin by hand, and `may_pin` says whether tenants may pin for good.
    """

    name: str
    number: int
    floor: int
    ceiling: int
    scale: str
    weight: int
    grace: float
    whole_cores: bool
    is_plain: bool
    numa: str
    shortage: str
    may_move: bool
    pin: CPUs
    is_managed: bool
    follows: bool
    is_in_doubt: bool
    priority: int = 5
    is_strict: bool = False
    may_pin: bool = True
    misspelt: tuple[str, ...] = ()
    role: tuple[str, ...] = ()
    least: int = 0
    most: int = 0


ROLE = ("com.docker.compose.project", "com.docker.compose.service", "com.docker.compose.container-number")

NUMBER, MIN, MAX = "cpuset.exclusive", "cpuset.min", "cpuset.max"

LABELS = frozenset(
    f"cpuset.{word}"
    for word in (
        *("exclusive", "options", "numa", "near", "mems", "on-shortage", "quota", "projection", "manage", "min", "max"),
        *("scale", "weight", "grace", "signal", "move", "priority"),
    )
)
"""The labels of the table in docs/reference/labels.md."""


def seconds(text: object) -> float:
    """Return the seconds of a duration such as `500ms`."""
    if isinstance(text, (int, float)):
        return float(text)
    for unit in ("ms", "s", "m", "h"):
        if str(text).endswith(unit) and str(text)[: -len(unit)].replace(".", "").isdigit():
            return float(str(text)[: -len(unit)]) * UNITS[unit]
    return float(str(text))


def joined(parts: Iterable[CPUs]) -> CPUs:
    """Return the CPUs of all parts."""
    return frozenset().union(*parts)


def plan_of(machine: Table) -> Plan:
    """Return the regular machine of the table `machine`."""
    sockets, nodes = machine.get("sockets", 1), machine.get("nodes", 1)
    cores, threads = machine.get("cores", 1), machine.get("threads", 1)
    total = sockets * nodes * cores
    of_core = [
        frozenset(c * threads + t if machine.get("adjacent") else c + t * total for t in range(threads))
        for c in range(total)
    ]
    of_node = [joined(of_core[n * cores : (n + 1) * cores]) for n in range(sockets * nodes)]
    of_socket = [joined(of_node[s * nodes : (s + 1) * nodes]) for s in range(sockets)]
    return Plan(tuple(of_core), tuple(of_node), tuple(of_socket))


def asked_of(container: Table, settings: Table, plan: Plan) -> Asked:
    """Return what a container asks for under these settings."""
    own: dict[str, Any] = container.get("labels", {})
    rights = rights_of(settings)
    labels = labels_of(container, settings)
    text = labels.get("cpuset.exclusive", "0")
    number = said = int(text) if text.isdigit() else 0
    least = int(labels.get("cpuset.min", number))
    most = int(labels.get("cpuset.max", number))
    options = settings.get("options", [])
    if "cpuset.options" in labels:
        options = list(filter(None, labels["cpuset.options"].split(",")))
    whole_cores, threads = "full-pcpus-only" in options, len(plan.cores[0])
    is_dynamic = settings["policy"] == "dynamic"
    is_range = is_dynamic and least < number
    is_wrong = container.get("runtime") == "cpuset" and any(n.startswith("cpu") and n not in LABELS for n in own)
    if is_wrong or not 1 <= least <= number <= most or (whole_cores and number % threads and not is_range):
        number = 0
    pin = numbers(container.get("cpuset", ""))
    pin = frozenset() if pin >= plan.all else pin
    if pin and len(pin) != number:
        number = 0
    if labels.get("cpuset.manage") == "off":
        number = 0
    step = threads if whole_cores else 1
    return Asked(
        name=container["name"],
        number=number,
        floor=-(-least // step) * step if is_dynamic else number,
        ceiling=max(most // step * step, -(-least // step) * step) if is_dynamic else number,
        scale=labels.get("cpuset.scale", "fill"),
        weight=int(labels.get("cpuset.weight", 10)),
        grace=seconds(labels.get("cpuset.grace", settings.get("grace", "2s"))) if is_dynamic else 0.0,
        whole_cores=whole_cores,
        is_plain=not whole_cores and not [each for each in options if each != "strict-cpu-reservation"],
        numa=str(labels.get("cpuset.numa", settings.get("numa", "none"))),
        shortage=str(labels.get("cpuset.on-shortage", settings.get("shortage", "share"))),
        may_move=labels.get("cpuset.move") == "true",
        pin=pin,
        is_managed=labels.get("cpuset.manage") != "off",
        follows=bool(container.get("follows")) and container.get("moves_in", "never") != "never",
        is_in_doubt=bool(pin) and said == len(pin),
        priority=int(labels.get("cpuset.priority", 5)),
        is_strict=container.get("runtime") == "cpuset",
        may_pin="pin" in rights,
        misspelt=tuple(name for name in own if name.startswith("cpu") and name not in LABELS),
        role=tuple(own[each] for each in ROLE) if all(each in own for each in ROLE) else (),
        least=least if is_dynamic else number,
        most=most if is_dynamic else number,
    )


def of_both(granted: Asked, now: Asked, threads: int) -> Asked:
    """Return what certainly holds for CPUs that were granted under other settings than those of now. "New options apply
    to new grants", but how many CPUs it may have "counts in whole cores from then on"
    (upgrade-and-change-policy); but for a number that comes to none.
    """
    if granted == now:
        return now
    floor, ceiling = granted.floor, granted.ceiling
    if granted.whole_cores != now.whole_cores and now.number and not now.number % threads:
        floor, ceiling = now.floor, now.ceiling
    elif granted.whole_cores != now.whole_cores:
        floor, ceiling = min(floor, now.floor), max(ceiling, now.ceiling)
    return granted._replace(
        floor=floor,
        ceiling=ceiling,
        whole_cores=granted.whole_cores and now.whole_cores,
        numa=granted.numa if granted.numa == now.numa else "none",
        is_plain=granted.is_plain and now.is_plain and granted.numa == now.numa,
    )


def keeping_its_number(container: Table, before: Table, now: Table) -> Table:
    """Return a container whose labels are what it asks for since the settings changed, with its own and those of its
    rule: the number and the `min` for which it was granted what it has, and all else as it is now. "No `max` is below
    the number that it keeps" (configuration). Without a request now, it is as it was.
    """
    had, has = labels_of(container, before), labels_of(container, now)
    if NUMBER not in has:
        return {**container, "labels": had}
    merged = {**has, **{name: had[name] for name in (NUMBER, MIN) if name in had}}
    if MIN not in had:
        merged.pop(MIN, None)
    if MAX in merged and (had.get(NUMBER), had.get(MIN)) != (has.get(NUMBER), has.get(MIN)):
        merged[MAX] = str(max(int(merged[MAX]), int(merged[NUMBER])))
    return {**container, "labels": merged}


def rights_of(settings: Table) -> set[str]:
    """Return what tenants may do: "by default no tenant can take a CPU from a container that was granted it"
    (configuration).
    """
    return {each.strip() for each in str(settings.get("tenants_may", "priority")).split(",")}


def labels_of(container: Table, settings: Table) -> dict[str, Any]:
    """Return its labels: its own, and of the others those of the first rule that matches it: "all of them must match;
    `*` stands for anything". "The other keys are labels without the prefix `cpuset.`". What tenants may not say is left
    out.
    """
    own: dict[str, Any] = container.get("labels", {})
    if own.get("cpuset.manage") == "off" and "opt-out" not in rights_of(settings):
        # "The label has no effect, and the status shows a warning" (configuration).
        own = {name: value for name, value in own.items() if name != "cpuset.manage"}
    texts = {"name": container["name"], "image": container.get("image", ""), "project": own.get(ROLE[0], "")}
    for rule in settings.get("rule", []):
        if all(fnmatchcase(texts[key], pattern) for key, pattern in rule["match"].items()):
            return {f"cpuset.{key}": str(value) for key, value in rule.items() if key != "match"} | own
    return own
