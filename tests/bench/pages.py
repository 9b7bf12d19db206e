"""What open pages cost the daemon: `python -m tests.bench.pages [--pages 10] [--changes 10] [--seconds 10]`.

The real API over a World of 96 CPUs and 40 containers, in a process of its own, in which one of them stops and starts:
so many changes a second, with nobody who follows them and with so many pages, alternately. Each figure is the processor
time of that process, in percent of a CPU. Decisions and the engine are left out: they cost the same without a page.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import trio

from sidecar.api.unix_socket import NAME
from state.topology import uniform
from tests.api.apirig import Rig
from tests.bench.serving import connected, cpu_seconds
from tests.support.decide.stories import Story

ROUNDS = 5
OWNERS, OTHERS = 20, 20
TREE = Path(__file__).parents[2]


async def serve(directory: str, changes: float) -> None:
    """Serve a story that is now one World and now another, until killed."""
    story = Story(uniform(packages=2, nodes=2, cores=24, threads=2))
    made = [story.arrive(f"owner-{number}", 2) for number in range(OWNERS)]
    made += [story.arrive(f"other-{number}") for number in range(OTHERS)]
    story.settle()
    rig = Rig(Path(directory), story)
    running = story.world
    story.end(made[0])
    story.settle()
    worlds = running, story.world
    async with rig.serving():
        number = 0
        while True:
            await trio.sleep(1 / changes)
            rig.board.post(worlds[number % 2])
            number += 1


class Pages:
    """Followers of the live stream, a thread each; they read, and understand nothing."""

    def __init__(self, path: str, number: int) -> None:
        self._connections = [connected(path) for _ in range(number)]
        self._threads = [threading.Thread(target=self._follow, args=(each,)) for each in self._connections]
        self.read_bytes = 0

    def __enter__(self) -> Pages:
        for each in self._connections:
            each.sendall(b"GET /v1/live HTTP/1.1\r\nhost: x\r\n\r\n")
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for connection, thread in zip(self._connections, self._threads, strict=True):
            connection.shutdown(socket.SHUT_RDWR)
            thread.join()
            connection.close()

    def _follow(self, connection: socket.socket) -> None:
        while content := connection.recv(1 << 20):
            self.read_bytes += len(content)


def used(pid: int, seconds: float) -> float:
    """Return the percent of a CPU that a process uses in the next seconds."""
    began, busy = time.monotonic(), cpu_seconds(pid)
    time.sleep(seconds)
    return 100 * (cpu_seconds(pid) - busy) / (time.monotonic() - began)


def measure(pid: int, path: str, pages: int, seconds: float) -> None:
    """Print each round, and the median of what the pages cost."""
    costs = []
    for _ in range(ROUNDS):
        without = used(pid, seconds)
        with Pages(path, pages) as opened:
            time.sleep(1)
            had = opened.read_bytes
            shown = used(pid, seconds)
            sent = (opened.read_bytes - had) / pages / seconds / 1024
        time.sleep(1)
        costs.append(shown - without)
        line = f"without {without:.2f} %, with {pages} pages {shown:.2f} %, {sent:.1f} KiB a second to each"
        print(line, flush=True)
    print(f"{pages} pages cost {statistics.median(costs):.2f} % of a CPU (the median of {ROUNDS})")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=10)
    parser.add_argument("--changes", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        trio.run(serve, args.serve, args.changes)
        return
    with tempfile.TemporaryDirectory() as directory:
        program = [sys.executable, "-m", "tests.bench.pages", "--serve", directory, "--changes", str(args.changes)]
        server = subprocess.Popen(program, cwd=TREE, env={**os.environ, "PYTHONPATH": str(TREE)})
        try:
            connected(os.path.join(directory, NAME)).close()
            measure(server.pid, os.path.join(directory, NAME), args.pages, args.seconds)
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
