"""A trio program that computes in threads, as many at a time as it has CPUs, and follows them with ProjectionWatch."""

from __future__ import annotations

import hashlib
import os
import sys

import trio

from state import ack
from state.cpuset import CPUSet
from state.errors import ProjectionError
from state.projection import Reading
from state.watch import ProjectionWatch


async def serve(limiter: trio.CapacityLimiter) -> None:
    """Handle one request after the other; the limiter allows no more computations at a time than there are CPUs."""
    while True:
        await trio.to_thread.run_sync(compute, limiter=limiter)
        await trio.sleep(0.001)


def compute() -> None:
    """Do work that releases the interpreter's lock."""
    hashlib.sha256(bytes(1 << 16)).digest()


def line_of(told: Reading) -> str:
    """Return what is told. If the daemon does not vouch for it any more, keep what you have: others may be there."""
    leaving = f", leaving {told.leaving}" if told.leaving else ""
    return f"CPUs {told.cpus}{leaving}{'' if told.vouched else ', unvouched'}"


def move_threads(cpus: CPUSet) -> None:
    """Move all threads of this process: trio keeps idle ones."""
    for thread in os.listdir("/proc/self/task"):
        try:
            os.sched_setaffinity(int(thread), cpus)
        except OSError:
            # It has ended, or the CPUs are gone again: the next change will show it.
            continue


async def follow(limiter: trio.CapacityLimiter) -> None:
    """Set the limit and the CPUs at each change."""
    with ProjectionWatch() as watch:
        async for told in watch.achanges():
            print(line_of(told), flush=True)
            if not (usable := told.cpus - told.leaving):
                continue
            # First leave, then acknowledge. This thread starts all new ones, which inherit its CPUs: one pass is
            # enough.
            limiter.total_tokens = len(usable)
            move_threads(usable)
            if told.leaving:
                try:
                    ack.write(watch.directory, told.generation)
                except ProjectionError as error:
                    print(error, file=sys.stderr, flush=True)


async def main() -> None:
    """Serve and follow until ended."""
    limiter = trio.CapacityLimiter(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, limiter)
        for _ in range(16):
            nursery.start_soon(serve, limiter)


if __name__ == "__main__":
    trio.run(main)
