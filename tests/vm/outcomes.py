"""The outcomes of the tests in the machines: pytest's junit files, counted by engine, cgroup, driver and feature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import msgspec

FEATURES: Final[Mapping[str, str]] = {
    "test_topology": "topology",
    "test_lifecycle": "life of exclusive containers",
    "test_daemon": "life of exclusive containers",
    "test_placing": "life of exclusive containers",
    "test_redeploys": "life of exclusive containers",
    "test_compose": "life of exclusive containers",
    "test_shortage": "life of exclusive containers",
    "test_cgroups": "engine's ground",
    "test_ground": "engine's ground",
    "test_doctor": "engine's ground",
    "test_giant_label": "faults",
    "test_crash": "faults",
    "test_dynamic": "dynamic policy",
    "test_dynamic_small": "dynamic policy",
    "test_hotplug": "hotplug",
    "test_hotplug_rules": "hotplug",
    "test_late_cpus": "hotplug",
    "test_astray": "hotplug",
    "test_systemd": "systemd and live-restore",
    "test_boot": "units and boot",
    "test_quadlets": "units and boot",
    "test_units": "units and boot",
    "test_isolated": "isolated CPUs",
    "test_slice": "shared slice",
    "test_looking": "contract",
    "test_updating": "contract",
    "test_signalling": "contract",
}
"""By the file that tests it."""

_FAMILIES: Final[Mapping[str, str]] = {
    "test_strict": "strict start",
    "test_default": "strict start",
    "test_slice": "shared slice",
    "test_faults": "faults",
    "test_podman": "Podman's own",
    "test_pods": "Podman's own",
    "test_without_service": "Podman's own",
}
"""By how the file's name begins, where the file has no line of its own."""


class Case(msgspec.Struct, frozen=True):
    """One test: its file, its name, `passed`, `skipped` or `failed`, why, and its seconds by the machine's clock."""

    file: str
    name: str
    outcome: str
    reason: str = ""
    seconds: float = 0.0

    @property
    def feature(self) -> str:
        """Return the feature that it tests."""
        if known := FEATURES.get(self.file):
            return known
        family = next((words for start, words in _FAMILIES.items() if self.file.startswith(start)), None)
        return family or self.file.removeprefix("test_").replace("_", " ")


class Count(msgspec.Struct, frozen=True):
    """How many tests of a cell."""

    passed: int = 0
    skipped: int = 0
    failed: int = 0

    def plus(self, outcome: str) -> Count:
        """Return the counts with one more."""
        return msgspec.structs.replace(self, **{outcome: getattr(self, outcome) + 1})

    def __str__(self) -> str:
        parts = [f"{self.passed} passed"] if self.passed else []
        parts += [f"{self.skipped} skipped"] if self.skipped else []
        parts += [f"**{self.failed} failed**"] if self.failed else []
        return ", ".join(parts)


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """A group that ran: on what, how it ended, and its tests. `problem` is why there are none, or not all."""

    group: str
    engine: str
    cgroup: str
    driver: str
    seconds: float
    code: int
    cases: tuple[Case, ...] = ()
    problem: str = ""

    @property
    def is_good(self) -> bool:
        """Return whether everything ran, and nothing failed."""
        return not self.problem and all(case.outcome != "failed" for case in self.cases)


def read_junit(path: Path) -> tuple[Case, ...]:
    """Return the tests in a junit file of pytest; none if there is no such file."""
    if not path.exists():
        return ()
    found = []
    for element in ElementTree.parse(path).getroot().iter("testcase"):
        classname, name = element.get("classname", ""), element.get("name", "")
        if not name:
            # The one in which pytest was interrupted.
            continue
        # A file that cannot be imported has no class, and its own path as its name.
        file = (classname or name).rsplit(".", 1)[-1]
        outcome, reason = "passed", ""
        for child in element:
            if child.tag in ("failure", "error"):
                outcome, reason = "failed", child.get("message", "")
            elif child.tag == "skipped" and outcome == "passed":
                outcome, reason = "skipped", child.get("message", "")
        found.append(Case(file, name, outcome, reason, float(element.get("time", "0"))))
    return tuple(found)


def cells(ran: Iterable[Ran]) -> dict[tuple[str, str, str], dict[str, Count]]:
    """Return counts by engine, cgroup version and driver, then by feature."""
    table: dict[tuple[str, str, str], dict[str, Count]] = {}
    for each in ran:
        row = table.setdefault((each.engine, each.cgroup, each.driver), {})
        for case in each.cases:
            row[case.feature] = row.get(case.feature, Count()).plus(case.outcome)
    return table


def table(ran: Iterable[Ran]) -> str:
    """Return the counts as a table in Markdown: a line per feature, a column per engine with its driver."""
    counted = cells(ran)
    columns = sorted(counted)
    features = sorted({feature for row in counted.values() for feature in row})
    head = ["feature", *(f"{engine}, {cgroup}, {driver}" for engine, cgroup, driver in columns)]
    lines = [head, ["---"] * len(head)]
    lines += [[feature, *(str(counted[column].get(feature, "")) or "-" for column in columns)] for feature in features]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
