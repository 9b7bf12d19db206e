"""What offlined CPUs left behind on a host and cannot be mended yet, as values: Astray."""

from __future__ import annotations

import enum

import msgspec

from state.cpuset import EMPTY, CPUSet


class AstrayKind(enum.StrEnum):
    """What is not as it should be."""

    NARROWED = "narrowed"
    """A cgroup above containers `lost` CPUs and cannot regain the `wanted` ones."""
    WITHOUT_CPUS = "without-cpus"
    """The processes of a container are elsewhere, and its own cgroup has no CPU to which they could return."""
    UNSEEN = "unseen"
    """The processes are elsewhere, and not visible from here."""
    STUCK = "stuck"
    """The processes are elsewhere, and cannot be moved."""
    UNKNOWN = "unknown"
    """It could not be found out: there was an unexpected error."""
    UNREADABLE = "unreadable"
    """It could not be found out: the sidecar may not read its cgroup."""


class Astray(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is astray: a `cgroup` by its path, or a `container` by its name; `error` is the kernel's text."""

    kind: AstrayKind
    container: str = ""
    cgroup: str = ""
    lost: CPUSet = EMPTY
    wanted: CPUSet = EMPTY
    error: str = ""
