"""Sections of a scenario's file: their values key by key, each error with its line and what would be right."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeVar

from sidecar.config.keys import Wrong
from sidecar.readers import nearest, seconds_of
from sidecar.simulation.busy_host import ScenarioError
from state.cpuset import CPUSet
from state.errors import CPUSetError

T = TypeVar("T")

MAX_SECONDS: Final = 7 * 86400.0
"""A scenario lasts a week at most."""

_HEADER: Final = re.compile(r"^[ \t]*(\[\[?)[ \t]*([^\[\]\n]+?)[ \t]*\]", re.MULTILINE)


class Text:
    """A TOML file's text, for finding the line on which something stands."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self._text = text
        found = [(match[2], match.start()) for match in _HEADER.finditer(text)]
        begins = [("", 0), *found]
        ends = [start for _, start in found] + [len(text)]
        self._parts = [(name, start, end) for (name, start), end in zip(begins, ends, strict=True)]

    def place(self, section: str = "", number: int = 0, key: str = "") -> str:
        """`FILE, line N` of a key in the section with this header, the so-many'th of its name; of the section if the
        key is not there."""
        parts = [(start, end) for name, start, end in self._parts if name == section]
        start, end = parts[number] if number < len(parts) else (0, len(self._text))
        key_there = re.compile(rf"""^[ \t]*(["']?){re.escape(key)}\1[ \t]*[.=]""", re.MULTILINE) if key else None
        match = key_there.search(self._text, start, end) if key_there else None
        at = match.start() if match else next((begins for name, begins, _ in self._parts if key and name == key), start)
        return f"{self.file}, line {self._text.count(chr(10), 0, at) + 1}"


class Section:
    """One table of the file. `take` every key that it may have, then `end`, which complains of any other."""

    def __init__(self, text: Text, table: object, header: str = "", number: int = 0) -> None:
        self._text = text
        self._header = header
        self._number = number
        self._taken: list[str] = []
        if not isinstance(table, Mapping):
            raise ScenarioError(f"{text.place(key=header)}: {header} is no table: write it as [{header}]")
        self._table: Mapping[str, object] = table

    def take(self, key: str, read: Callable[[object], T], otherwise: T) -> T:
        """The value of a key, or `otherwise` where it is not given. ScenarioError where it cannot be read."""
        self._taken.append(key)
        return self._read(key, read) if key in self._table else otherwise

    def raw(self, key: str, otherwise: object) -> object:
        """The value of a key as it is, or `otherwise`."""
        self._taken.append(key)
        return self._table.get(key, otherwise)

    def _read(self, key: str, read: Callable[[object], T]) -> T:
        try:
            return read(self._table[key])
        except Wrong as wrong:
            value = self._table[key]
            shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "..."
            raise ScenarioError(f"{self.place(key)}: {key} is {shown}{wrong}") from wrong

    def needs(self, key: str, read: Callable[[object], T], example: str) -> T:
        """The value of a key that must be there."""
        if key not in self._table:
            self.fail(f"{key} is missing: write {key} = {example}")
        self._taken.append(key)
        return self._read(key, read)

    def end(self) -> None:
        """ScenarioError where there is a key that was not taken."""
        for key in self._table:
            if key not in self._taken:
                self.fail(f"unknown key {key[:60]!r}{nearest(key, tuple(self._taken))}", key)

    def has(self, key: str) -> bool:
        """Whether the key is given."""
        return key in self._table

    def place(self, key: str = "") -> str:
        """Where a key, or this section, stands."""
        return self._text.place(self._header, self._number, key)

    def fail(self, problem: str, key: str = "") -> NoReturn:
        """ScenarioError with the place."""
        raise ScenarioError(f"{self.place(key)}: {problem}")


def text(value: object) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise Wrong(": write it as text, between quotes")
    return value


def truth(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise Wrong(": write true or false")
    return value


def seconds(value: object) -> float:
    """A duration, or a time since the beginning."""
    found = seconds_of(str(value) if type(value) in (int, float) else str(value).strip(), 0, MAX_SECONDS)
    if found is None or isinstance(value, bool):
        raise Wrong(": write a duration like 10s, 500ms or 2m")
    return found


def seconds_or_never(value: object) -> float | None:
    """A duration, or `never`."""
    if value == "never":
        return None
    try:
        return seconds(value)
    except Wrong:
        raise Wrong(": write a duration like 50ms, or never") from None


def count(low: int, high: int) -> Callable[[object], int]:
    """A whole number between two others."""

    def read(value: object) -> int:
        if type(value) is not int or not low <= value <= high:
            raise Wrong(f": write a whole number from {low} to {high}")
        return value

    return read


def amount(value: object) -> float:
    """A number of CPUs, fractions too."""
    if type(value) not in (int, float) or not 0 <= float(value) <= 8192:  # type: ignore[arg-type] # a number
        raise Wrong(": write a number of CPUs, like 2 or 0.5")
    return float(value)  # type: ignore[arg-type] # a number


def cpu_list(value: object) -> CPUSet:
    """A CPU list that is not empty."""
    try:
        found = CPUSet.parse(value) if isinstance(value, str) else CPUSet()
    except CPUSetError as error:
        raise Wrong(f': write a CPU list like "3" or "0-1,8" ({error})') from error
    if not found:
        raise Wrong(': write a CPU list like "3" or "0-1,8"')
    return found


def steps(value: object) -> tuple[tuple[float, float], ...]:
    """A number of CPUs for all of the time; or a list of tables, each with a time and the CPUs from then on."""
    right = ': write a number of CPUs, or a list like [{ at = "0s", cpus = 2 }, { at = "10s", cpus = 8 }]'
    if type(value) in (int, float):
        return ((0.0, amount(value)),)
    if not isinstance(value, list) or not all(isinstance(each, dict) and set(each) == {"at", "cpus"} for each in value):
        raise Wrong(right)
    try:
        found = [(seconds(each["at"]), amount(each["cpus"])) for each in value]
    except Wrong:
        raise Wrong(right) from None
    if found != sorted(found, key=lambda each: each[0]):
        raise Wrong(": put its times in order")
    return tuple(found)


def labels(value: object) -> dict[str, str]:
    """Labels: names with texts."""
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for each in _leaves(value)):
        raise Wrong(': write labels with texts, like { "cpuset.exclusive" = "2" }')
    return {name: str(text) for name, text in _named(value)}


def _leaves(value: Mapping[str, Any]) -> list[object]:
    return [leaf for _, leaf in _named(value)]


def _named(value: Mapping[str, Any], before: str = "") -> list[tuple[str, object]]:
    """Labels whose names have dots, written without quotes, are tables of tables to TOML: `cpuset.exclusive = "2"`."""
    found: list[tuple[str, object]] = []
    for name, each in value.items():
        found += _named(each, f"{before}{name}.") if isinstance(each, Mapping) else [(f"{before}{name}", each)]
    return found
