"""Sections of a scenario's file: their values key by key, and all mistakes in them, each with its line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

from sidecar.config.toml_text import TOMLText
from sidecar.misreadings import Form, Misreading, Missing, NoTable, NotOfForm, TypedFlaw
from sidecar.readers import Given, Reader, amount, duration, misreading, unknown
from state.cpuset import MAX_CPU
from state.mistakes import Flaw, Seconds

T = TypeVar("T")

MAX_SECONDS: Final = 7 * 86400.0
"""A scenario lasts a week at most."""

_STEP: Final = frozenset(("at", "cpus"))


class Section:
    """One table of the file. `take` every key that it may have, then `end`, which finds any other.

    A wrong key counts as not given, and its mistake is in `mistakes`, which all sections of a file share.
    """

    def __init__(
        self,
        text: TOMLText,
        table: object,
        mistakes: list[Misreading],
        header: str = "",
        number: int = 0,
        *,
        inside: str = "",
    ) -> None:
        """Begin to read a table; one that is `inside` another one has the header and the number of that."""
        self._text = text
        self._header = header
        self._number = number
        self._inside = inside
        self._taken: list[str] = []
        self._sections: list[str] = []
        self.mistakes = mistakes
        if not isinstance(table, Mapping):
            where = self.place() if inside else text.place(key=header)
            mistakes.append(Misreading(where=where, name=inside or header, flaw=NoTable()))
        self._table: Mapping[str, object] = table if isinstance(table, Mapping) else {}

    def take(self, key: str, read: Reader[T, Any], otherwise: T) -> T:
        """Return the value of a key, or `otherwise` if it is not given or cannot be read."""
        self._taken.append(key)
        return self._read(key, read, otherwise) if key in self._table else otherwise

    def needs(self, key: str, read: Reader[T, Any], example: str, otherwise: T) -> T:
        """Return the value of a required key; `otherwise` if it is not given or cannot be read."""
        if key not in self._table:
            self.fail(Missing(example), name=key)
        self._taken.append(key)
        return self._read(key, read, otherwise) if key in self._table else otherwise

    def raw(self, key: str, otherwise: object) -> object:
        """Return the value of a key as it is, or `otherwise`."""
        self._taken.append(key)
        return self._table.get(key, otherwise)

    def all_of(self, key: str) -> list[Section]:
        """Return the sections of a list of tables."""
        value = self.raw(key, [])
        self._sections.append(key)
        if not isinstance(value, list):
            self.fail(NoTable(is_list=True), key, name=key)
            return []
        return [Section(self._text, table, self.mistakes, key, number) for number, table in enumerate(value)]

    def one_of(self, key: str) -> Section:
        """Return the section of a table; an empty one if it is not given."""
        self._sections.append(key)
        if self._header:
            return Section(self._text, self.raw(key, {}), self.mistakes, self._header, self._number, inside=key)
        return Section(self._text, self.raw(key, {}), self.mistakes, key)

    def given(self) -> list[Given]:
        """Return all keys as they are, with their places."""
        return [Given(key, value, self.place(key)) for key, value in self._table.items()]

    def end(self) -> None:
        """Find the keys that were not taken."""
        for key, value in self._table.items():
            if key not in self._taken:
                flaw = unknown(value, self._taken, self._sections or None)
                self.mistakes.append(misreading(Given(key, value, self.place(key)), flaw))

    def has(self, key: str) -> bool:
        """Return whether the key is given."""
        return key in self._table

    def place(self, key: str = "") -> str:
        """Return the place of a key, or of this section."""
        if self._inside:
            return self._text.place_inside(self._header, self._number, self._inside, key)
        return self._text.place(self._header, self._number, key)

    def place_of(self, key: str, number: int, inner: str = "") -> str:
        """Return the place of a key in the table of this index in the list `key`, or of that table itself."""
        path = self.path_of(key)
        return self.place(key) if self._inside else self._text.place_in_list(path, number, inner) or self.place(key)

    def path_of(self, key: str) -> str:
        """Return the header of a section inside this one."""
        return ".".join(filter(None, (self._header, self._inside, key)))

    def fail(self, flaw: TypedFlaw, key: str = "", *, name: str = "") -> None:
        """Record a mistake at the place of a key, or of this section."""
        self.mistakes.append(
            Misreading(where=self.place(key), name=name or key or self._inside or self._header, flaw=flaw)
        )

    def _read(self, key: str, read: Reader[T, Any], otherwise: T) -> T:
        found = read(self._table[key])
        if isinstance(found, Flaw):
            given = Given(key, self._table[key], self.place(key))
            self.mistakes.append(misreading(given, cast(TypedFlaw, found)))
            return otherwise
        return cast(T, found)


cpus: Final = amount(MAX_CPU + 1)
seconds: Final = duration(0, MAX_SECONDS)


def seconds_or_never(value: object) -> float | NotOfForm | None:
    """Return a duration; None for `never`."""
    found = None if value == "never" else seconds(value)
    return NotOfForm(Form.DELAY) if isinstance(found, Seconds) else found


def steps(value: object) -> tuple[tuple[float, float], ...] | NotOfForm:
    """Read a constant number of CPUs; or a list of tables, each with a time and the CPUs from then on."""
    if not isinstance(value, list):
        always = cpus(value) if not isinstance(value, str) else NotOfForm(Form.STEPS)
        return NotOfForm(Form.STEPS) if isinstance(always, NotOfForm) else ((0.0, always),)
    found = []
    for each in value:
        if not isinstance(each, Mapping) or each.keys() != _STEP:
            return NotOfForm(Form.STEPS)
        at, wanted = seconds(each["at"]), cpus(each["cpus"])
        if isinstance(at, Seconds) or isinstance(wanted, NotOfForm):
            return NotOfForm(Form.STEPS)
        found.append((at, wanted))
    is_in_order = found == sorted(found, key=lambda each: each[0])
    return tuple(found) if is_in_order else NotOfForm(Form.STEPS_IN_ORDER)


def labels(value: object) -> dict[str, str] | NotOfForm:
    """Read labels: names with texts."""
    named = dict(_named(value)) if isinstance(value, Mapping) else {"": None}
    found = {name: text for name, text in named.items() if isinstance(text, str)}
    return found if len(found) == len(named) else NotOfForm(Form.LABELS)


def _named(value: Mapping[str, Any], before: str = "") -> list[tuple[str, object]]:
    """Return labels by their full names. TOML makes tables of tables of unquoted names with dots: `cpuset.exclusive =
    "2"`.
    """
    found: list[tuple[str, object]] = []
    for name, each in value.items():
        found += _named(each, f"{before}{name}.") if isinstance(each, Mapping) else [(f"{before}{name}", each)]
    return found
