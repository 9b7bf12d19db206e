"""What a CPU that went offline left astray on a host, as sentences for people with the cure. Pure."""

from __future__ import annotations

from typing import Final, assert_never

from sidecar.astray import Astray, AstrayKind
from sidecar.words.counts import agree, named
from sidecar.words.hands import keep_out

_CURE: Final = "mount /sys/fs/cgroup writable into the sidecar and run it with the host's PID namespace (pid: host)"


def told(astray: Astray) -> str:
    """Return what is astray and what to do about it, as a clause without a full stop."""
    match astray.kind:
        case AstrayKind.NARROWED:
            it = agree(len(astray.lost), "it", "them")
            return (
                f"{astray.cgroup} lost {named(astray.lost)}, which went offline, and did not get {it} back "
                f"({astray.error}), so no container in it can use them: {_CURE}, or write {astray.wanted} to its "
                "cpuset.cpus"
            )
        case AstrayKind.WITHOUT_CPUS:
            return (
                f"{astray.container}: its last CPU went offline, so its processes run on the CPUs of the cgroup above "
                "it until it has CPUs again"
            )
        case AstrayKind.UNSEEN:
            return _fallen_out(astray.container, "they are not visible")
        case AstrayKind.STUCK:
            return _fallen_out(astray.container, astray.error)
        case AstrayKind.UNKNOWN:
            return (
                f"{astray.container}: whether its processes left its cgroup when a CPU went offline is not known "
                f"({astray.error})"
            )
        case AstrayKind.UNREADABLE:
            return (
                f"{astray.container}: whether its processes left its cgroup when a CPU went offline is not known "
                f"({astray.error}): {keep_out(astray.container)}"
            )
    assert_never(astray.kind)


def _fallen_out(container: str, reason: str) -> str:
    return (
        f"{container}: its processes left its cgroup when its last CPU went offline, and cannot be moved "
        f"back ({reason}): {_CURE}, or restart {container}"
    )
