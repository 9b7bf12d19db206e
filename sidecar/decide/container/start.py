"""Start: the state of a container's next start, if its OCI runtime asks first (strict start)."""

from __future__ import annotations

from typing import Final

import msgspec

from sidecar.decide.facts import ContainerView
from state.cpuset import CPUSet

STRICT_RUNTIME: Final = "cpuset"
"""The engines' name for the OCI runtime that asks before it starts a container."""

STRICT_PROGRAM: Final = "cpuset-runc"
"""The file name of that runtime."""


class Plain(msgspec.Struct, frozen=True, tag="plain"):
    """It may start at any moment, unseen, on the CPUs that the engine has configured."""


class Asks(msgspec.Struct, frozen=True, tag="asks"):
    """Its runtime asks before each start: it never starts unseen."""


class Held(msgspec.Struct, frozen=True, tag="held"):
    """Its runtime holds the start of this number until it is answered. Meanwhile the engine keeps its lock. `is_usual`:
    it did not choose that runtime, so it may start unseen another time: it is Plain again after this start.
    """

    number: int
    is_usual: bool = False


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """A start was answered with these CPUs, its own alone if `is_exclusive`. Until a look or an order, it may be still
    to come, or have failed. `is_usual` as of the start that was held.
    """

    cpus: CPUSet
    is_exclusive: bool = False
    is_usual: bool = False


Start = Plain | Asks | Held | Answered


def is_strict_runtime(runtime: str) -> bool:
    """Return whether this name or path is that of the runtime that asks first."""
    return runtime == STRICT_RUNTIME or runtime.rpartition("/")[2] == STRICT_PROGRAM


def shows_strict_runtime(view: ContainerView) -> bool:
    """Return whether a look proves that the container's runtime asks first. A glance does not: while the lock is held,
    the container may be starting with the answer of an earlier sidecar.
    """
    return is_strict_runtime(view.runtime) and not view.is_glance
