"""What open pages cost the daemon: `python -m tests.bench.pages [--pages 10] [--changes 10] [--seconds 10]`.

A whole daemon on a simulated machine of 96 CPUs with 40 containers, of which five owners are stopped and started in
turn; without a page and with some, alternately, as a browser follows them. Each figure is the processor time of the
daemon's process, in percent of a CPU; the simulated engine runs in the same process, so only the difference counts.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from tests.page.browser import Simulated

ROUNDS = 5
OWNERS, OTHERS, CHANGING = 20, 20, 5


class Followers:
    """Clients of the live stream, a thread each; they read, and understand nothing."""

    def __init__(self, link: str, number: int) -> None:
        self._link = f"{link}v1/live"
        self.read_bytes = 0
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._follow, daemon=True) for _ in range(number)]

    def __enter__(self) -> Followers:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for each in self._threads:
            each.join(10)

    def _follow(self) -> None:
        with urllib.request.urlopen(self._link, timeout=10) as answer:
            while not self._ended.is_set():
                self.read_bytes += len(answer.readline())


def cpu_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process that still run."""
    return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def changed(host: Simulated, ids: list[str], each_second: float, seconds: float) -> tuple[float, int]:
    """Change one container after the other; return the percent of a CPU that the process used, and the changes."""
    began, busy, made = time.monotonic(), cpu_seconds(host.process.pid), 0
    while (passed := time.monotonic() - began) < seconds:
        time.sleep(max(0.0, made / each_second - passed))
        host.do("stop" if made % 2 == 0 else "start", ids[made // 2 % len(ids)])
        made += 1
    return 100 * (cpu_seconds(host.process.pid) - busy) / (time.monotonic() - began), made


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=10)
    parser.add_argument("--changes", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=10)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        host = Simulated(Path(folder), (2, 2, 24, 2), linger_seconds="0")
        try:
            ids = [host.run(f"owner-{number}", 2) for number in range(OWNERS)]
            ids += [host.run(f"other-{number}") for number in range(OTHERS)]
            measure(host, ids[:CHANGING], args)
        finally:
            host.end()


def measure(host: Simulated, ids: list[str], args: argparse.Namespace) -> None:
    """Print each round, and the medians."""
    costs = []
    for _ in range(ROUNDS):
        without, _ = changed(host, ids, args.changes, args.seconds)
        with Followers(host.link, args.pages) as followers:
            time.sleep(1)
            had = followers.read_bytes
            shown, made = changed(host, ids, args.changes, args.seconds)
            sent = (followers.read_bytes - had) / args.pages / args.seconds
        costs.append(shown - without)
        print(
            f"without {without:5.2f} %, {args.pages} pages {shown:5.2f} %: {shown - without:+.2f} %; "
            f"{made / args.seconds:.1f} changes a second, {sent / 1024:.1f} KiB a second to each page",
            flush=True,
        )
    print(f"{args.pages} pages cost {statistics.median(costs):.2f} % of a CPU (the median of {ROUNDS})")


if __name__ == "__main__":
    main()
