"""An outside witness: where the threads of containers really run, sampled from the host's /proc."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from compose.demo.sampler import Sampler, on_cpu

PERIOD_SECONDS = 0.01


def members(container: str) -> list[int]:
    """Return the processes of a container, as this host numbers them; none if the engine runs on another host."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _belongs(path, container)]


def _belongs(process: Path, container: str) -> bool:
    with suppress(OSError):  # it ended during the look
        return container in (process / "cgroup").read_text()
    return False


class Witness:
    """Samples from `start` to `stop`."""

    def __init__(self) -> None:
        self._pids: list[int] = []
        self._seen: list[tuple[int, int]] = []
        self._sampler = Sampler(PERIOD_SECONDS, self._look)

    def watch(self, containers: Iterable[str]) -> None:
        """Look at the processes of these containers from now on."""
        self._pids = [pid for container in containers for pid in members(container)]

    def start(self) -> None:
        """Begin sampling."""
        self._sampler.start()

    def stop(self) -> None:
        """End sampling; the samples stay."""
        self._sampler.stop()

    @property
    def samples(self) -> list[tuple[int, int]]:
        """A moment of CLOCK_MONOTONIC in nanoseconds, and a CPU on which a running thread was seen then."""
        return list(self._seen)

    def _look(self) -> None:
        for pid in self._pids:
            # Time first: a record must not be later than the visit. Processes may end during the look.
            at = time.monotonic_ns()
            with suppress(OSError, IndexError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    if seen := on_cpu((task / "stat").read_text()):
                        self._seen.append((at, seen[0]))
