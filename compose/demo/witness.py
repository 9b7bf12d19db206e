"""An outside witness: where the threads of containers really run, sampled from the host's /proc."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PERIOD_SECONDS = 0.01
STATE, PROCESSOR = 0, 36  # proc(5), /proc/PID/stat: fields 3 and 39, counted from behind the program's name


def last_cpu(stat: str) -> int | None:
    """Return the CPU of a thread that runs or is ready to run; None for a sleeping thread, whose last CPU is
    irrelevant.
    """
    fields = stat.rpartition(")")[2].split()
    return int(fields[PROCESSOR]) if fields[STATE] == "R" else None


def members(container: str) -> list[int]:
    """Return the processes of a container, as this host numbers them; none if the engine runs on another host."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _belongs(path, container)]


def _belongs(process: Path, container: str) -> bool:
    with suppress(OSError):  # it ended during the look
        return container in (process / "cgroup").read_text()
    return False


class Witness:
    """Samples in a thread of its own, from `start` to `stop`."""

    def __init__(self) -> None:
        self._pids: list[int] = []
        self._seen: list[tuple[int, int]] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def watch(self, containers: Iterable[str]) -> None:
        """Look at the processes of these containers from now on."""
        self._pids = [pid for container in containers for pid in members(container)]

    def start(self) -> None:
        """Begin sampling."""
        self._thread.start()

    def stop(self) -> None:
        """End sampling; the samples stay."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def samples(self) -> list[tuple[int, int]]:
        """A moment of CLOCK_MONOTONIC in nanoseconds, and a CPU on which a running thread was seen then."""
        return list(self._seen)

    def _sample(self) -> None:
        while not self._ending.wait(PERIOD_SECONDS):
            for pid in self._pids:
                # Time first: a record must not be later than the visit. Processes may end during the look.
                at = time.monotonic_ns()
                with suppress(OSError, IndexError):
                    for task in Path(f"/proc/{pid}/task").iterdir():
                        cpu = last_cpu((task / "stat").read_text())
                        if cpu is not None:
                            self._seen.append((at, cpu))
