"""Runs the command of a hook: once, with a document on stdin, for so long at most.

1. No shell reads the words, and what tenants wrote is in the document alone: neither in an argument nor in a variable.
2. It is a session of its own. At its limit, and when it has ended, what is left of its group is killed: while the
   first process is not yet waited for, its number is no other's. What left the group is not found, and stays: the page
   for owners says so.
3. What it prints on stdout is dropped, and of stderr the beginning is kept, for the reason of a failure.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Final

import trio

from state import files

_ENVIRONMENT: Final = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}

_KEPT: Final = 2048
"""Bytes of stderr."""

_SAID: Final = 200
"""Characters of it in a reason."""

_LAST_WORDS_SECONDS: Final = 0.5

_DEATH_SECONDS: Final = 5.0
"""How long a process that was killed may take to end, as in a read from a dead disk."""


async def run_command(command: Sequence[str], document: bytes, seconds: float) -> str:
    """Return why it failed, "" if it did not."""
    with trio.move_on_after(seconds):
        try:
            process = await trio.lowlevel.open_process(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd="/",
                env=_ENVIRONMENT,
                start_new_session=True,
            )
        except OSError as error:
            return f"it cannot be started: {files.reason(error)}"
        said = bytearray()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_feed, process, document)
                nursery.start_soon(_hear, process, said)
                await _end_of(process)
                _kill(process)
                # What it said last is still in the pipe, which a process that left the group may hold open.
                nursery.cancel_scope.deadline = trio.current_time() + _LAST_WORDS_SECONDS
        finally:
            _kill(process)
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _DEATH_SECONDS):
                for pipe in (process.stdin, process.stderr):
                    if pipe is not None:
                        await trio.aclose_forcefully(pipe)
                await process.wait()
        if not (code := process.returncode):
            return "" if code == 0 else "it was killed, and does not end"
        told = " ".join(said.decode(errors="replace").split())[:_SAID]
        ended = f"it ended with {code}" if code > 0 else f"signal {-code} ended it"
        return f"{ended}: {told}" if told else ended
    return f"it was killed after {seconds:g} s"


def _kill(process: trio.Process) -> None:
    """Kill its group (2), unless the process was waited for: then the number may be another's."""
    if process._proc.returncode is None:  # noqa: SLF001 - the public property waits for it
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)


async def _end_of(process: trio.Process) -> None:
    """Wait until the first process has ended, and leave it to be waited for."""
    opened = os.pidfd_open(process.pid)
    try:
        await trio.lowlevel.wait_readable(opened)
    finally:
        os.close(opened)


async def _feed(process: trio.Process, document: bytes) -> None:
    """Write the document, and close stdin. A command that reads none of it is none that failed."""
    assert process.stdin is not None, "it is a pipe"
    with contextlib.suppress(trio.BrokenResourceError):
        async with process.stdin:
            await process.stdin.send_all(document)


async def _hear(process: trio.Process, said: bytearray) -> None:
    """Read stderr until its end, and keep the beginning."""
    assert process.stderr is not None, "it is a pipe"
    with contextlib.suppress(trio.BrokenResourceError):
        async for part in process.stderr:
            said += part[: _KEPT - len(said)]
