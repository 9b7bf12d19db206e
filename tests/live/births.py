"""Newcomers beside an owner: containers that print where they may run at first, and a judge of the owner's CPU.

The judge (tests/bench/exposure) reads the kernel and knows nothing of the sidecar. It watches the cgroup below which
the owner really is, whatever the engine, its driver and its user.
"""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from state.cpuset import CPUSet
from tests.bench.exposure.judging import Exposure, Notes, exposure_of, judge
from tests.live.containers import Containers
from tests.live.engineapi import ApiError
from tests.live.kernelview import KernelView
from tests.live.privateengine import PrivateEngine
from tests.live.privatepodman import PrivatePodman
from tests.live.sidecarprocess import LAST
from tests.live.waiting import PATIENCE, eventually

FIRST: Final = ("grep", "Cpus_allowed_list", "/proc/self/status")
"""The program of a newcomer: its first act is to print where it may run."""

INSTANT_PERCENT: Final = 0.5
"""Of the time: a runtime that sets up a group moves its own process in before its write there was overwritten."""

_PRINTED: Final = re.compile(r"Cpus_allowed_list:\s+([\d,-]+)")


class Judged:
    """What a judge saw while a block ran; there after the block."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self.notes: Notes | None = None

    @property
    def exposure(self) -> Exposure:
        """The figures, without the owner's own."""
        assert self.notes is not None
        return exposure_of(self.notes, but=(self._owner,))

    def is_clean(self) -> None:
        """Check that nothing but runtimes, for an instant, had a thread on the owner's CPU; print the figures."""
        assert self.notes is not None
        print(self.exposure, f"longest pass {self.notes.longest / 1e6:.1f} ms")
        contradictions = self.notes.contradictions(but=(self._owner,))
        assert not contradictions, contradictions
        stays = [f"{each.group}: {each.state / 1e6:.1f} ms" for each in self.notes.stays(but=(self._owner,))]
        assert self.exposure.percent <= INSTANT_PERCENT, stays


@contextmanager
def judged(kernel: KernelView, owner: str, folder: Path, above: Path | None = None) -> Iterator[Judged]:
    """Have the owner's CPU judged while the block runs. `above` is the cgroup below which others are, if not the
    owner's parent.
    """
    found = Judged(owner)
    with judge(folder, max(LAST), above or kernel.parent(owner)) as judging:
        yield found
        found.notes = judging.end()


class Newcomers:
    """Brings containers, and removes each. `engine` is where its command line goes to."""

    def __init__(self, made: Containers, engine: PrivateEngine) -> None:
        self._made = made
        self._engine = engine

    def by_api(self, name: str) -> CPUSet:
        """Create one and start it at once; return where its first instruction ran."""
        api = self._made.api
        id = self._made.create(name, *FIRST)
        api.act(id, "start")

        def printed() -> CPUSet | None:
            found = api.ask("GET", f"containers/{id}/logs", stdout="1")
            return _first(found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found))

        found = eventually(printed, f"{name} prints")
        with suppress(ApiError):
            api.remove(id)
        return found

    def by_command(self, name: str, *words: str) -> CPUSet:
        """Run one by the engine's command line; return where its first instruction ran."""
        options = ("--rm", "--network", "host", "--name", f"{self._made.prefix}-{name}", *words)
        printed = command_line(self._engine, "run", *options, self._made.image, *FIRST)
        found = _first(printed)
        assert found, printed
        return found

    def bring(self, count: int, clients: int) -> list[CPUSet]:
        """Bring so many by so many clients, by API and by command in turn; return where each began."""
        ways = (self.by_api, self.by_command)
        mark = uuid.uuid4().hex[:4]
        with ThreadPoolExecutor(clients) as pool:
            return list(pool.map(lambda number: ways[number % 2](f"new-{mark}-{number}"), range(count)))


def command_line(engine: PrivateEngine, *words: str) -> str:
    """Run the engine's own command; return what it printed."""
    if isinstance(engine, PrivatePodman):
        return engine.run(*words)
    return _printed(("docker", "-H", f"unix://{engine.socket_path}", *words))


def _printed(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60 * PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def _first(printed: str) -> CPUSet | None:
    found = _PRINTED.search(printed)
    return CPUSet.parse(found[1]) if found else None
