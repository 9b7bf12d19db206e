"""Mistake: what is wrong with a label of a container, as facts. The sentences for people are made elsewhere.

A `Flaw` is one of three things: what would be right instead of a value, what the value contradicts, or why it has no
effect.
"""

from __future__ import annotations

import msgspec

GIVEN_LENGTH = 40
"""Characters of a wrong value that are kept: enough to recognise it."""


class Flaw(msgspec.Struct, frozen=True, tag=True):
    """Why a value cannot be used."""


# What would be right instead.


class OneOf(Flaw, frozen=True):
    """One of these words."""

    words: tuple[str, ...]


class AllOf(Flaw, frozen=True):
    """A list of these words; `unknown` are the first words that are none of them."""

    words: tuple[str, ...]
    unknown: tuple[str, ...]


class Whole(Flaw, frozen=True):
    """A whole number between two others."""

    low: int
    high: int


class UpToCount(Flaw, frozen=True):
    """A whole number from 1 to the count of `cpuset.exclusive`; None if that contains no count."""

    count: int | None = None


class FromCount(Flaw, frozen=True):
    """A whole number that is at least the count of `cpuset.exclusive`; None if that contains no count."""

    count: int | None = None


class CountOrTrue(Flaw, frozen=True):
    """A whole number of CPUs, or true. `is_fraction`: it is a number, and not a whole one."""

    is_fraction: bool = False


class Seconds(Flaw, frozen=True):
    """A duration between two others, in seconds; or one of these words."""

    low: float
    high: float
    words: tuple[str, ...] = ()


class TrueOrFalse(Flaw, frozen=True):
    """True or false."""


class WordOrPlaces(Flaw, frozen=True):
    """One of these words, or places among a container's own CPUs."""

    words: tuple[str, ...]


class SignalName(Flaw, frozen=True):
    """The name of a signal that a program can catch."""


class DirectoryName(Flaw, frozen=True):
    """A name below `by-name`."""


# What a value contradicts.


class Clashes(Flaw, frozen=True):
    """Options that exclude each other, in pairs."""

    pairs: tuple[tuple[str, str], ...]


class NoLimit(Flaw, frozen=True):
    """The CPU limit should set the number of CPUs, and there is none."""


class FractionalLimit(Flaw, frozen=True):
    """The CPU limit should set the number of CPUs, and is a fraction."""

    limit: float


class OtherLimit(Flaw, frozen=True):
    """The CPU limit is another number."""

    limit: float


class OtherPin(Flaw, frozen=True):
    """It is pinned by hand to another number of CPUs than the `count` that it asks for."""

    count: int
    cpuset: str


class BornInGroup(Flaw, frozen=True):
    """It lives in the group that confines the shared pool; `instead` is the cgroup parent that it needs."""

    group: str
    instead: str


class InsideAnother(Flaw, frozen=True):
    """Its cgroup lies in one that is called like a container's: it runs on the CPUs there, and can have no others."""


class NoCgroup(Flaw, frozen=True):
    """It has no cgroup of its own: it runs in that of whatever starts it, and can have no CPUs of its own."""


class InPod(Flaw, frozen=True):
    """Its pod confines all of its containers to these CPUs: it can have no others, and shares these with them."""

    cpuset: str


class PodThrottles(Flaw, frozen=True):
    """Its pod has a CPU limit for all of its containers, which stays in force while its own is lifted."""

    limit: float


class SetAside(Flaw, frozen=True):
    """Swarm's scheduler reserved another number of CPUs for it than it asks for.

    `count` is 0 if Swarm reserved none; `asked` is 0 if the container asks for none.
    """

    count: int
    asked: int


# What has no effect.


class UnknownLabel(Flaw, frozen=True):
    """There is no label of this name."""


class NoEffect(Flaw, frozen=True):
    """The policy of the node ignores this label."""

    policy: str


class NotOfUnits(Flaw, frozen=True):
    """A unit of the host has this label, and it is for containers alone."""


class OfPod(Flaw, frozen=True):
    """A pod has this label, and it reaches only the container that holds the pod together."""


class NotInPod(Flaw, frozen=True):
    """No container of the pod has the name that this label is for; `names` are the first of the `count` that it has."""

    names: tuple[str, ...]
    count: int


class NotItsName(Flaw, frozen=True):
    """The container has another `name` than the one that this label is for, and is in no pod."""

    name: str


class NotAllowed(Flaw, frozen=True):
    """The owner of the host does not give tenants the `right` that this label needs."""

    right: str


class Cut(Flaw, frozen=True):
    """The owner of the host gives no more than this, in seconds, by a key of the configuration."""

    most: float
    key: str


class NoSuchDevice(Flaw, frozen=True):
    """The machine has no such device; `nearest` is the most similar name that it has, "" for none."""

    nearest: str


AnyFlaw = (
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
    | Clashes
    | NoLimit
    | FractionalLimit
    | OtherLimit
    | OtherPin
    | BornInGroup
    | InsideAnother
    | NoCgroup
    | InPod
    | PodThrottles
    | SetAside
    | UnknownLabel
    | NoEffect
    | NotOfUnits
    | OfPod
    | NotInPod
    | NotItsName
    | NotAllowed
    | Cut
    | NoSuchDevice
)


class Mistake(msgspec.Struct, frozen=True):
    """A label whose value cannot be used as it stands: its name, the kept part of the value, and why."""

    label: str
    given: str
    flaw: AnyFlaw
