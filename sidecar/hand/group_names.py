"""Which names of cgroups are containers: `docker-<id>.scope`, `<id>`, `libpod-<id>.scope`, `libpod-<id>`.

Only a full id of 64 hex digits names a container. Below a parent that belongs to an engine alone, every other group is
the engine's work as well, and not a container's (a step of a build). Below a parent with other guests (`system.slice`
has all services of the host), any other group is none of ours, and is never touched.

The monitor of a Podman container (`libpod-conmon-<id>.scope`, `conmon`) is not part of it.
"""

from __future__ import annotations

import enum
import re
from typing import Final, NamedTuple


class ParentKind(enum.Enum):
    """What lies below a parent."""

    OWN = enum.auto()
    """Only the work of one engine."""
    PODS = enum.auto()
    """The same for Podman, where a full id alone is a pod, which is a parent itself."""
    GUESTS = enum.auto()
    """Groups of many owners: only names of containers count."""
    SCOPE = enum.auto()
    """A container's scope, in which crun puts the processes into a group `container`."""


class GroupKind(enum.Enum):
    """What a group below a parent is."""

    CONTAINER = enum.auto()
    STEP = enum.auto()
    """Work of an engine without a container: a step of a build."""
    PARENT = enum.auto()
    """A parent itself."""


class GroupName(NamedTuple):
    """What a name says: the kind, the id of a container ("" for others), and the kind of a parent."""

    kind: GroupKind
    id: str = ""
    parent_kind: ParentKind = ParentKind.OWN


_DIGITS: Final = b"[0-9a-f]{64}"
_ID: Final = b"(" + _DIGITS + b")"
_SCOPE: Final = re.compile(rb"[a-z]+-" + _ID + rb"\.scope")
_PLAIN: Final = re.compile(rb"(?:libpod-)?" + _ID)
_POD_SLICE: Final = re.compile(rb"[a-z_-]+-libpod_pod_[0-9a-f]{64}\.slice")
_STEP_NAME: Final = rb"docker-[0-9a-z]+\.scope|[a-zA-Z0-9_.\\-]+\.slice:docker:[0-9a-z]{25}"
"""The second is a path of systemd's that BuildKit hands to a runtime without systemd: seen beside the engine's unit."""
_STEP: Final = re.compile(_STEP_NAME)
_MONITOR: Final = re.compile(rb"libpod-conmon-.*|conmon|supervisor")

_BUILDS: Final = b"buildkit"
"""The group with the steps of builds, by Docker from 23 on under the cgroupfs driver."""

_INNER: Final = b"container"


def recognized(name: bytes, below: ParentKind) -> GroupName | None:
    """Return what this name is below a parent of this kind; None if it is none of ours."""
    if below is ParentKind.SCOPE:
        return GroupName(GroupKind.CONTAINER) if name == _INNER else None
    if _POD_SLICE.fullmatch(name):
        return GroupName(GroupKind.PARENT, parent_kind=ParentKind.GUESTS)
    if name == _BUILDS:
        return GroupName(GroupKind.PARENT)
    if below is ParentKind.PODS and len(name) == 64 and _PLAIN.fullmatch(name):
        return GroupName(GroupKind.PARENT)
    if found := _PLAIN.fullmatch(name) or _SCOPE.fullmatch(name):
        return GroupName(GroupKind.CONTAINER, found[1].decode())
    if _STEP.fullmatch(name):
        return GroupName(GroupKind.STEP)
    if below is ParentKind.GUESTS or _MONITOR.fullmatch(name) or name.endswith(b".slice"):
        return None
    return GroupName(GroupKind.STEP)


def pattern_of(kind: ParentKind) -> bytes:
    """Return a POSIX extended expression for names of groups that are written at birth, below a parent of this kind.

    It may lack names that `recognized` knows, but has none that it does not.
    """
    plain = b"(libpod-)?" if kind is not ParentKind.PODS else b"libpod-"
    names = [plain + _DIGITS, b"[a-z]+-" + _DIGITS + rb"\.scope", _STEP_NAME]
    return b"^(" + b"|".join(names + [b"[0-9a-z]{25}"] * (kind is ParentKind.OWN)) + b")$"


def has_inner_group(name: bytes) -> bool:
    """Return whether crun may make a group within this one."""
    return name.startswith(b"libpod-") and name.endswith(b".scope")
