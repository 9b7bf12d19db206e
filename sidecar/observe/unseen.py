"""Unseen: the containers that cannot be looked at, as one problem. They must not hide all the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from sidecar.board import Board
from sidecar.decide.world import World
from sidecar.log import Log
from sidecar.words.units import noun
from state.key import ContainerKey


class _Named(msgspec.Struct, frozen=True):
    """The problem of containers that cannot be looked at."""

    containers: tuple[ContainerKey, ...]

    def __call__(self, world: World) -> str:
        """Return it as a clause, with the names by which they are known."""
        what = "units" if all(each.is_unit for each in self.containers) else "containers"
        return f"these {what} cannot be inspected: {', '.join(_name(world, each) for each in self.containers)}"


class Unseen:
    """Reports each container once for each reason."""

    def __init__(self, board: Board, log: Log) -> None:
        self._board = board
        self._log = log
        self._reasons: dict[ContainerKey, str] = {}

    def add(self, reasons: Mapping[ContainerKey, str]) -> None:
        """Report that these containers cannot be looked at, and why."""
        self._tell({**self._reasons, **reasons})

    def forget(self, container: ContainerKey) -> None:
        """Report a container no more that was looked at after all, or is gone."""
        if container in self._reasons:
            self._tell({each: why for each, why in self._reasons.items() if each != container})

    def forget_all_but(self, containers: Collection[ContainerKey]) -> None:
        """Report all others no more: they do not exist."""
        self._tell({each: why for each, why in self._reasons.items() if each in containers})

    def _tell(self, reasons: dict[ContainerKey, str]) -> None:
        for container, reason in reasons.items():
            if self._reasons.get(container) != reason:
                name = _name(self._board.latest, container)
                said = "a unit cannot be inspected" if container.is_unit else "a container cannot be inspected"
                self._log.warning(said, **{noun(container): name}, reason=reason)
        self._reasons = reasons
        self._board.report("looks", _Named(tuple(reasons)) if reasons else None)


def _name(world: World, container: ContainerKey) -> str:
    known = world.containers.get(container)
    return known.view.name if known else container.short
