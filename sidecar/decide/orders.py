"""What to do: the orders that `step` gives, imperative. The executor carries them out and answers with facts."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sidecar.decide.facts import Purpose
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey
from state.refusal import Refusal


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """One call of the engine's update route. Fields that are None are not changed.

    `mems` are ids of memory nodes in the kernel's list syntax; `nano_cpus` is in 1e-9 CPUs, `cpu_quota` in microseconds
    (-1: unlimited). An engine cannot clear a cpuset, so `cpus` is never empty.
    """

    cpus: CPUSet
    mems: str | None = None
    nano_cpus: int | None = None
    cpu_quota: int | None = None

    @property
    def leaves_limits(self) -> bool:
        """Whether it changes CPUs only."""
        return self.nano_cpus is None and self.cpu_quota is None and self.mems is None


class ApplyCpuset(msgspec.Struct, frozen=True, tag=True):
    """Apply this update to the container, one at a time per container; `number` identifies it in the outcome.

    `live`: the container has processes, so the kernel must confirm the update. Otherwise only configuration is written.
    """

    container: ContainerKey
    number: int
    update: Update
    live: bool


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """The standing answers: what the hand writes into a newborn cgroup before anything is known about it.

    `own` has an entry for each container that the sidecar places, and None for one that is left alone (pinned by hand,
    not managed). `others` is for every other newborn; None: nothing is written. `owned` are the exclusive CPUs in
    force: a group without an entry keeps what other programs write into it, but for these, or gets `others` if nothing
    remains. A newborn that was given all of `others` gets them alone. `left` are the CPUs that the engine has
    configured for containers that are left alone, if it has: each gets them back.

    A container's group is below the parent that it names (`named`), or below that of all which name none; those that
    are `unplaced` may be anywhere. A group elsewhere that is called like it is a newborn like every other.
    """

    others: CPUSet | None = None
    own: Mapping[ContainerKey, CPUSet | None] = {}
    owned: CPUSet = EMPTY
    left: Mapping[ContainerKey, CPUSet] = {}
    named: Mapping[ContainerKey, str] = {}
    unplaced: frozenset[ContainerKey] = frozenset()


class HoldAnswers(msgspec.Struct, frozen=True, tag=True):
    """Hold these answers instead of the earlier ones, and rewrite the newborns that have an earlier one.

    `parents` are cgroup parents to watch beyond the engines' defaults, as the engine names them: paths or slices.
    `home` is where containers that name none are found; nothing if that is not known. Once it is, it takes the place of
    the defaults, unless another engine may have these (`keeps_defaults`). `online` are the CPUs that were online: a
    group may have lost all of its own with one that is not. `resting` are containers that are known to have no process,
    or to be gone: if the group of one is still there, because others are inside it, no earlier write counts any more,
    and no order will write it. `labels_tell`: by its labels alone a container that is not known asks for nothing, so it
    may start on the others' CPUs without a question (the standing order of fronts).
    """

    number: int
    answers: Answers
    parents: tuple[str, ...] = ()
    home: tuple[str, ...] = ()
    online: CPUSet = EMPTY
    resting: frozenset[ContainerKey] = frozenset()
    labels_tell: bool = True
    keeps_defaults: bool = False


class WriteCpuset(msgspec.Struct, frozen=True, tag=True):
    """Write this update into the container's cgroup, without the engine: at most one at a time per container."""

    container: ContainerKey
    number: int
    update: Update


class StopContainer(msgspec.Struct, frozen=True, tag=True):
    """Stop it: its CPUs are not available, and its label asks for a stop in that case."""

    container: ContainerKey
    refusal: Refusal


class StartTimer(msgspec.Struct, frozen=True, tag=True):
    """Answer with `TimerEnded` after so many seconds on a monotonic clock. `number` is that of the awaited rest, take
    or cooldown; a later timer of the same purpose replaces this one.
    """

    container: ContainerKey
    purpose: Purpose
    number: int
    seconds: float


class SendSignal(msgspec.Struct, frozen=True, tag=True):
    """Send a signal (`HUP`) to the first process of a container: the CPUs reported to it have changed."""

    container: ContainerKey
    signal: str


class AnswerStart(msgspec.Struct, frozen=True, tag=True):
    """Let a held start (`StartHeld`) go on with this update, or refuse it because of `refusal`.

    `update` is applied to the runtime's bundle; None leaves the bundle unchanged. `exclusive`: its CPUs are exclusive.
    """

    container: ContainerKey
    number: int
    update: Update | None = None
    exclusive: bool = False
    refusal: Refusal | None = None


class LookAgain(msgspec.Struct, frozen=True, tag=True):
    """Look at this container again, because its known state is in doubt."""

    container: ContainerKey


class ReadTopology(msgspec.Struct, frozen=True, tag=True):
    """Read the machine again: the engine refused CPUs that should be there."""


Order = (
    ApplyCpuset
    | HoldAnswers
    | WriteCpuset
    | StopContainer
    | StartTimer
    | SendSignal
    | AnswerStart
    | LookAgain
    | ReadTopology
)
