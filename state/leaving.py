"""What leaves a grant with notice: the takes, and what was announced of each."""

from __future__ import annotations

import msgspec

from state.cause import Cause
from state.cpuset import EMPTY, CPUSet, union


class Batch(msgspec.Struct, frozen=True):
    """CPUs that were taken together: they have one grace. `notice_seconds` is how long that was announced to be; None
    if it was not announced yet, or by an earlier version.
    """

    number: int
    cpus: CPUSet
    notice_seconds: float | None = None


class Leaving(msgspec.Struct, frozen=True, kw_only=True):
    """CPUs that were taken from a container in the State, and that it may still be using.

    No other container may use them before it has left them. It may stay on each CPU until it acknowledges, or until the
    grace of that CPU is over: then the CPU is `due`. `number`, `cause` and `notice_seconds` are those of the last take;
    `earlier` are previous takes whose grace is not over yet, in their order.
    """

    cpus: CPUSet
    number: int
    cause: Cause
    due: CPUSet = EMPTY
    earlier: tuple[Batch, ...] = ()
    notice_seconds: float | None = None

    @property
    def waiting(self) -> CPUSet:
        """Those on which the container may stay."""
        return self.cpus - self.due

    @property
    def is_due(self) -> bool:
        """Whether it may stay on none of them."""
        return not self.waiting

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The CPUs that are waited for, by the takes that they belong to, in order."""
        last = self.waiting - union(batch.cpus for batch in self.earlier)
        return (*self.earlier, Batch(self.number, last, self.notice_seconds)) if last else self.earlier

    def due_on(self, cpus: CPUSet) -> Leaving:
        """Return the same without any notice for these CPUs."""
        earlier = tuple(_of(batch, rest) for batch in self.earlier if (rest := batch.cpus - cpus))
        return msgspec.structs.replace(self, due=self.due | (self.cpus & cpus), earlier=earlier)

    def within(self, cpus: CPUSet) -> Leaving | None:
        """Return the same, limited to these CPUs; None if nothing is left."""
        if not cpus & self.cpus:
            return None
        earlier = tuple(_of(batch, part) for batch in self.earlier if (part := batch.cpus & cpus))
        return msgspec.structs.replace(self, cpus=self.cpus & cpus, due=self.due & cpus, earlier=earlier)

    def announced(self, number: int, seconds: float) -> Leaving:
        """Return the same once it was announced that the CPUs of this take stay for so long."""
        if number == self.number:
            return msgspec.structs.replace(self, notice_seconds=seconds)
        earlier = (
            msgspec.structs.replace(each, notice_seconds=seconds) if each.number == number else each
            for each in self.earlier
        )
        return msgspec.structs.replace(self, earlier=tuple(earlier))

    def over(self, number: int) -> Leaving:
        """Return the same once this take, and all before it, was acknowledged."""
        rest = tuple(batch for batch in self.batches if batch.number > number)
        due = self.cpus - union(batch.cpus for batch in rest)
        return msgspec.structs.replace(self, due=due, earlier=tuple(b for b in rest if b.number != self.number))


def _of(batch: Batch, cpus: CPUSet) -> Batch:
    return msgspec.structs.replace(batch, cpus=cpus)
