"""Attempts at several directories: one that fails does not keep the others from being written."""

from __future__ import annotations

import errno
import math
from collections.abc import Callable
from typing import Final

from sidecar.projection.directories import ProjectionTree
from state.errors import ProjectionError, StateError

_PAUSE_SECONDS: Final = 1.0
"""Between two sweeps of all directories: a workload may fill the space again at once."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


def attempted(write: Callable[[], object]) -> list[str]:
    """Return the errors of a write, so that the rest is done nonetheless."""
    try:
        write()
    except StateError as error:
        return [str(error)]
    return []


def attempted_with_room(write: Callable[[], object], make_room: Callable[[], bool]) -> list[str]:
    """Do the same; a write that finds no space left is tried again if `make_room` has made some."""
    try:
        write()
    except StateError as error:
        return attempted(write) if _is_full(error) and make_room() else [str(error)]
    return []


def raise_all(errors: list[str]) -> None:
    """Raise ProjectionError, with each error as an argument, if there are any."""
    if errors:
        raise ProjectionError(*errors)


class SpaceMaker:
    """Makes room where there is no space left, by removing what workloads wrote; by a steady clock, once a second."""

    def __init__(self, steady: Callable[[], float]) -> None:
        self._steady = steady
        self._made_at = -math.inf

    def make(self, tree: ProjectionTree) -> bool:
        """Return whether anything was removed."""
        now = self._steady()
        if now - self._made_at < _PAUSE_SECONDS:
            return False
        self._made_at = now
        return tree.make_room()


def _is_full(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__
    return False
