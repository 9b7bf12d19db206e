"""The command of a hook, with real processes: its document, its limit, what it leaves behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from sidecar.hooks.command_hook import run_command

pytestmark = pytest.mark.trio

DOCUMENT = b'{"events":["$(false)"]}'


def python(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", program, *arguments]


async def test_it_gets_the_document_on_stdin_and_nothing_else(tmp_path: Path) -> None:
    """Its own arguments, a small environment, a session of its own; what it prints is dropped."""
    program = """
import os, sys, json
found = [sys.stdin.read(), sys.argv[1:], sorted(os.environ), os.getcwd(), os.getsid(0) == os.getpid()]
open(sys.argv[1], "w").write(json.dumps(found))
print("x" * 10_000_000)
"""
    assert await run_command(python(program, str(tmp_path / "found"), "$HOME"), DOCUMENT, 30) == ""
    told = (tmp_path / "found").read_text()
    assert told.startswith('["{\\"events\\":[\\"$(false)\\"]}"')
    assert told.endswith(f'["{tmp_path}/found", "$HOME"], ["LANG", "PATH"], "/", true]')


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import sys; sys.exit('no such\\nroom')", "it ended with 1: no such room"),
        ("import sys; sys.exit(7)", "it ended with 7"),
        ("import os; os.kill(os.getpid(), 15)", "signal 15 ended it"),
        ("import sys; sys.stderr.write('x' * 10_000_000); sys.exit(3)", f"it ended with 3: {'x' * 200}"),
    ],
)
async def test_a_failure_has_its_reason(program: str, reason: str) -> None:
    """The code, and the beginning of what it said, on one line."""
    assert await run_command(python(program), DOCUMENT, 30) == reason


async def test_what_cannot_be_started_has_its_reason(tmp_path: Path) -> None:
    """No such file, and one that is no program."""
    (tmp_path / "text").write_text("#!/bin/sh\n")
    for name, reason in (("none", "there is no such file or directory"), ("text", "permission denied")):
        failed = await run_command([str(tmp_path / name)], DOCUMENT, 30)
        assert failed.lower().startswith(f"it cannot be started: {reason}")


async def test_a_command_that_reads_nothing_is_none_that_failed() -> None:
    """However long the document is."""
    assert await run_command(python("pass"), b"x" * 1_000_000, 30) == ""


async def test_it_is_killed_at_its_limit_with_its_children(tmp_path: Path) -> None:
    """Those too that ignore what can be ignored."""
    program = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    open(sys.argv[1], "w").write(f"{os.getpid()} {child}")
time.sleep(600)
"""
    began = time.monotonic()
    failed = await run_command(python(program, str(tmp_path / "pids")), DOCUMENT, 3)
    assert failed == "it was killed after 3 s"
    assert time.monotonic() - began < 20
    for pid in (tmp_path / "pids").read_text().split():
        await until_dead(int(pid))


async def test_what_it_leaves_in_the_background_is_killed_with_its_end(tmp_path: Path) -> None:
    """And nothing waits for it, though it holds stderr open."""
    program = """
import os, sys, time
child = os.fork()
if child:
    open(sys.argv[1], "w").write(str(child))
    sys.exit("gone")
time.sleep(600)
"""
    assert await run_command(python(program, str(tmp_path / "pid")), DOCUMENT, 60) == "it ended with 1: gone"
    await until_dead(int((tmp_path / "pid").read_text()))


async def test_what_leaves_its_group_stays(tmp_path: Path) -> None:
    """As the page says: it is the one thing that a hook can start which nothing here ends."""
    program = """
import os, sys, time
child = os.fork()
if child:
    os.waitpid(child, 0)
    sys.exit(0)
os.setsid()
if pid := os.fork():
    open(sys.argv[1], "w").write(str(pid))
    os._exit(0)
time.sleep(600)
"""
    assert await run_command(python(program, str(tmp_path / "pid")), DOCUMENT, 60) == ""
    pid = int((tmp_path / "pid").read_text())
    try:
        await trio.sleep(0.2)
        assert not is_dead(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


async def test_it_ends_with_the_daemon(tmp_path: Path) -> None:
    """Cancelled, it is killed at once."""
    program = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    pid = tmp_path / "pid"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_command, python(program, str(pid)), DOCUMENT, 60)
        await until(lambda: pid.exists() and bool(pid.read_text()))
        nursery.cancel_scope.cancel()
    await until_dead(int(pid.read_text()))


async def until_dead(pid: int) -> None:
    """Wait until no process has this number, or what has it is only waiting to be waited for."""
    await until(lambda: is_dead(pid))


async def until(is_so: Callable[[], bool]) -> None:
    """Look until something is so; fail at the deadline."""
    with trio.fail_after(60):
        while not is_so():  # noqa: ASYNC110 - another process does it
            await trio.sleep(0.01)


def is_dead(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True
    return status.rpartition(") ")[2][0] == "Z"
