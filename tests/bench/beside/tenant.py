"""A hostile tenant in a process of its own, so that it takes none of the interpreter of the one that measures.

python -m tests.bench.beside.tenant SOCKET CGROUP_PARENT SEED ATTACKS

It acts until its stdin ends, and then removes what it made. It prints a line once it acts, and the number of its acts
at the end.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random

from tests.bench.latency import IMAGE
from tests.live.containers import Containers
from tests.live.engineapi import EngineApi
from tests.live.hostile import HostileTenant
from tests.support.attacks import Attack

VICTIM = "voice"


@contextmanager
def hostile_tenant(socket: str, parent: str, seed: int, attacks: Sequence[Attack]) -> Iterator[None]:
    """Let one act for the block."""
    command = [sys.executable, "-m", "tests.bench.beside.tenant", socket, parent, str(seed), ",".join(attacks)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stdout
    process.stdout.readline()
    try:
        yield
    finally:
        process.stdin.close()
        process.stdout.read()
        process.wait(120)


def main(socket: str, parent: str, seed: str, attacks: str) -> int:
    """Act until stdin ends."""
    made = Containers(EngineApi(socket), IMAGE)
    try:
        with HostileTenant(
            made, Random(int(seed)), VICTIM, parent, [Attack(each) for each in attacks.split(",")]
        ) as it:
            print("acts", flush=True)
            sys.stdin.read()
    finally:
        made.remove_all()
    print(sum(it.acts.values()), dict(it.acts))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
