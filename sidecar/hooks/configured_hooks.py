"""The hooks that are configured, if there are any: few hosts have one, and others import none of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from sidecar.board import Board
from sidecar.config.hook_sections import Hook
from sidecar.log import Log
from sidecar.status.recorded_change import Changes


def follower(hooks: Sequence[Hook], board: Board, log: Log) -> Callable[[Changes], Awaitable[None]] | None:
    """Return what follows all changes for these hooks, None without any."""
    if not hooks:
        return None
    from sidecar.hooks.hook_runner import run_hooks

    return partial(run_hooks, hooks, board, log)
