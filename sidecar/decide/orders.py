"""What to do: the orders that `step` gives, imperative. The executor performs them and answers with facts."""

from __future__ import annotations

import msgspec

from sidecar.decide.facts import Purpose
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.refusal import Refusal


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """One call of the engine's update route: only what is given is changed.

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
    """Write this onto the container. One at a time per container; `number` names it in the outcome.

    `live` says that it has processes, so that the kernel must confirm; otherwise it is a write of configuration.
    """

    container: ContainerKey
    number: int
    update: Update
    live: bool


class StopContainer(msgspec.Struct, frozen=True, tag=True):
    """Stop it: its CPUs are not to be had, and that is what its label asks for."""

    container: ContainerKey
    refusal: Refusal


class StartTimer(msgspec.Struct, frozen=True, tag=True):
    """Answer with `TimerEnded` after so many seconds, on a clock that nobody sets. `number` is the number of what is
    waited for; a later timer of the same purpose replaces it.
    """

    container: ContainerKey
    purpose: Purpose
    number: int
    seconds: float


class SendSignal(msgspec.Struct, frozen=True, tag=True):
    """Send a signal (`HUP`) to the first process of a container: what it is told has changed."""

    container: ContainerKey
    signal: str


class AnswerStart(msgspec.Struct, frozen=True, tag=True):
    """Let a held start (`StartHeld`) go on with this, or refuse it for `refusal`.

    `update` is what goes into the runtime's bundle; None leaves the bundle as it is. `exclusive` says whether its CPUs
    are its own.
    """

    container: ContainerKey
    number: int
    update: Update | None = None
    exclusive: bool = False
    refusal: Refusal | None = None


class LookAgain(msgspec.Struct, frozen=True, tag=True):
    """Look at this container: what is known of it is in doubt."""

    container: ContainerKey


class ReadTopology(msgspec.Struct, frozen=True, tag=True):
    """Read the machine again: the engine refused CPUs that should be there."""


Order = ApplyCpuset | StopContainer | StartTimer | SendSignal | AnswerStart | LookAgain | ReadTopology
