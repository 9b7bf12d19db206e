"""The labels of a container whose CPUs may grow and shrink: bounds, weight, notice, signal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

MAX_GRACE: Final = 60.0
"""Seconds. Who waits longer holds up somebody else's floor."""

MAX_WEIGHT: Final = 100

SIGNALS: Final = (
    *("HUP", "INT", "QUIT", "USR1", "USR2", "PIPE", "ALRM", "TERM", "CONT", "TSTP", "TTIN", "TTOU"),
    *("URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR"),
    *(f"RTMIN+{number}" for number in range(1, 16)),
    *(f"RTMAX-{number}" for number in range(15)),
)
"""Signals of signal(7) that a program can catch and that do not mean that it crashed, as engines spell them."""

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "": 1.0}


class Elasticity(msgspec.Struct, frozen=True, kw_only=True):
    """What the labels say: None or "" where they say nothing. `problem`: why they cannot be understood, or ""."""

    least: int | None = None
    most: int | None = None
    weight: int = 10
    grace_seconds: float | None = None
    signal: str = ""
    move: bool = False
    problem: str = ""


def elasticity(labels: Mapping[str, str], cpus: int) -> Elasticity:
    """Read the labels of a container that starts with so many CPUs."""
    try:
        least, most = _number(labels, "cpuset.min", 1, cpus), _number(labels, "cpuset.max", cpus, 9999)
        return Elasticity(
            least=least,
            most=most,
            weight=_number(labels, "cpuset.weight", 1, MAX_WEIGHT) or 10,
            grace_seconds=_grace(labels),
            signal=_signal(labels),
            move=_truth(labels, "cpuset.move"),
        )
    except _Bad as bad:
        return Elasticity(problem=str(bad))


def seconds_of(text: str, low: float, high: float) -> float | None:
    """A duration like `10s`, `500ms`, `1m` or a bare number of seconds; None if it is none, or out of bounds."""
    match = re.fullmatch(r"(\d{1,7}(?:\.\d{1,6})?) ?(ms|s|m|)", text, re.ASCII)
    if not match:
        return None
    seconds = float(match[1]) * _UNITS[match[2]]
    return seconds if low <= seconds <= high else None


class _Bad(Exception):
    pass


def _number(labels: Mapping[str, str], label: str, low: int, high: int) -> int | None:
    text = labels.get(label)
    if text is None:
        return None
    word = text.strip()
    if not (word.isascii() and word.isdigit() and len(word) <= 4 and low <= int(word) <= high):
        bounds = {
            "cpuset.min": f"write a whole number from 1 to the {high} of cpuset.exclusive",
            "cpuset.max": f"write a whole number that is at least the {low} of cpuset.exclusive",
        }.get(label, f"write a whole number from {low} to {high}")
        raise _Bad(f"{label} is {text[:40]!r}: {bounds}")
    return int(word)


def _grace(labels: Mapping[str, str]) -> float | None:
    text = labels.get("cpuset.grace")
    if text is None:
        return None
    seconds = seconds_of(text.strip(), 0, MAX_GRACE)
    if seconds is None:
        raise _Bad(f"cpuset.grace is {text[:40]!r}: write a duration between 0s and {MAX_GRACE:g}s, like 2s or 500ms")
    return seconds


def _signal(labels: Mapping[str, str]) -> str:
    text = labels.get("cpuset.signal")
    if text is None:
        return ""
    name = text.strip().upper().removeprefix("SIG")
    if name not in SIGNALS:
        raise _Bad(f"cpuset.signal is {text[:40]!r}: write the name of a signal that a program can catch, like HUP")
    return name


def _truth(labels: Mapping[str, str], label: str) -> bool:
    text = labels.get(label, "").strip().lower()
    if text not in ("", "true", "yes", "on", "1", "false", "no", "off", "0"):
        raise _Bad(f"{label} is {labels[label][:40]!r}: write true or false")
    return text in ("true", "yes", "on", "1")
