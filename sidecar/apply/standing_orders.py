"""The standing order on the disk: written for fronts, and the locks on older ones.

Fronts take it without asking (`runtime/standing`), under a shared lock on its file. So:

1. The next order takes the place of the last one by a rename, and is not synced: the file of another boot is known by
   what it says, and one that a crash tore by its sum. A copy is synced now and then, for that case.
2. A replaced file is kept open as long as a container may start by it (`standing_file`). Those that have a CPU which
   the newest order lacks are *older*: an owner that needs that CPU waits for them.
3. A start that began by an order is written down by its front. That names what is waited for; and it tells which starts
   did not go around the front.
4. Where there is no order to give, the file goes: fronts ask then. If it cannot be written, it goes as well; if it
   cannot even be removed, nothing is let in where it leads.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Final, NamedTuple

import trio

from sidecar.apply.owner_orders import OwnerOrders
from sidecar.apply.standing_file import StandingFile
from sidecar.log import Log
from sidecar.runtime import standing
from sidecar.runtime.standing import ASK_ALL, ASK_LABELLED, BEGUN, COPY, FOLDER, ORDER, Order
from state import files
from state.cpuset import EMPTY, CPUSet
from state.errors import CPUSetError, StateError

_MODE: Final = 0o600
_MOST_NAMED: Final = 8

CLAIM_SECONDS: Final = 30.0
"""How long a start of the daemon waits for containers that begin by an order of its last run, at most."""

NAMED_SECONDS: Final = 5.0
"""After that, people are told what is waited for."""

_POLL_SECONDS: Final = 0.01


class _Said(NamedTuple):
    """What the file of an order says."""

    epoch: int
    cpus: CPUSet


class StandingOrders:
    """The order below this state directory, and the answers to owners beside it. Nothing here waits."""

    def __init__(self, state_dir: str) -> None:
        self.folder = os.path.join(state_dir, FOLDER)
        self._boot = standing.boot_of()
        self._machine = standing.machine_of()
        self._epoch = 0
        self._file = StandingFile(self.folder, ORDER, _read, standing.MOST_BYTES)
        self.owners = OwnerOrders(self.folder, self._next)
        self._written: tuple[CPUSet, str] | None = None
        self._copied: bytes | None = None
        self._content: bytes | None = None

    def _next(self) -> int:
        self._epoch += 1
        return self._epoch

    def claim(self, vacated: CPUSet) -> None:
        """Narrow the order of an earlier run to what the books have vacated, and withdraw its answers to owners, before
        anything is decided. StateError.
        """
        with files.directory(os.path.dirname(self.folder)) as above:
            os.close(files.open_directory(FOLDER, at=above, create=True, mode=0o700))
            with contextlib.suppress(FileExistsError):
                os.mkdir(f"{self.folder}/{BEGUN}", 0o700)
        last = self._file.last()
        self._epoch = max(last.epoch if last else 0, self.owners.claim())
        if last is None and vacated:
            return
        self.give((last.cpus & vacated if last else EMPTY) or None, asks_all=True)

    def give(self, cpus: CPUSet | None, *, asks_all: bool) -> None:
        """Have containers that ask for nothing start on these CPUs; None: each start is asked about. StateError."""
        asks = ASK_ALL if asks_all else ASK_LABELLED
        wanted = (cpus, asks) if cpus else None
        if wanted == self._written and wanted is not None:
            return
        self._written, number = None, self._next()
        order = Order(number, str(cpus), asks, self._boot, self._machine) if cpus else None
        self._content = standing.encoded(order) if order else None
        self._file.put(self._content)
        if order is None:
            with files.directory(self.folder) as at:
                files.remove(at, COPY)
            self._copied = None
        self._written = wanted

    def older(self) -> tuple[CPUSet, ...]:
        """Return the CPUs of each older order by which a container may still start, and that has CPUs which the newest
        one lacks.
        """
        now = self._written[0] if self._written and self._written[0] else EMPTY
        return tuple(each.cpus for each in self._file.held() if not each.cpus <= now)

    def is_awaited(self) -> bool:
        """Return whether a container may still start where what is told now does not lead."""
        return bool(self.older()) or self.owners.is_held()

    def holders(self) -> Sequence[str]:
        """Return the ids of the containers that begin by an older order, as far as their fronts wrote it down."""
        epochs = {each.epoch for each in self._file.held()} | self.owners.epochs()
        found = [id for id, epoch, pid in self._begun() if epoch in epochs and os.path.exists(f"/proc/{pid}")]
        return sorted(found)[:_MOST_NAMED]

    def has_begun(self, id: str) -> bool:
        """Return whether a front wrote down that this container began by an order."""
        return os.path.exists(f"{self.folder}/{BEGUN}/{id}")

    def begun(self) -> Sequence[str]:
        """Return the ids of the containers that began by an order, as far as that is not forgotten."""
        try:
            return os.listdir(f"{self.folder}/{BEGUN}")
        except OSError:
            return ()

    def has_left_over(self) -> bool:
        """Return whether there may be anything for `forget_ended` to do. Costs no more than the look at a folder."""
        try:
            with os.scandir(f"{self.folder}/{BEGUN}") as written:
                return self._content not in (None, self._copied) or next(written, None) is not None
        except OSError:
            return True

    def forget_ended(self) -> None:
        """Forget the starts whose runtimes have ended, and copy the order for a crash. Costs a sync: not for trio."""
        for id, _, pid in self._begun():
            if not os.path.exists(f"/proc/{pid}"):
                with contextlib.suppress(OSError):
                    os.unlink(f"{self.folder}/{BEGUN}/{id}")
        content = self._content
        if content is not None and content != self._copied:
            with contextlib.suppress(StateError), files.directory(self.folder) as at:
                files.replace(at, COPY, content, sync=True, mode=_MODE)
                self._copied = content
                if self._content is None:
                    # It was taken away meanwhile, by the thread that gives orders.
                    files.remove(at, COPY)

    def close(self) -> None:
        """Let go of what was replaced. What is told stays: containers start by it while no daemon runs."""
        self._file.close()
        self.owners.close()

    def _begun(self) -> list[tuple[str, int, str]]:
        """Return the starts that were written down: the container's id, the order's number, the front's process."""
        found = []
        try:
            names = os.listdir(f"{self.folder}/{BEGUN}")
        except OSError:
            return []
        for name in names:
            try:
                with open(f"{self.folder}/{BEGUN}/{name}", "rb") as file:
                    epoch, pid = file.read(64).split()[:2]
                found.append((name, int(epoch), pid.decode()))
            except (OSError, ValueError):
                continue
        return found


def _read(content: bytes) -> _Said:
    """Return what the file of an order says. What cannot be understood leads anywhere."""
    order = standing.decoded(content)
    try:
        return _Said(order.epoch, CPUSet.parse(order.cpus)) if order else _Said(0, EMPTY)
    except CPUSetError:
        return _Said(0, EMPTY)


async def claimed(state_dir: str, vacated: CPUSet | None, log: Log) -> StandingOrders:
    """Return the standing order of this run, once no container starts by one of the last run: nothing is decided
    before, since such a start is not known. One that hangs is named, and in the end not waited for.
    """
    orders = StandingOrders(state_dir)
    try:
        orders.claim(vacated or EMPTY)
    except StateError as error:
        log.warning(f"the standing order of fronts cannot be written: {error}")
    began = trio.current_time()
    is_told = False
    while orders.is_awaited():
        took = trio.current_time() - began
        if took > NAMED_SECONDS and not is_told:
            log.warning(waited_for(orders.holders()))
            is_told = True
        if took > CLAIM_SECONDS:
            break
        await trio.sleep(_POLL_SECONDS)
    return orders


def waited_for(holders: Sequence[str]) -> str:
    """Return what keeps owners waiting, as a sentence."""
    named = ", ".join(id[:12] for id in holders) or "a container that is not known"
    return f"owners wait for the start of {named}, which began by an older order and does not go on"
