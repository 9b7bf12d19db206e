"""Tells hooks of changes: each hook has a task that follows the record of changes, beside all decisions.

1. A hook is told one document after the other, never two at once. What happens meanwhile is in the next one: up to
   `MOST_CHANGES` changes of `MOST_BYTES` in all.
2. Between two documents it rests for `PAUSE_SECONDS`, and for longer after each failure in a row.
3. A change is told once. If that fails, it is not told again; what a slow hook is too late for is counted as missed,
   and the document says how much.
4. Nothing waits for a hook: the record drops its oldest changes, read or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import trio

from sidecar.board import Board, HookCounts
from sidecar.config.hook_sections import TAKE, WARNING, Hook
from sidecar.crashes import Crashes
from sidecar.hooks.command_hook import run_command
from sidecar.hooks.webhook import ask_webhook
from sidecar.lasting import LastingTasks
from sidecar.log import Log, LogLevel, printable
from sidecar.status.recorded_change import Changes, RecordedChange

MOST_CHANGES: Final = 100
MOST_BYTES: Final = 64 * 1024
"""Of the changes in a document. One that is longer than all of this comes without its fields."""

PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0


async def run_hooks(hooks: Sequence[Hook], board: Board, log: Log, changes: Changes) -> None:
    """Tell these hooks of changes until cancelled."""
    keep = LastingTasks(board, log).keep
    async with trio.open_nursery() as nursery:
        for hook in hooks:
            nursery.start_soon(keep, f"telling the hook {hook.name}", HookRunner(hook, board, log, changes).run)


class HookRunner:
    """Tells one hook."""

    def __init__(self, hook: Hook, board: Board, log: Log, changes: Changes) -> None:
        self._hook = hook
        self._board = board
        self._log = log
        self._crashes = Crashes(board, log)
        self._changes = changes
        self._next = changes.last + 1
        self._missed = 0
        """Changes that were missed since the last document."""
        self._runs = 0
        self._failures = 0
        self._in_a_row = 0

    async def run(self) -> None:
        """Follow the changes until cancelled."""
        while True:
            waiting = self._waiting()
            if waiting:
                with self._crashes.contained(None, f"hook {self._hook.name}"):
                    await self._tell(waiting)
                # 2. Rest.
                await trio.sleep(min(LONGEST_PAUSE_SECONDS, PAUSE_SECONDS * 2 ** min(self._in_a_row, 10)))
            elif self._next > self._changes.last:
                await self._changes.wait()

    def _waiting(self) -> list[RecordedChange]:
        """Return the changes for the next document (1)."""
        found, after, missed = self._changes.changes(self._next, MOST_CHANGES)
        self._missed += missed
        if missed:
            self._count(missed=missed)
            self._log.warning("a hook is too slow, and missed changes", hook=self._hook.name, missed=missed)
        taken, room = list[RecordedChange](), MOST_BYTES
        first = after - len(found)
        for place, change in enumerate(found):
            if wants(self._hook, change):
                room -= len(change.told)
                if room < 0 and taken:
                    self._next = first + place
                    return taken
                taken.append(change)
        self._next = after
        return taken

    async def _tell(self, waiting: Sequence[RecordedChange]) -> None:
        document = document_of(self._hook, waiting, self._missed)
        self._missed = 0
        self._runs += 1
        failed = await told(self._hook, document)
        if failed:
            self._failures += 1
            self._in_a_row += 1
        else:
            self._in_a_row = 0
        self._count(runs=1, failures=1 if failed else 0)
        text = f"the hook {self._hook.name} failed: {failed} ({self._failures} of {self._runs} times)"
        self._board.report(f"hook {self._hook.name}", printable(text) if failed else None)
        if failed:
            self._log.warning("a hook failed", hook=self._hook.name, reason=failed)

    def _count(self, *, runs: int = 0, failures: int = 0, missed: int = 0) -> None:
        counted = self._board.hooks
        self._board.hooks = HookCounts(counted.runs + runs, counted.failures + failures, counted.missed + missed)


def wants(hook: Hook, change: RecordedChange) -> bool:
    """Return whether a hook is for this change."""
    is_step = TAKE in hook.on and change.message.startswith(f"{TAKE} ")
    is_warning = WARNING in hook.on and change.level >= LogLevel.WARNING
    return not hook.on or change.message in hook.on or is_step or is_warning


def document_of(hook: Hook, waiting: Sequence[RecordedChange], missed: int) -> bytes:
    """Return what a hook is told: one JSON object. A single change that is too long is told without its fields."""
    events = [msgspec.Raw(change.told if len(change.told) <= MOST_BYTES else _cut(change)) for change in waiting]
    return msgspec.json.encode({"version": 1, "hook": hook.name, "missed": missed, "events": events})


def _cut(change: RecordedChange) -> bytes:
    return msgspec.json.encode({"level": change.level.name.lower(), "message": change.message[:200]})


async def told(hook: Hook, document: bytes) -> str:
    """Tell a hook. Return why that failed, "" if it did not."""
    if hook.command:
        return await run_command(hook.command, document, hook.timeout_seconds)
    return await ask_webhook(hook.webhook, document, hook.timeout_seconds)
