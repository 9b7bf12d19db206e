"""The sections `[[rule]]` of the configuration's file: patterns, and labels without their prefix, with all mistakes.

A label's value may be a number, a truth value or a list, as TOML writes it; it is read as the label's text would be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from sidecar.config.toml_text import TOMLText
from sidecar.decide.container.labels import NAMES, PREFIX, read_labels
from sidecar.decide.settings import Rule
from sidecar.misreadings import Form, ListKind, Misreading, Missing, NoTable, NotOfForm, TypedFlaw, Unknown
from sidecar.readers import Given, misreading, shown, text
from state.mistakes import Flaw

SECTION: Final = "rule"

_MATCH: Final = "match"
_PATTERNS: Final = ("name", "project", "image")
_KEYS: Final = (_MATCH, *(name.removeprefix(PREFIX) for name in NAMES))
_EXAMPLE: Final = '{ name = "db-*" }'


def read_rules(file: TOMLText, value: object) -> tuple[tuple[Rule, ...], list[Misreading]]:
    """Return the rules in the sections of a file, and all mistakes in them."""
    mistakes: list[Misreading] = []
    if not isinstance(value, list):
        place = file.place(key=SECTION)
        return (), [Misreading(where=place, name=SECTION, flaw=NoTable(is_list=True))]
    rules = [_rule(file, number, table, mistakes) for number, table in enumerate(value)]
    return tuple(rules), mistakes


def _rule(file: TOMLText, number: int, table: object, mistakes: list[Misreading]) -> Rule:
    """Return one rule; its mistakes are added."""

    def fail(key: str, found: object, flaw: Flaw) -> None:
        given = Given(key, found, file.place(SECTION, number, key.partition(".")[0]))
        mistakes.append(misreading(given, cast(TypedFlaw, flaw)))

    place = file.place(SECTION, number)
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
    return found


def _text(value: object) -> str:
    """Return a value as a label would have it."""
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return value if isinstance(value, str) else shown(value)
