"""The sentences of mistakes in values that people type: what was given, and what would be right. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias, assert_never

from sidecar.decide.container.labels import MAX_CPUS, NAMES, PREFIX, SIGNALS, meant
from sidecar.decide.container.swarm_task import KIND
from sidecar.readers import closest
from sidecar.words.counts import cpus as counted_cpus
from sidecar.words.counts import exclusive_cpus, some
from state.mistakes import (
    AllOf,
    AnyFlaw,
    BornInGroup,
    Clashes,
    CountOrTrue,
    Cut,
    DirectoryName,
    FractionalLimit,
    FromCount,
    InPod,
    InsideAnother,
    Mistake,
    NoCgroup,
    NoEffect,
    NoLimit,
    NoSuchDevice,
    NotAllowed,
    NotInPod,
    NotItsName,
    NotOfUnits,
    OfPod,
    OneOf,
    OtherLimit,
    OtherPin,
    PodThrottles,
    Seconds,
    SetAside,
    SignalName,
    TrueOrFalse,
    UnknownLabel,
    UpToCount,
    Whole,
    WordOrPlaces,
)

Unreadable: TypeAlias = (
    OneOf
    | AllOf
    | Whole
    | UpToCount
    | FromCount
    | CountOrTrue
    | Seconds
    | TrueOrFalse
    | WordOrPlaces
    | SignalName
    | DirectoryName
)
"""The flaws that say what would be right in place of a value."""

_SECONDS: Final = (("h", 3600.0), ("m", 60.0), ("s", 1.0))


def sentences(mistakes: tuple[Mistake, ...]) -> str:
    """Return a sentence for all of these."""
    return "; ".join(map(sentence, mistakes))


def sentence(mistake: Mistake) -> str:
    """Return what is wrong with a label, what was given, and what would be right."""
    return said(mistake.label, mistake.given, repr(mistake.given), mistake.flaw)


def said(name: str, given: str, shown: str, flaw: AnyFlaw) -> str:
    """Return the same for a key or a flag; `given` is its text, "" if it is none, and `shown` the quoted value."""
    if isinstance(flaw, Unreadable):
        if isinstance(flaw, AllOf) and flaw.unknown:
            return f"{name} has {_unknown(flaw)}"
        close = (
            nearest(given, flaw.words)
            if isinstance(flaw, OneOf | Seconds | WordOrPlaces)
            else _nearest_signal(given, flaw)
        )
        return f"{name} is {shown}{close or f': {_right(flaw)}'}"
    match flaw:
        case UnknownLabel():
            return f"unknown label {name!r}{nearest_label(name)}"
        case NoEffect(policy):
            return f"the label {name} has no effect under the policy {policy}"
        case NotOfUnits():
            return f"the label {name} has no effect on a unit of the host: it is for containers"
        case OfPod():
            return f"the label {name} has no effect on a pod: give it to the container"
        case NotInPod(names, count):
            return f"{name} is for {shown}, and no container of this pod is called so: it has {some(names, of=count)}"
        case NotItsName(own):
            return f"{name} is for {shown}, and this container is called {own!r}"
        case NotAllowed(right):
            return f"the label {name} has no effect: tenants_may does not contain {right}"
        case Cut(most, key):
            return f"{name} is {shown}, and {key} allows {_time(most)}: it has that"
        case NoSuchDevice(close):
            return f"{name} is {shown}, and this machine has no such device" + _meant(close)
        case Clashes(pairs):
            return f"{name}: " + "; ".join(f"{a} and {b} cannot be used together: choose one" for a, b in pairs)
        case NoLimit():
            return f"{name} is {shown}, but no CPU limit says how many: set cpus, or give the number"
        case FractionalLimit(limit):
            return f"a limit of {counted_cpus(limit)} is a fraction: only whole CPUs can be exclusive, at least 1"
        case OtherLimit(limit):
            return f"{name} asks for {_asked(given)}, but the limit is {limit:g}: make them equal, or drop the limit"
        case OtherPin(count, cpuset):
            return f"it asks for {exclusive_cpus(count)} and is pinned by hand to {cpuset}: drop one of the two"
        case BornInGroup(group, instead):
            inside = f"it lives in {group}, which confines the shared pool, and can have no CPUs outside it"
            return f"{inside}: create it with cgroup_parent: {instead}"
        case InsideAnother():
            inside = (
                f"its {name} {shown} lies in a cgroup that is called like a container's, and it runs on the CPUs there"
            )
            return f"{inside}: recreate it with another {name}"
        case NoCgroup():
            return (
                f"it has no cgroup of its own ({name} is {shown}), and runs where it is started: recreate it with one"
            )
        case InPod(cpuset):
            return (
                f"its pod is confined to {cpuset}, and it can have no CPUs of its own there: drop the cpuset of the pod"
            )
        case PodThrottles(limit):
            inside = f"its pod has a limit of {counted_cpus(limit)}, which would throttle it on its own CPUs"
            return f"{inside}: drop that limit, or set cpuset.quota to keep"
        case SetAside():
            return _set_aside(flaw)
    assert_never(flaw)


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or "" where no known word is like this one."""
    return _meant(closest(word, known))


def nearest_label(label: str) -> str:
    """Return the label that is most like this one, or all: the common prefix does not count. The prefix alone stands
    for the one that asks for CPUs.
    """
    if label == PREFIX.rstrip("."):
        return _meant(meant(label))
    if close := closest(label.removeprefix(PREFIX), (known.removeprefix(PREFIX) for known in NAMES)):
        return _meant(PREFIX + close)
    close = "" if label.startswith(PREFIX) else closest(label, NAMES)
    return _meant(close) or f": the labels are {', '.join(NAMES)}"


def _right(flaw: Unreadable) -> str:
    """Return what would be right, as the end of a sentence."""
    match flaw:
        case OneOf((word,)):
            return f"the only word it knows is {word}"
        case OneOf(words):
            return f"write one of {', '.join(words)}"
        case AllOf(words):
            return f"write a list of some of {', '.join(words)}"
        case Whole(low, high):
            return f"write a whole number from {low} to {high}"
        case UpToCount(1):
            return "write 1, the number of cpuset.exclusive"
        case UpToCount(count):
            return f"write a whole number from 1 to the {count or 'N'} of cpuset.exclusive"
        case FromCount(count):
            return f"write a whole number from the {count or 'N'} of cpuset.exclusive to {MAX_CPUS}"
        case CountOrTrue():
            return "write a whole number of CPUs, or true to take it from the limit"
        case Seconds(low, high, words):
            or_words = f"{', '.join(words)}, or " if words else ""
            return f"write {or_words}a duration from {_time(low)} to {_time(high)}, in ms, s, m or h, like 10s"
        case TrueOrFalse():
            return "write true or false"
        case WordOrPlaces(words):
            return f"write one of {', '.join(words)}, or a list like 1 or 0-1, in which 0 is its first CPU"
        case SignalName():
            return "write the name of a signal that a program can catch, like HUP"
        case DirectoryName():
            return "use letters, digits, _ . - and at most 64 of them"
    assert_never(flaw)


def _asked(given: str) -> str:
    return counted_cpus(int(given)) if given.isdecimal() else given


def _time(seconds: float) -> str:
    """Return a duration as people type it."""
    for unit, length in _SECONDS:
        if seconds >= length and not seconds % length:
            return f"{seconds / length:g}{unit}"
    return f"{seconds * 1000:g}ms" if seconds else "0s"


def _unknown(flaw: AllOf) -> str:
    """Return the unknown words, each with the nearest known one; all known words if there is none."""
    given = ", ".join(map(repr, flaw.unknown))
    close = [closest(word, flaw.words) for word in flaw.unknown]
    if all(close):
        return f"{given}; did you mean {' and '.join(map(repr, close))}?"
    return f"{given}: the words are {', '.join(flaw.words)}"


def _nearest_signal(given: str, flaw: Unreadable) -> str:
    return nearest(given.upper().removeprefix("SIG"), SIGNALS) if isinstance(flaw, SignalName) else ""


def _meant(word: str) -> str:
    return f"; did you mean {word!r}?" if word else ""


def _set_aside(flaw: SetAside) -> str:
    if not flaw.count:
        asked = flaw.asked
        return f"Swarm set no {KIND} aside for it, and it asks for {asked}: reserve {KIND}={asked} in the service"
    label = f"it asks for {flaw.asked}" if flaw.asked else "it has no label cpuset.exclusive"
    return f"Swarm set {KIND}={flaw.count} aside for it, and {label}: make them equal"
