"""The sections `[[rule]]` of the configuration's file: patterns, and labels without their prefix, with all mistakes.

A label's value may be a number, a truth value or a list, as TOML writes it; it is read as the label's text would be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from sidecar.decide.container.labels import NAMES, PREFIX, read_labels
from sidecar.decide.settings import Rule
from sidecar.misreadings import Form, ListKind, Misreading, Missing, NoTable, NotOfForm, TypedFlaw, Unknown
from sidecar.readers import Given, misreading, shown, text
from state.mistakes import Flaw

SECTION: Final = "rule"

_MATCH: Final = "match"
_UNIT: Final = "unit"
_PATTERNS: Final = ("name", "project", "image", _UNIT)
_KEYS: Final = (_MATCH, *(name.removeprefix(PREFIX) for name in NAMES))
_EXAMPLE: Final = '{ name = "db-*" }'


Places: TypeAlias = Callable[[int, str], str]
"""Returns `FILE, line N` of a key in the rule of this index, or of the rule itself for ""."""


def read_rules(value: object, places: Places) -> tuple[tuple[Rule, ...], list[Misreading]]:
    """Return the rules in the sections of a file, and all mistakes in them."""
    mistakes: list[Misreading] = []
    if not isinstance(value, list):
        return (), [Misreading(where=places(0, ""), name=SECTION, flaw=NoTable(is_list=True))]
    rules = [_rule(places, number, table, mistakes) for number, table in enumerate(value)]
    return tuple(rules), mistakes


def _rule(places: Places, number: int, table: object, mistakes: list[Misreading]) -> Rule:
    """Return one rule; its mistakes are added."""

    def fail(key: str, found: object, flaw: Flaw) -> None:
        given = Given(key, found, places(number, key.partition(".")[0]))
        mistakes.append(misreading(given, cast(TypedFlaw, flaw)))

    place = places(number, "")
    if not isinstance(table, Mapping):
        mistakes.append(Misreading(where=place, name=SECTION, flaw=NoTable(is_list=True)))
        return Rule(place=place)
    patterns = _patterns(table.get(_MATCH), fail)
    labels: dict[str, str] = {}
    for key, found in table.items():
        if key not in _KEYS:
            fail(key, found, Unknown(ListKind.KEY, _KEYS))
        elif key != _MATCH:
            labels[PREFIX + key] = _text(found)
    asked = read_labels(labels).values.exclusive
    for wrong in read_labels(labels, asked if isinstance(asked, int) and asked else None).mistakes:
        key = wrong.label.removeprefix(PREFIX)
        fail(key, table[key], wrong.flaw)
    return Rule(labels=labels, place=place, **patterns)


def _patterns(match: object, fail: Any) -> dict[str, str]:
    """Return the patterns by which a rule matches, at least one."""
    if match is None:
        fail(_MATCH, "", Missing(_EXAMPLE))
        return {}
    if not isinstance(match, Mapping) or not match:
        fail(_MATCH, match, NotOfForm(Form.MATCH))
        return {}
    found: dict[str, str] = {}
    for key, pattern in match.items():
        if key not in _PATTERNS:
            fail(f"{_MATCH}.{key}", pattern, Unknown(ListKind.KEY, tuple(f"{_MATCH}.{each}" for each in _PATTERNS)))
        elif isinstance(flaw := text(pattern), Flaw):
            fail(f"{_MATCH}.{key}", pattern, flaw)
        else:
            found[key] = str(pattern)
    if _UNIT in found and len(found) > 1:
        fail(_MATCH, match, NotOfForm(Form.MATCH))
    return found


def _text(value: object) -> str:
    """Return a value as a label would have it."""
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return value if isinstance(value, str) else shown(value)
