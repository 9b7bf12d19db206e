"""Withdrawals from many containers at once, as far as each is a plain write: `Projections.withdraw` has the rules.

It is plain for a container that has one directory, whose files are known to be what was written last, and of which no
CPUs are leaving, as long as it keeps some. That they still are what was written is seen at the write, by
`file_replacer`: what a workload wrote in their place counts, and is left to the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from sidecar.projection.belongings import Owners, ToldProjection
from sidecar.projection.directories import opened_root
from sidecar.projection.file_replacer import Replacement, Replacer
from sidecar.projection.numbering import Numbers, time_text
from state.cpuset import CPUSet
from state.errors import StateError
from state.projection import ProjectionFiles

_ID: Final = 12
"""Digits of a container's id in the name of its directory. A unit's is longer, and so is known by another name."""


class Narrowing:
    """Narrows what `told` has as written. `clock` gives seconds since 1970."""

    def __init__(
        self,
        root: str,
        told: MutableMapping[str, ToldProjection],
        owners: Owners,
        numbers: Numbers,
        clock: Callable[[], float],
        replacer: Replacer | None,
    ) -> None:
        self._root = root
        self._told = told
        self._owners = owners
        self._numbers = numbers
        self._clock = clock
        self._replacer = replacer or Replacer(None)

    def narrow(self, taken: Iterable[tuple[str, CPUSet]]) -> list[str]:
        """Remove all CPUs but these from the files of each container. Return those for which that is left to do."""
        if not self._replacer.is_able:
            return [container for container, _ in taken]
        narrowed: list[tuple[str, ToldProjection]] = []
        replacements: list[Replacement] = []
        left: list[str] = []
        now = time_text(self._clock())
        for container, cpus in taken:
            short = container[:_ID]
            told = self._told.get(short)
            if told is None or told.written is None or not self._is_plain(container, told):
                left.append(container)
                continue
            last = told.written
            if last.projection.cpus <= cpus:
                continue
            number = last.projection.generation + 1
            new = ProjectionFiles.of(last.projection.within(cpus).stamped(number, now))
            if not (new.cpuset and self._numbers.is_believed(number)):
                left.append(container)
                continue
            # Remembered before it is written: whatever happens then, the next number is higher.
            self._told[short] = msgspec.structs.replace(told, written=new, is_everywhere=False)
            narrowed.append((container, msgspec.structs.replace(told, written=new)))
            replacements.append(Replacement(short, last.status, new.status, new.cpuset))
        for (container, known), is_done in zip(narrowed, self._replaced(replacements), strict=True):
            if is_done:
                self._told[container[:_ID]] = known
            else:
                left.append(container)
        return left

    def _is_plain(self, container: str, told: ToldProjection) -> bool:
        is_known = told.is_everywhere and not told.names and told.since is None
        leaves = told.projection is None or told.projection.leaving
        return is_known and not leaves and self._owners.is_owner(container)

    def _replaced(self, replacements: Sequence[Replacement]) -> Sequence[bool]:
        if replacements:
            with suppress(StateError), opened_root(self._root) as tree:
                return tree.replace_all(replacements, self._replacer)
        return [False] * len(replacements)
