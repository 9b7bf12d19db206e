"""A hostile tenant in a process of its own, so that it takes none of the interpreter of the one that measures.

python -m tests.bench.beside.tenant SOCKET CGROUP_PARENT SEED ATTACKS

It acts until its stdin ends and it has acted in every way, and then removes what it made. It prints a line once it
acts, and how often it acted in which way at the end.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Final

from tests.bench.latency import IMAGE
from tests.live.containers import Containers
from tests.live.engineapi import EngineApi
from tests.live.hostile import HostileTenant
from tests.support.attacks import Attack

VICTIM: Final = "voice"

_LAST_SECONDS: Final = 60.0
"""How long it goes on at most, to act in every way."""


@contextmanager
def hostile_tenant(socket: str, parent: str, seed: int, attacks: Sequence[Attack]) -> Iterator[dict[str, int]]:
    """Let one act for the block. Yield what has how often it acted in which way, after the block."""
    acts: dict[str, int] = {}
    command = [sys.executable, "-m", "tests.bench.beside.tenant", socket, parent, str(seed), ",".join(attacks)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stdout
    process.stdout.readline()
    try:
        yield acts
    finally:
        process.stdin.close()
        told = process.stdout.read()
        process.stdout.close()
        process.wait(120)
        acts.update(json.loads(told or "{}"))


def main(socket: str, parent: str, seed: str, attacks: str) -> int:
    """Act until stdin ends."""
    made = Containers(EngineApi(socket), IMAGE)
    try:
        with HostileTenant(
            made, Random(int(seed)), VICTIM, parent, [Attack(each) for each in attacks.split(",")]
        ) as it:
            print("acts", flush=True)
            sys.stdin.read()
            end = time.monotonic() + _LAST_SECONDS
            while len(it.acts) < len(attacks.split(",")) and time.monotonic() < end:
                time.sleep(0.1)
    finally:
        made.remove_all()
    print(json.dumps(it.acts))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
