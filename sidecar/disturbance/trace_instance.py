"""An instance of the kernel's tracing: events of some CPUs, in buffers that no other program reads or clears.

Documentation/trace/ftrace.rst, "Instances". It is taken away in every case, and those that a killed process left are
found by their names.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Final

from sidecar.disturbance.bitmaps import bitmap
from sidecar.disturbance.task_places import place_of
from sidecar.failures import SidecarError
from state.cpuset import CPUSet

PLACES: Final = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")

_PREFIX: Final = "cpuset-sidecar-"

_EVENTS: Final = (
    *("sched/sched_switch", "sched/sched_stat_runtime", "sched/sched_process_fork"),
    *("irq/irq_handler_entry", "irq/irq_handler_exit"),
    *("irq/softirq_entry", "irq/softirq_exit", "irq_vectors", "ipi/ipi_entry", "ipi/ipi_exit"),
)
"""Also a whole group. What a kernel has not is passed over: `irq_vectors` are of x86, those of `ipi` of others."""

_NEEDED: Final = "sched/sched_switch"

_MOST_KIB: Final = 16384
"""For one CPU: some 200,000 events, more than a busy CPU has in half a second, which its reader may have to wait."""

_ALL_KIB: Final = 131072
"""For all CPUs together: memory of the kernel's, taken for as long as is measured."""

_LEAST_KIB: Final = 512

_CHUNK: Final = 1 << 20

_MOST: Final = 64 * _CHUNK
"""Bytes of text that are read at once: more than a full buffer has, and no more where events come faster than that."""


def room_kib(cpus: int) -> int:
    """Return the KiB of one CPU's buffer where so many CPUs are traced."""
    return max(_LEAST_KIB, min(_MOST_KIB, _ALL_KIB // max(1, cpus)))


class NoTracing(SidecarError):
    """The kernel's tracing cannot be used here; the text says why, and what would change that."""


def find(places: Sequence[str] = PLACES) -> str:
    """Return where tracefs is mounted. NoTracing if it is not, or may not be read."""
    for place in places:
        with contextlib.suppress(OSError):
            os.listdir(f"{place}/instances")
            return place
    if os.geteuid() != 0:
        raise NoTracing("tracing needs root")
    raise NoTracing(f"no tracefs at {' or '.join(places)} (mount -t tracefs tracefs {places[0]})")


class TraceInstance:
    """Tracing of these CPUs while the `with` block runs, by the clock of `time.monotonic`. NoTracing if it fails."""

    def __init__(self, cpus: CPUSet, place: str) -> None:
        self._cpus, self._place = cpus, place
        self._path = f"{place}/instances/{_PREFIX}{os.getpid()}"
        self._pipes: dict[int, int] = {}

    def __enter__(self) -> TraceInstance:
        remove_left(self._place)
        try:
            os.mkdir(self._path)
        except OSError as error:
            raise NoTracing(f"no instance can be made in {self._place}: {error.strerror}") from error
        try:
            self._begin()
        except BaseException as error:
            self._remove()
            if isinstance(error, OSError):
                raise NoTracing(f"{error.filename or self._path}: {error.strerror}") from error
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def read(self, cpu: int) -> str:
        """Return the events of a CPU that were not read yet, as text, at most a full buffer's. It never waits."""
        parts, read = list[bytes](), 0
        while read < _MOST:
            try:
                part = os.read(self._pipes[cpu], _CHUNK)
            except BlockingIOError:
                break
            except InterruptedError:
                continue
            if not part:
                break
            parts.append(part)
            read += len(part)
        return b"".join(parts).decode(errors="replace")

    def stop(self) -> None:
        """Record no more events; what was recorded can still be read."""
        self._write("tracing_on", "0")

    def _begin(self) -> None:
        self._write("tracing_on", "0")
        self._write("trace_clock", "mono")
        self._write("tracing_cpumask", bitmap(self._cpus))
        room = str(room_kib(len(self._cpus)))
        for cpu in self._cpus:
            self._write(f"per_cpu/cpu{cpu}/buffer_size_kb", room)
        for event in _EVENTS:
            try:
                self._write(f"events/{event}/enable", "1")
            except OSError:
                if event == _NEEDED:
                    raise
        for cpu in self._cpus:
            self._pipes[cpu] = os.open(f"{self._path}/per_cpu/cpu{cpu}/trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        self._write("tracing_on", "1")

    def _write(self, name: str, text: str) -> None:
        path = f"{self._path}/{name}"
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error
        finally:
            os.close(descriptor)

    def _remove(self) -> None:
        for pipe in self._pipes.values():
            os.close(pipe)
        self._pipes.clear()
        _take_away(self._path)


def left(place: str) -> Iterator[str]:
    """Yield the paths of the instances whose processes have ended, zombies too. Numbers are those of the host's PID
    namespace.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir(f"{place}/instances"):
            number = name.removeprefix(_PREFIX)
            if number != name and number.isdigit() and place_of(int(number)) is None:
                yield f"{place}/instances/{name}"


def remove_left(place: str) -> None:
    """Take away the instances of processes that have ended."""
    for path in left(place):
        _take_away(path)


def _take_away(path: str) -> None:
    """Stop and remove an instance. One that is in use by another program stays, stopped."""
    with contextlib.suppress(OSError):
        for name in ("tracing_on", "events/enable"):
            with contextlib.suppress(OSError), open(f"{path}/{name}", "w", encoding="ascii") as file:
                file.write("0")
        os.rmdir(path)
