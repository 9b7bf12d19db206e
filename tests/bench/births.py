"""How soon a newborn cgroup has its CPUs, and how long a foreign write stands: `python -m tests.bench.births`, as root.

No engine: groups of cgroup v1 are made and removed in a directory of its own by another process, which reads their
files without pause. `--count 5000 --rate 50` births, one by one or in bursts (`--burst 100`). Each with the compiled
reflex and without it, at rest and with decisions on a world of 500 containers in the same interpreter (`--busy`).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sidecar.decide.facts import ContainerSeen, ContainerView, Phase
from sidecar.decide.orders import Answers
from sidecar.decide.step import step
from sidecar.hand.cgroup_hand import CgroupHand
from sidecar.hand.reflex_queue import find_library
from state.cpuset import CPUSet
from tests.bench.test_decisions import crowded

V1: Final = Path("/sys/fs/cgroup/cpuset")
ATTACK_SECONDS: Final = 5.0

MAKER: Final = """
import os, sys, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
parent, rate, count, burst = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
took = []
for first in range(0, count, burst):
    began, left = time.perf_counter(), {}
    for number in range(first, first + burst):
        path = f"{parent}/{number:064x}"
        born = time.perf_counter()
        os.mkdir(path)
        left[path] = born, os.open(f"{path}/cpuset.cpus", os.O_RDONLY)
    made = list(left)
    while left:
        for path, (born, fd) in list(left.items()):
            if os.pread(fd, 100, 0).strip():
                took.append(time.perf_counter() - born)
                os.close(fd)
                del left[path]
    for path in made:
        os.rmdir(path)
    time.sleep(max(0.0, began + burst / rate - time.perf_counter()))
took.sort()
at = lambda share: took[min(len(took) - 1, int(share * len(took)))] * 1e3
print(f"{at(.5):.2f} | {at(.9):.2f} | {at(.99):.2f} | {at(.999):.2f} | {took[-1] * 1e3:.2f}")
"""

ATTACKER: Final = """
import os, sys, time
fd, rate, end, times = os.open(sys.argv[1], os.O_WRONLY), float(sys.argv[2]), time.time() + float(sys.argv[3]), 0
while time.time() < end:
    os.write(fd, b"0-1\\n")
    times += 1
    if rate:
        time.sleep(1 / rate)
print(times)
"""

# Where it lost its CPU for a moment it has seen nothing: such gaps count on neither side.
JUDGE: Final = """
import os, sys, time
fd, wrong, seen = os.open(sys.argv[1], os.O_RDONLY), 0.0, 0.0
began = last = time.perf_counter()
while last < began + float(sys.argv[2]):
    has = os.pread(fd, 100, 0)
    now = time.perf_counter()
    if now - last < 0.001:
        seen += now - last
        wrong += (now - last) * (has != b"0\\n")
    last = now
print(f"{100 * wrong / seen:.2f}")
"""


@contextmanager
def parent_of_births() -> Iterator[Path]:
    """Yield a parent like Docker's in a group of its own, and remove both."""
    root = V1 / f"cpuset-sidecar-bench-{os.getpid()}"
    made = root, root / "docker"
    for each in made:
        each.mkdir()
        for name in ("cpuset.cpus", "cpuset.mems"):
            (each / name).write_text((each.parent / name).read_text())
    try:
        yield made[1]
    finally:
        for path, _, _ in os.walk(root, topdown=False):
            os.rmdir(path)


def started(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a program in another interpreter."""
    return subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    """Return what a program has printed when it ends."""
    return process.communicate()[0].strip()


def births(library: str | None, rate: float, count: int, burst: int, *, busy: bool) -> str:
    """Return milliseconds (p50, p90, p99, p99.9, most) from births to their CPUs, and those of CPU time for each."""
    world = crowded(500) if busy else None
    labels = {"cpuset.exclusive": "8"}
    arrival = ContainerSeen(ContainerView(id="f" * 64, name="arrival", phase=Phase.CREATED, labels=labels), 2)
    with parent_of_births() as parent:
        hand = CgroupHand.open(library, cgroup=parent.parent)
        hand.hold(Answers(others=CPUSet.of(0)))
        maker, used = started(MAKER, str(parent), str(rate), str(count), str(burst)), time.process_time()
        while maker.poll() is None:
            if world:
                step(world, [arrival])
            else:
                time.sleep(0.5)
        used = time.process_time() - used
        hand.close()
    return said(maker) + (f" | {used / count * 1e3:.2f}" if not busy else " | ")


def overwrites(library: str | None, rate: float) -> str:
    """Return foreign writes, the share of the time in which one stands, and the share of a CPU that answers cost."""
    with parent_of_births() as parent:
        hand = CgroupHand.open(library, cgroup=parent.parent)
        hand.hold(Answers(others=CPUSet.of(0)))
        group = parent / ("a" * 64)
        group.mkdir()
        file, used = str(group / "cpuset.cpus"), time.process_time()
        time.sleep(0.1)
        attacker = started(ATTACKER, file, str(rate), str(ATTACK_SECONDS))
        judge = started(JUDGE, file, str(ATTACK_SECONDS - 0.5))
        texts = said(attacker), said(judge)
        used = time.process_time() - used
        hand.close()
    return f"{texts[0]} | {texts[1]} % | {100 * used / ATTACK_SECONDS:.1f} %"


def main() -> int:
    """Measure, and print rows of tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--burst", type=int, default=1)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--overwrites", action="store_true")
    args = parser.parse_args()
    for name, library in (("the watcher alone", None), ("with the reflex", find_library().path)):
        if library is None and name == "with the reflex":
            print("there is no compiled reflex")
        elif args.overwrites:
            for rate in (70.0, 0.0):
                print(f"| {name}, {rate or 'as many as possible'} | {overwrites(library, rate)} |", flush=True)
        else:
            print(f"| {name} | {births(library, args.rate, args.count, args.burst, busy=args.busy)} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
