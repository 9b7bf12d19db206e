"""The section `[tenants]` of the configuration's file: what tenants may do, as keys of its name.

`may` in the section is the key `tenants_may`, in the environment `CPUSET_SIDECAR_TENANTS_MAY`, and as a flag
`--tenants-may`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from sidecar.misreadings import GivenTwice, Misreading
from sidecar.readers import Given

TENANTS: Final = "tenants"


def flattened(given: Iterable[Given], place: Callable[[str], str]) -> Iterator[Given]:
    """Yield these keys, with the keys of the section `[tenants]` under their full names. `place` returns the place of a
    key in that section.
    """
    for each in given:
        if each.name == TENANTS and isinstance(each.value, Mapping):
            for key, value in each.value.items():
                yield Given(f"{TENANTS}_{key}", value, place(str(key)))
        else:
            yield each


def doubled(given: Iterable[Given]) -> Iterator[Misreading]:
    """Yield a mistake for each key that is there both in the section and by its full name: one would be lost."""
    first: dict[str, str] = {}
    for each in given:
        if each.name in first:
            yield Misreading(where=each.where, name=each.name, flaw=GivenTwice(first[each.name]))
        first.setdefault(each.name, each.where)
