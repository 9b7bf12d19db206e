"""The sentences of mistakes in labels: what was given, and what would be right."""

from __future__ import annotations

from typing import Final, assert_never

from sidecar.decide.container.labels import NAMES, PREFIX
from sidecar.decide.container.swarm_task import KIND
from sidecar.readers import closest, nearest
from state.mistakes import (
    AllOf,
    BornInGroup,
    Clashes,
    CountOrTrue,
    DirectoryName,
    FractionalLimit,
    FromCount,
    Mistake,
    NoEffect,
    NoLimit,
    NoSuchDevice,
    OneOf,
    OtherLimit,
    OtherPin,
    Seconds,
    SetAside,
    SignalName,
    TrueOrFalse,
    UnknownLabel,
    UpToCount,
    Whole,
)

_FEW: Final = 3
"""So many words are all listed; of more, the one that is most like what was given."""

_SHORT: Final = 20
"""Characters of each of several unknown words."""


def sentences(mistakes: tuple[Mistake, ...]) -> str:
    """Return what all of these say, as one text."""
    return "; ".join(map(sentence, mistakes))


def sentence(mistake: Mistake) -> str:
    """Return what is wrong, what was given, and what would be right."""
    label, given, flaw = mistake.label, mistake.given, mistake.flaw
    match flaw:
        case UnknownLabel():
            return f"unknown label {label!r}{_nearest_label(label)}"
        case NoEffect(policy):
            return f"the label {label} has no effect under the policy {policy}"
        case NoSuchDevice(close):
            return f"{label} is {given!r}, and this machine has no such device" + _meant(close)
        case AllOf(words, unknown):
            return f"{label} has {_unknown(words, unknown)}"
        case Clashes(pairs):
            return f"{label}: " + "; ".join(f"{a} and {b} cannot be used together: choose one" for a, b in pairs)
        case NoLimit():
            return f"{label} is {given!r}, but no CPU limit says how many: set cpus, or give the number"
        case FractionalLimit(limit):
            return f"a limit of {limit:g} CPUs is a fraction: only whole CPUs can be exclusive, at least 1"
        case OtherLimit(limit):
            return f"{label} asks for {given} CPUs, but the limit is {limit:g}: make them equal, or drop the limit"
        case OtherPin(count, cpuset):
            return f"it asks for {count} exclusive CPUs and is pinned by hand to {cpuset}: drop one of the two"
        case BornInGroup(group, instead):
            inside = f"it lives in {group}, which confines the shared pool, and can have no CPUs outside it"
            return f"{inside}: create it with cgroup_parent: {instead}"
        case SetAside():
            return _set_aside(flaw)
        case OneOf(words) if len(words) > _FEW:
            return f"{label} is {given!r}{nearest(given, words)}"
        case _:
            return f"{label} is {given!r}: {_right(flaw)}"


def _right(
    flaw: OneOf | Whole | UpToCount | FromCount | CountOrTrue | Seconds | TrueOrFalse | SignalName | DirectoryName,
) -> str:
    """Return what would be right, as the end of a sentence."""
    match flaw:
        case OneOf((word,)):
            return f"the only word it knows is {word}"
        case OneOf(words):
            return f"one of {', '.join(words)}"
        case Whole(low, high):
            return f"write a whole number from {low} to {high}"
        case UpToCount(count):
            return f"write a whole number from 1 to the {count or 'N'} of cpuset.exclusive"
        case FromCount(count):
            return f"write a whole number that is at least the {count or 'N'} of cpuset.exclusive"
        case CountOrTrue():
            return "write a whole number of CPUs, or true to take it from the limit"
        case Seconds(low, high):
            return f"write a duration between {low:g}s and {high:g}s, like 2s or 500ms"
        case TrueOrFalse():
            return "write true or false"
        case SignalName():
            return "write the name of a signal that a program can catch, like HUP"
        case DirectoryName():
            return "use letters, digits, _ . - and at most 64 of them"
    assert_never(flaw)


def _unknown(known: tuple[str, ...], unknown: tuple[str, ...]) -> str:
    if len(unknown) == 1:
        return f"{unknown[0]!r}{nearest(unknown[0], known)}"
    return f"{', '.join(repr(word[:_SHORT]) for word in unknown)}; there is {', '.join(known)}"


def _nearest_label(label: str) -> str:
    """Return the label that is most like this one, or all; the prefix is like that of all others and says nothing."""
    close = closest(label.removeprefix(PREFIX), (known.removeprefix(PREFIX) for known in NAMES))
    return _meant(PREFIX + close) if close else f"; there is {', '.join(NAMES)}"


def _meant(word: str) -> str:
    return f"; did you mean {word!r}?" if word else ""


def _set_aside(flaw: SetAside) -> str:
    if not flaw.count:
        asked = flaw.asked
        return f"Swarm set no {KIND} aside for it, and it asks for {asked}: reserve {KIND}={asked} in the service"
    label = f"it asks for {flaw.asked}" if flaw.asked else "it has no label cpuset.exclusive"
    return f"Swarm set {KIND}={flaw.count} aside for it, and {label}: make them equal"
