"""AskingUnits: which units of systemd ask for CPUs of their own, by their files, and what systemd says of these units.

systemd is asked once for the files of a unit, and again after a reload: its answer about a hundred units takes as long
as about one. A unit that asks is described at each look as well, since that tells when its run began.
While systemd is silent, what it said last counts; of a unit of which it never said anything, nothing can be said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, Protocol

from sidecar.failures import EngineUnavailable
from sidecar.host.cgroup.places import read
from sidecar.host.units.unit_labels import labels_of
from sidecar.host.units.unit_properties import UnitDescription
from sidecar.systemd_names import may_ask

_AT_A_TIME: Final = 16


class Describing(Protocol):
    """What describes units."""

    async def described(self, units: Sequence[str]) -> dict[str, UnitDescription]:
        """Return what systemd says of each unit. Raise EngineError."""


class AskingUnits:
    """What is known of the units that may ask. `patterns` are names that the configuration gives labels to."""

    def __init__(self, systemd: Describing, patterns: Collection[str] = ()) -> None:
        self._systemd = systemd
        self.patterns = tuple(patterns)
        self._labels: dict[str, Mapping[str, str]] = {}
        self._read: set[str] = set()
        """The units whose files were read since the last reload."""
        self._described: dict[str, UnitDescription] = {}

    @property
    def names(self) -> frozenset[str]:
        """The units that are known to ask."""
        return frozenset(name for name in self._labels if self.asks(name))

    def asks(self, name: str) -> bool:
        """Return whether a unit is known to ask, by its files or by the configuration."""
        return bool(self._labels.get(name)) or (may_ask(name) and self._is_ruled(name))

    def is_known(self, name: str) -> bool:
        """Return whether the files of a unit were read."""
        return name in self._read

    def labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a unit by its files."""
        return self._labels.get(name, {})

    def forget(self) -> None:
        """Read all files again when they are next asked for. Until then what they said counts."""
        self._read = set()

    def retain(self, names: Collection[str]) -> None:
        """Forget all units but these."""
        self._read &= set(names)
        self._labels = {name: each for name, each in self._labels.items() if name in names}
        self._described = {name: each for name, each in self._described.items() if name in names}

    def said(self, name: str) -> UnitDescription:
        """Return what systemd last said of a unit."""
        return self._described.get(name, UnitDescription())

    async def meet(self, names: Iterable[str]) -> None:
        """Read the files of the units that were not read. Raise EngineError if systemd does not tell them."""
        unknown = sorted({name for name in names if may_ask(name) and name not in self._read})
        for first in range(0, len(unknown), _AT_A_TIME):
            # What is cancelled meanwhile goes on from there.
            await self._describe(unknown[first : first + _AT_A_TIME])

    async def described(self, name: str) -> UnitDescription:
        """Return what systemd says of a unit now, or said last. Raise EngineUnavailable if it never said anything."""
        try:
            await self._describe([name])
        except EngineUnavailable:
            if name not in self._described:
                raise
        return self.said(name)

    async def _describe(self, names: Sequence[str]) -> None:
        for name, found in (await self._systemd.described(names)).items():
            texts = ((read(path) or b"").decode("utf-8", "replace") for path in found.files)
            self._labels[name] = labels_of(texts)
            self._read.add(name)
            # A unit that was unloaded, and is loaded again, has not run as far as systemd knows.
            self._described[name] = found._replace(started=found.started or self.said(name).started)

    def _is_ruled(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)
