"""The kernel's tracefs, mounted for a test, and a program that wakes often on one CPU and counts what it took there."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

_WAKER = """
import os, sys, time
cpu, pause, work = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
os.sched_setaffinity(0, {cpu})
open("/proc/self/comm", "w").write(sys.argv[5])
def took():
    return time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)
woken, begin = 0, took()
print("ready", flush=True)
while os.getppid() == int(sys.argv[4]):
    sys.stdout.write(f"{time.monotonic()} {woken} {took() - begin}\\n")
    sys.stdout.flush()
    until = took() + work
    while took() < until:
        pass
    woken += 1
    time.sleep(pause)
"""


class Told(NamedTuple):
    """What the waker has told: when (by `time.monotonic`), how often it woke, and the seconds of the CPU it took."""

    at: float
    woken: int
    seconds: float


@contextmanager
def mounted(directory: Path) -> Iterator[str]:
    """Mount tracefs at a new directory; skip the test where that cannot be. All mounts show the same instances, so one
    test of the machine has it at a time.
    """
    directory.mkdir()
    with open(Path(tempfile.gettempdir()) / "cpuset-sidecar-tests-tracefs.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with _mounted(directory) as place:
            yield place


def instances(tracefs: str) -> list[str]:
    """Return the instances that are the sidecar's."""
    return [name for name in os.listdir(f"{tracefs}/instances") if name.startswith("cpuset-sidecar-")]


@contextmanager
def _mounted(directory: Path) -> Iterator[str]:
    done = subprocess.run(["mount", "-t", "tracefs", "tracefs", str(directory)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"tracefs cannot be mounted here: {done.stderr.strip()}")
    try:
        yield str(directory)
    finally:
        subprocess.run(["umount", str(directory)], check=True)


@contextmanager
def waker(cpu: int, directory: Path, *, pause: float, work: float, name: str = "disturber") -> Iterator[Path]:
    """Run a program of this name that wakes again and again on a CPU and computes for `work` seconds each time.
    Yield the file with what it told.
    """
    told = directory / "told"
    with told.open("w") as out:
        words = [sys.executable, "-c", _WAKER, str(cpu), str(pause), str(work), str(os.getpid()), name]
        process = subprocess.Popen(words, stdout=out)
        try:
            yield told
        finally:
            process.kill()
            process.wait()


def all_told(file: Path) -> list[Told]:
    """Return what it has told until now."""
    lines = (line.split() for line in file.read_text().splitlines()[1:-1])
    return [Told(float(at), int(woken), float(seconds)) for at, woken, seconds in lines]
