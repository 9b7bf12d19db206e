"""The standing order on the disk: written for fronts, and the locks on older ones.

Fronts take it without asking (`runtime/standing`), under a shared lock on its file. So:

1. The next order takes the place of the last one by a rename, and is not synced: the file of another boot is known by
   what it says, and one that a crash tore by its sum. A copy is synced now and then, for that case.
2. A replaced file is kept open as long as a container may start by it: until it can be locked exclusively. Those that
   have a CPU which the newest order lacks are *older*: an owner that needs that CPU waits for them.
3. A start that began by an order is written down by its front. That names what is waited for; and it tells which starts
   did not go around the front.
4. Where there is no order to give, the file goes: fronts ask then. If it cannot be written, it goes as well; if it
   cannot even be removed, nothing is let in where it leads.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from typing import Final

import trio

from sidecar.log import Log
from sidecar.runtime import standing
from sidecar.runtime.standing import ASK_ALL, ASK_LABELLED, BEGUN, COPY, FOLDER, ORDER, Order
from state import files
from state.cpuset import EMPTY, CPUSet
from state.errors import CPUSetError, StateError

_MODE: Final = 0o600
_MOST_NAMED: Final = 8
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


CLAIM_SECONDS: Final = 30.0
"""How long a start of the daemon waits for containers that begin by an order of its last run, at most."""

NAMED_SECONDS: Final = 5.0
"""After that, people are told what is waited for."""

_POLL_SECONDS: Final = 0.01


class _Replaced:
    """An order that has no place any more, and may still be held; `opened` is -1 if it could not be replaced."""

    def __init__(self, opened: int, epoch: int, cpus: CPUSet) -> None:
        self.opened = opened
        self.epoch = epoch
        self.cpus = cpus

    def is_held(self) -> bool:
        """Return whether a start holds it. If not, it is closed."""
        if self.opened < 0:
            return True
        try:
            fcntl.flock(self.opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        os.close(self.opened)
        return False


class StandingOrders:
    """The order below this state directory. Nothing here waits."""

    def __init__(self, state_dir: str) -> None:
        self.folder = os.path.join(state_dir, FOLDER)
        self._boot = standing.boot_of()
        self._machine = standing.machine_of()
        self._epoch = 0
        self._written: tuple[CPUSet, str] | None = None
        self._replaced: list[_Replaced] = []
        self._copied: bytes | None = None
        self._content: bytes | None = None

    def claim(self, vacated: CPUSet) -> None:
        """Narrow the order of an earlier run to what the books have vacated, before anything is decided. StateError."""
        with files.directory(os.path.dirname(self.folder)) as above:
            os.close(files.open_directory(FOLDER, at=above, create=True, mode=0o700))
            with contextlib.suppress(FileExistsError):
                os.mkdir(f"{self.folder}/{BEGUN}", 0o700)
        last = self._present()
        if last is None and vacated:
            return
        self._epoch = last.epoch if last else 0
        if last:
            os.close(last.opened)  # `give` opens it again.
        self.give((last.cpus & vacated if last else EMPTY) or None, asks_all=True)

    def give(self, cpus: CPUSet | None, *, asks_all: bool) -> None:
        """Have containers that ask for nothing start on these CPUs; None: each start is asked about. StateError."""
        asks = ASK_ALL if asks_all else ASK_LABELLED
        wanted = (cpus, asks) if cpus else None
        if wanted == self._written and wanted is not None:
            return
        before = self._present()
        self._epoch += 1
        try:
            with files.directory(self.folder) as at:
                if cpus is None:
                    files.remove(at, ORDER)
                    files.remove(at, COPY)
                    self._content = self._copied = None
                else:
                    order = Order(self._epoch, str(cpus), asks, self._boot, self._machine)
                    self._content = standing.encoded(order)
                    files.replace(at, ORDER, self._content, sync=False, mode=_MODE)
        except StateError:
            self._written = None
            if before is not None:
                self._take_away(before)
            raise
        self._written = wanted
        # One that could not be replaced before is the one that is replaced now.
        self._replaced = [each for each in self._replaced if each.opened >= 0]
        if before is not None:
            self._replaced.append(before)

    def older(self) -> tuple[CPUSet, ...]:
        """Return the CPUs of each older order by which a container may still start, and that has CPUs which the newest
        one lacks.
        """
        self._replaced = [each for each in self._replaced if each.is_held()]
        now = self._written[0] if self._written and self._written[0] else EMPTY
        return tuple(each.cpus for each in self._replaced if not each.cpus <= now)

    def holders(self) -> Sequence[str]:
        """Return the ids of the containers that begin by an older order, as far as their fronts wrote it down."""
        epochs = {each.epoch for each in self._replaced}
        found = [id for id, epoch, pid in self._begun() if epoch in epochs and os.path.exists(f"/proc/{pid}")]
        return sorted(found)[:_MOST_NAMED]

    def has_begun(self, id: str) -> bool:
        """Return whether a front wrote down that this container began by an order."""
        return os.path.exists(f"{self.folder}/{BEGUN}/{id}")

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
        """Let go of what was replaced. The order stays: containers start by it while no daemon runs."""
        for each in self._replaced:
            if each.opened >= 0:
                os.close(each.opened)
        self._replaced = []

    def _present(self) -> _Replaced | None:
        """Return the order in its place, open; None if there is none. What cannot be understood leads anywhere."""
        try:
            opened = os.open(f"{self.folder}/{ORDER}", _READ)
        except OSError:
            return None
        content = os.pread(opened, standing.MOST_BYTES, 0)
        order = standing.decoded(content)
        try:
            return _Replaced(opened, order.epoch if order else 0, CPUSet.parse(order.cpus) if order else EMPTY)
        except CPUSetError:
            return _Replaced(opened, 0, EMPTY)

    def _take_away(self, before: _Replaced) -> None:
        """Remove an order that could not be replaced (4)."""
        try:
            os.unlink(f"{self.folder}/{ORDER}")
        except FileNotFoundError:
            pass
        except OSError:
            if before.opened >= 0:
                os.close(before.opened)
            before.opened = -1
        self._replaced.append(before)

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
    while orders.older():
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
