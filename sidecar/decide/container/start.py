"""Start: what is known of a container's next start where its OCI runtime asks first (strict start)."""

from __future__ import annotations

from typing import Final

import msgspec

from sidecar.decide.facts import ContainerView
from state.cpuset import CPUSet

STRICT_RUNTIME: Final = "cpuset"
"""The name under which engines know the OCI runtime that asks before it starts a container."""

STRICT_PROGRAM: Final = "cpuset-runc"
"""The file name of that runtime."""


class Plain(msgspec.Struct, frozen=True, tag="plain"):
    """It may start at any moment, unseen, where the engine's configuration says."""


class Asks(msgspec.Struct, frozen=True, tag="asks"):
    """Its runtime asks before each start: it never starts unseen."""


class Held(msgspec.Struct, frozen=True, tag="held"):
    """Its runtime holds the start of this number until it is answered; the engine holds its lock meanwhile."""

    number: int


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """A start was answered with these CPUs. It may be still to come, or have failed, until an order was carried out."""

    cpus: CPUSet


Start = Plain | Asks | Held | Answered


def is_strict_runtime(runtime: str) -> bool:
    """Whether this is the runtime that asks first, by its name or its path."""
    return runtime == STRICT_RUNTIME or runtime.rpartition("/")[2] == STRICT_PROGRAM


def shows_strict_runtime(view: ContainerView) -> bool:
    """Whether a look proves that the container's runtime asks first. One whose lock was held may be starting on what an
    earlier sidecar answered: a glance proves nothing.
    """
    return is_strict_runtime(view.runtime) and not view.is_glance
