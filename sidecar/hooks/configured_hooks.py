"""The hooks that are configured, if there are any: few hosts have one, and others import none of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial

from sidecar.board import Board
from sidecar.config.hook_sections import Hook
from sidecar.log import Log
from sidecar.status.recorded_change import Changes
from state import files


def follower(hooks: Sequence[Hook], board: Board, log: Log) -> Callable[[Changes], Awaitable[None]] | None:
    """Return what follows all changes for these hooks, None without any."""
    if not hooks:
        return None
    from sidecar.hooks.hook_runner import run_hooks

    return partial(run_hooks, hooks, board, log)


def doubts(hooks: Sequence[Hook]) -> Iterator[str]:
    """Yield which of these hooks cannot be run as this process sees the host now: no mistake, since a program may come
    later.
    """
    for hook in hooks:
        if hook.command and (why := _obstacle(hook.command[0])):
            yield f"the hook {hook.name} would fail: {hook.command[0]} cannot be run: {why}"


def _obstacle(program: str) -> str:
    try:
        mode = os.stat(program).st_mode
    except (OSError, ValueError) as error:
        return files.reason(error) if isinstance(error, OSError) else str(error)
    if not stat.S_ISREG(mode):
        return "it is a directory" if stat.S_ISDIR(mode) else "it is no file"
    return "" if os.access(program, os.X_OK) else "it is not executable for this user"
