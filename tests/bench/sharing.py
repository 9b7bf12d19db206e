"""How long it takes to move 20 containers: one write on the group that confines them, or an update of each.

    python -m tests.bench.sharing

It needs root, cgroup v2, and a dockerd of its own (tests/live/privateengine.py). Both ways are timed until the kernel
shows the last container where it should be. The figures are this machine's: an emulated one is some ten times slower.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import trio

from sidecar.assembly import shared_group
from state.cpuset import CPUSet
from tests.live.containers import Containers
from tests.live.image import ensure_image
from tests.live.kernelview import allowed_of, online
from tests.live.test_slice import SHARED, Sliced

MEMBERS: Final = 20
ROUNDS: Final = 10
AT_ONCE: Final = 4
"""Updates side by side: what the sidecar allows itself."""


def main() -> int:
    """Print both figures."""
    engine = Sliced()
    engine.configuration.write_text(f'{{"cgroup-parent": "{SHARED}"}}')
    try:
        engine.start()
        made = Containers(engine.api, ensure_image(engine.api))
        ids = [made.run(f"member{n}") for n in range(MEMBERS)]
        files = [Path(f"/proc/{made.api.inspect(id)['State']['Pid']}/status") for id in ids]
        group = shared_group(SHARED, environ=os.environ)
        sets = (online() - CPUSet.of(max(online())), online())

        async def write(cpus: CPUSet) -> None:
            await group.write(cpus)

        _say("one write on the group", _timed(lambda cpus: trio.run(write, cpus), sets, files))

        def update(cpus: CPUSet) -> None:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(lambda id: engine.api.update(id, CpusetCpus=str(cpus)), ids))

        _say(f"an update of each, {AT_ONCE} at once", _timed(update, sets, files))
    finally:
        engine.close()
    return 0


def _timed(move: Callable[[CPUSet], None], sets: Sequence[CPUSet], files: Sequence[Path]) -> list[float]:
    """Return the milliseconds of each round, there and back."""
    found = []
    for turn in range(ROUNDS):
        cpus = sets[turn % len(sets)]
        began = time.perf_counter()
        move(cpus)
        while any(allowed_of(file.read_text()) != cpus for file in files):
            pass
        found.append((time.perf_counter() - began) * 1000)
    return found


def _say(what: str, found: list[float]) -> None:
    middle, most = statistics.median(found), max(found)
    sys.stdout.write(f"{what}: {MEMBERS} containers in {middle:.1f} ms (median of {ROUNDS}), {most:.1f} at most\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
