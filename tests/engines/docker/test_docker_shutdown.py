"""SIGTERM at a bad moment: the program ends at once, in order, without asyncio's complaints."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.daemon.rawdaemon import STREAM, Connection, RawDaemon

PROGRAM = """
import signal, sys, trio
from sidecar.engines.docker.docker_engine import open_docker

async def main():
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            async def work():
                async with open_docker(sys.argv[1]) as engine, engine.events() as stream:
                    print("ready", flush=True)
                    if sys.argv[2] == "call":
                        await engine.inspect("a" * 64)
                    await anext(stream)
            nursery.start_soon(work)
            async for _ in signals:
                nursery.cancel_scope.cancel()
                break

trio.run(main)
"""


@pytest.mark.parametrize("moment", ["call", "stream"])
def test_a_signal_ends_the_program_in_order(daemon: RawDaemon, moment: str) -> None:
    """Within a second, exit code 0, and nothing about unclosed sessions, pending tasks or unraisable errors."""

    def silent(connection: Connection) -> None:
        connection.send(STREAM)
        connection.hang()

    daemon.scripts["/events"] = silent
    daemon.scripts["/containers/" + "a" * 64 + "/json"] = Connection.hang
    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-W", "error", "-c", PROGRAM, daemon.address, moment],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        if moment == "call":
            deadline = time.monotonic() + 20
            while not daemon.requests[-1].endswith("/json") and time.monotonic() < deadline:
                time.sleep(0.01)
        began = time.monotonic()
        program.send_signal(signal.SIGTERM)
        _, errors = program.communicate(timeout=20)
    # asyncio in its development mode logs slow steps, which any step may be on a busy machine.
    told = [line for line in errors.splitlines() if not line.startswith("Executing <")]
    assert (program.returncode, told) == (0, [])
    assert time.monotonic() - began < 5
