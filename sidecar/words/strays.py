"""What is astray on a host after CPUs went, as sentences for people, with the cure. Pure."""

from __future__ import annotations

from typing import Final, assert_never

from sidecar.astray import Astray, AstrayKind

_CURE: Final = "Mount /sys/fs/cgroup writable into the sidecar and let it see the host's processes (pid: host)"


def told(astray: Astray) -> str:
    """What is astray, and what to do about it; has no full stop."""
    match astray.kind:
        case AstrayKind.NARROWED:
            return (
                f"{astray.cgroup} lost CPUs {astray.lost} when they went offline, and does not get them back "
                f"({astray.error}): no container in it can. {_CURE}, or write {astray.wanted} to its cpuset.cpus"
            )
        case AstrayKind.WITHOUT_CPUS:
            return (
                f"{astray.container}: its last CPU went offline, and its processes run on the CPUs of the group above "
                "it until it has CPUs again"
            )
        case AstrayKind.UNSEEN:
            return _fallen_out(astray.container, "they are not visible")
        case AstrayKind.STUCK:
            return _fallen_out(astray.container, astray.error)
    assert_never(astray.kind)


def _fallen_out(container: str, reason: str) -> str:
    return (
        f"{container}: its processes fell out of its group when its last CPU went offline, and cannot be moved "
        f"back ({reason}). {_CURE}, or restart {container}"
    )
