"""The engine's refusals: from HTTP status and message to our errors, by one table."""

from __future__ import annotations

from typing import Final

import msgspec

from sidecar.failures import ContainerGone, EngineError, EngineFailed, EngineLacks, EngineRefused, EngineUnavailable
from state import codec
from state.codec import UNREADABLE

_SHOWN: Final = 500
"""Characters of an engine's message that are kept: the reason is at the beginning, and people must read it."""

_UNKNOWN_ROUTE: Final = "page not found"
"""Docker's message for an unknown route, in the same JSON as for an unknown container (20.10)."""

_NO_CONTROLLER: Final = "cgroup controller `cpuset` is not available"
"""The message of crun and runc for a cpuset controller that was not delegated (Podman, rootless)."""

_ABSENT_CPUS: Final = "Requested CPUs are not available"
_OLD_LIST: Final = (
    "Docker 23 and later know only the CPUs that were online when the engine started: if these are online now, restart "
    "the engine (with live-restore the containers run on)"
)

_GONE: Final = "no such container"
"""Podman's cause if the container was removed meanwhile, whatever the status."""

_BY_STATUS: Final[dict[int, type[EngineError]]] = {
    400: EngineRefused,
    403: EngineRefused,
    404: ContainerGone,
    405: EngineLacks,
    408: EngineUnavailable,
    409: EngineRefused,
    429: EngineUnavailable,
    501: EngineLacks,
    502: EngineUnavailable,  # 502 to 504 come from a proxy in between: whether the engine acted is unknown
    503: EngineUnavailable,
    504: EngineUnavailable,
}


class _Refusal(msgspec.Struct):
    message: str | None = None
    cause: str | None = None


def error_of(status: int, body: bytes) -> EngineError:
    """Return our error for an answer of status 400 and above.

    A 404 with the engine's own JSON means that the container is gone; without it, or for an unknown page, the route is
    missing. A 500 need not be JSON, whatever its content type claims.
    """
    read = _read(body)
    message = read.message or read.cause
    text = shown(message if message is not None else body.decode("utf-8", "replace")) or f"HTTP status {status}"
    if status == 404 and (message is None or message.strip() == _UNKNOWN_ROUTE):
        return EngineLacks(f"this engine does not know the route ({text}): use Docker, or Podman 5.1 or later")
    if _NO_CONTROLLER in text.replace("'", "`").replace("requested ", ""):
        return EngineLacks(f"{text}: delegate the cpuset controller to the engine (systemd: Delegate=cpu cpuset)")
    if text.startswith(_ABSENT_CPUS):
        text = f"{text}; {_OLD_LIST}"
    if read.cause == _GONE:
        return ContainerGone(text)
    kind = _BY_STATUS.get(status, EngineFailed if status >= 500 else EngineRefused)
    return kind(text)


def shown(text: str) -> str:
    """Return a foreign text cut to a readable length, on one line, printable."""
    cut = text[:_SHOWN] + ("..." if len(text) > _SHOWN else "")
    return "".join(letter if codec.is_printable(letter) else " " for letter in cut).strip()


def _read(body: bytes) -> _Refusal:
    try:
        return msgspec.json.decode(body, type=_Refusal)
    except UNREADABLE:
        return _Refusal()
