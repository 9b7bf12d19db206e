"""LookingRound: one round of looks for an inventory, and what came of it in time."""

from __future__ import annotations

from collections.abc import Iterable

import trio

from sidecar.decide.facts import ContainerView
from sidecar.failures import EngineError, EngineSilent, EngineUnavailable
from state.key import ContainerKey


class LookingRound:
    """Waits for looks, each of which ends or is left out."""

    def __init__(self, containers: Iterable[ContainerKey]) -> None:
        self.found: list[ContainerView] = []
        self.failed: dict[ContainerKey, EngineError] = {}
        self.failed_glances: list[EngineError] = []
        """Errors of glances that were to stand in for looks."""
        self.late: list[ContainerKey] = []
        """Those that were left out: their looks go on."""
        self._awaited = set(containers)
        self._ended = trio.Event()
        self._end_if_all_came()

    def awaits(self, container: ContainerKey) -> bool:
        """Return whether the look at this container has not ended, and is not left out."""
        return container in self._awaited

    def end(self, container: ContainerKey, found: ContainerView | EngineError | None) -> None:
        """Take the end of a look: a view, an error, or None if there is nothing to see."""
        if isinstance(found, ContainerView):
            self.found.append(found)
        elif found is not None:
            self.failed[container] = found
        self._awaited.discard(container)
        self._end_if_all_came()

    def leave_out(self, container: ContainerKey) -> None:
        """Wait for this look no longer; nothing if it has ended."""
        if container in self._awaited:
            self.late.append(container)
            self.end(container, None)

    async def wait(self) -> None:
        """Wait until all looks have ended or are left out."""
        await self._ended.wait()

    def raise_if_lost(self) -> None:
        """Raise the error of a lost connection, if there was one: what was not found may exist."""
        for error in self.failed.values():
            if isinstance(error, EngineUnavailable) and not isinstance(error, EngineSilent):
                raise error

    def _end_if_all_came(self) -> None:
        if not self._awaited:
            self._ended.set()
