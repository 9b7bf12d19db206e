"""The speed of the API, and the cost of a connection: `python -m tests.bench.serving [TREE ...]`.

Several working trees are measured in turn, each by its own `.venv`, so that the same load is next to all of them;
ratios are to the first. The server is a process of its own; one client asks over its Unix socket, on a connection that
stays.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import trio

from sidecar.api.unix_socket import NAME
from tests.api.apirig import Elastic, Rig

ROUNDS = 10
REQUESTS = 300
IDLE = 60
ROUTES = ("/readyz", "/v1/status", "/metrics")


async def serve(directory: str) -> None:
    """Serve a story of two containers until killed."""
    async with Rig(Path(directory), Elastic()).serving():
        await trio.sleep_forever()


def measure(tree: str) -> dict[str, float]:
    """Return figures of one server of this tree: microseconds of each route, KiB of an idle connection, and so on."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, NAME)
        program = [f"{tree}/.venv/bin/python", "-m", "tests.bench.serving", "serve", directory]
        server = subprocess.Popen(program, cwd=tree, env={**os.environ, "PYTHONPATH": tree})
        try:
            return _measured(server.pid, path)
        finally:
            server.kill()
            server.wait()


def _measured(pid: int, path: str) -> dict[str, float]:
    found: dict[str, float] = {}
    _microseconds(path, ROUTES[0])
    for route in ROUTES:
        busy = cpu_seconds(pid)
        found[f"{route}, µs"] = _microseconds(path, route)
        found[f"{route}, µs of CPU"] = (cpu_seconds(pid) - busy) / REQUESTS * 1e6
    busy = cpu_seconds(pid)
    for _ in range(REQUESTS // 2):
        with connected(path) as connection:
            _ask(connection, b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")
    found["a connection for each, µs of CPU"] = (cpu_seconds(pid) - busy) / (REQUESTS // 2) * 1e6
    time.sleep(0.5)
    before = _resident_kib(pid)
    found["resident, MiB"] = before / 1024
    connections = [connected(path) for _ in range(IDLE)]
    time.sleep(0.5)
    found["idle connection, KiB"] = (_resident_kib(pid) - before) / IDLE
    for each in connections:
        each.close()
    return found


def _microseconds(path: str, route: str) -> float:
    """Return the median time of a request, on one connection."""
    request = f"GET {route} HTTP/1.1\r\nhost: x\r\n\r\n".encode()
    times = []
    with connected(path) as connection:
        for _ in range(REQUESTS):
            began = time.perf_counter()
            _ask(connection, request)
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def _ask(connection: socket.socket, request: bytes) -> None:
    connection.sendall(request)
    head, separator, body = b"", b"", b""
    answer = b""
    while not separator:
        answer += _received(connection)
        head, separator, body = answer.partition(b"\r\n\r\n")
    missing = int(head.lower().partition(b"content-length:")[2].split()[0]) - len(body)
    while missing > 0:
        missing -= len(_received(connection))


def _received(connection: socket.socket) -> bytes:
    content = connection.recv(1 << 20)
    if not content:
        raise EOFError
    return content


def connected(path: str) -> socket.socket:
    """Connect to a server, which may only be starting."""
    for _ in range(1000):
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(10)
        try:
            made.connect(path)
        except OSError:
            made.close()
            time.sleep(0.01)
        else:
            return made
    raise TimeoutError(path)


def _resident_kib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def cpu_seconds(pid: int) -> float:
    """Return the processor time of the first thread of a process."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def main(trees: list[str]) -> None:
    """Print the median of each figure, and its ratio to the first tree's of the same round."""
    rounds = [[measure(tree) for tree in trees] for _ in range(ROUNDS)]
    for name in rounds[0][0]:
        shown = [statistics.median(found[place][name] for found in rounds) for place in range(len(trees))]
        ratios = [
            statistics.median(found[place][name] / (found[0][name] or 1) for found in rounds)
            for place in range(len(trees))
        ]
        line = "  ".join(f"{value:9.1f} ({ratio:.2f})" for value, ratio in zip(shown, ratios, strict=True))
        print(f"{name:36}{line}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        trio.run(serve, sys.argv[2])
    else:
        main(sys.argv[1:] or [str(Path(__file__).parents[2])])
