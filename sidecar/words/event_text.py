"""Events as sentences for people: the container, or the unit of the host, what it did, and why. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sidecar.words.counts import named
from state.cpuset import CPUSet
from state.errors import StateError

_KNOWN: Final = ("id", "time", "level", "message", "container", "unit")
"""What every event has; a container or a unit is its subject."""

_Fields = Mapping[str, Any]

_SENTENCES: Final[Mapping[str, Callable[[_Fields], str]]] = {
    "granted": lambda event: f"was granted {_cpus(event, 'cpus')}{_ahead(event)}",
    "released": lambda event: f"has no CPUs of its own any more; it had {_cpus(event, 'cpus')}",
    "refused": lambda event: f"was refused: {_text(event, 'reason')}",
    "grew": lambda event: f"gained {_cpus(event, 'cpus')}: {_text(event, 'reason')}",
    "shrank": lambda event: f"loses {_cpus(event, 'cpus')}: {_text(event, 'reason')}",
    "exchanged": lambda event: f"exchanges {_cpus(event, 'from')} for {_cpus(event, 'to')}: {_text(event, 'reason')}",
    "moved": lambda event: f"moves from {_cpus(event, 'from')} to {_cpus(event, 'to')}",
    "take started": lambda event: f"is to leave {_cpus(event, 'cpus')}{_notice(event)}",
    "take acknowledged": lambda event: f"acknowledged that it left {_cpus(event, 'cpus')}",
    "take forced: the workload did not acknowledge in time": lambda event: (
        f"did not leave {_cpus(event, 'cpus')} in time: forced"
    ),
    "take called off": lambda event: f"keeps {_cpus(event, 'cpus')} after all",
    "take broken off": lambda event: f"leaves {_cpus(event, 'cpus')} now, without the rest of its notice",
    "take finished": lambda event: f"has left {_cpus(event, 'cpus')}",
}
"""By the message of the event, what its container did. Other messages are sentences already."""


def event_text(event: _Fields) -> str:
    """Return an event as one sentence."""
    message = _text(event, "message")
    subject = _text(event, "container") or _text(event, "unit")
    if subject and (sentence := _SENTENCES.get(message)):
        return f"{subject} {sentence(event)}"
    more = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in event.items() if name not in _KNOWN)
    told = f"{message}: {more}" if more else message
    return f"{subject}: {told}" if subject else told


def _text(event: _Fields, name: str) -> str:
    return str(event.get(name, ""))


def _cpus(event: _Fields, name: str) -> str:
    text = _text(event, name)
    try:
        return named(CPUSet.parse(text)) if text else "no CPU"
    except (StateError, ValueError):
        return text


def _ahead(event: _Fields) -> str:
    passed = _text(event, "ahead_of")
    return f", ahead of {passed}" if passed else ""


def _notice(event: _Fields) -> str:
    seconds = event.get("notice_seconds")
    return f" within {seconds:g} s" if isinstance(seconds, int | float) and seconds else ""
