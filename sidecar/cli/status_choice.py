"""Which containers and units `status` shows, and what a wide table has more of each. Pure."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from sidecar.status.document import ContainerStatus, SharingStatus, Status
from state.cpuset import CPUSet

S = TypeVar("S", bound=Status)


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A choice: only owners and what asks to be one, only what may run on one of some CPUs, or both."""

    is_owner_only: bool = False
    cpus: CPUSet | None = None

    def of(self, status: S) -> S:
        """Return the document with what is chosen; the machine and the daemon's own problems stay."""
        return msgspec.structs.replace(
            status,
            containers=tuple(each for each in status.containers if self._has(each)),
            units=tuple(each for each in status.units if self._has(each)),
        )

    def _has(self, each: ContainerStatus) -> bool:
        is_owner = bool(each.asked or each.granted) or each.sharing is SharingStatus.EXCLUSIVE
        is_there = self.cpus is None or not self.cpus.isdisjoint(each.cpus | each.granted | each.pinned)
        return is_there and (is_owner or not self.is_owner_only)


ALL: Final = Choice()


def wide_cells(each: ContainerStatus) -> tuple[str, str, str]:
    """Return size, range and use."""
    size = str(len(each.granted)) if each.granted else f"0 of {each.asked}" if each.asked else "-"
    return size, f"{each.floor}-{each.ceiling}" if each.ceiling else "-", f"{each.load.use:.1f}" if each.load else "-"
