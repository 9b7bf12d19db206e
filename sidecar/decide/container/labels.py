"""The labels of a container: one table of their names, readers and defaults, and what a container's own labels say.

A label never fails a container. A value that cannot be read is a mistake, kept beside the values; all of them are
found. What follows is the row's: a refusal of exclusive CPUs, or a warning alone.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final, Literal, cast

import msgspec

from sidecar.decide.placement.options import CONTAINER_OPTIONS, clashes
from sidecar.decide.settings import PolicyName
from sidecar.readers import NUMA_WORDS, Reader, choice, duration, kept, plain_name, truth, whole, words
from state.mistakes import (
    GIVEN_LENGTH,
    AllOf,
    AnyFlaw,
    Clashes,
    CountOrTrue,
    Flaw,
    FromCount,
    Mistake,
    NoEffect,
    OneOf,
    SignalName,
    UnknownLabel,
    UpToCount,
    Whole,
)
from state.model import MemsRule, NumaRule, QuotaRule, Scale, Shortage

PREFIX: Final = "cpuset."

FROM_LIMIT: Final = "limit"
"""The value of `cpuset.exclusive` that takes the number from the CPU limit."""

MAX_CPUS: Final = 9999
MAX_WEIGHT: Final = 100
MAX_GRACE: Final = 60.0
"""Seconds. Who waits longer holds up somebody else's floor."""

SIGNALS: Final = (
    *("HUP", "INT", "QUIT", "USR1", "USR2", "PIPE", "ALRM", "TERM", "CONT", "TSTP", "TTIN", "TTOU"),
    *("URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR"),
    *(f"RTMIN+{number}" for number in range(1, 16)),
    *(f"RTMAX-{number}" for number in range(15)),
)
"""Signals of signal(7) that a program can catch and that do not mean that it crashed, as engines spell them."""

_DEVICE_LENGTH: Final = 64
"""Characters of a device's name: a network interface has 15 at most, a PCI address 12 or some more."""

_LABEL_LENGTH: Final = 60
"""Characters of an unknown label's name that are kept."""

_CPUS: Final = whole(1, MAX_CPUS)
_PLACEMENT: Final = words(CONTAINER_OPTIONS)


class Values(msgspec.Struct, frozen=True, kw_only=True):
    """What the labels say, by their names without the prefix: None where a label says nothing and the node decides.

    `exclusive` is a count, 0 for "none, whatever the limits say", or FROM_LIMIT.
    """

    exclusive: int | Literal["limit"] | None = None
    options: tuple[str, ...] | None = None
    numa: NumaRule | None = None
    near: str = ""
    mems: MemsRule = MemsRule.KEEP
    on_shortage: Shortage | None = None
    quota: QuotaRule = QuotaRule.LIFT
    projection: str = ""
    manage: bool = True
    min: int | None = None
    max: int | None = None
    scale: Scale = Scale.FILL
    weight: int = 10
    grace: float | None = None
    signal: str = ""
    move: bool = False


class Labels(msgspec.Struct, frozen=True):
    """What was read: the values, with the default for every label that is not there or wrong, and all mistakes."""

    values: Values
    mistakes: tuple[Mistake, ...] = ()

    @property
    def refusing(self) -> tuple[Mistake, ...]:
        """The mistakes with which nothing exclusive can be granted."""
        return tuple(each for each in self.mistakes if ROWS[each.label].on_mistake is OnMistake.REFUSE)

    @property
    def harmless(self) -> tuple[Mistake, ...]:
        """The mistakes that are told, and stand in nothing's way."""
        return tuple(each for each in self.mistakes if ROWS[each.label].on_mistake is OnMistake.WARN)


class OnMistake(enum.Enum):
    """What follows from a value that cannot be read."""

    REFUSE = "refuse"
    WARN = "warn"


class Heeded(enum.Enum):
    """Under which policies a label means anything."""

    ALWAYS = "always"
    GRANTING = "granting"
    """Under every policy that grants CPUs."""
    DYNAMIC = "dynamic"
    """Under others it is read, so that a mistake is found, and changes nothing."""


class Label(msgspec.Struct, frozen=True, dict=True):
    """One label. `key` is the configuration's key that holds where the label is not there, "" where there is none."""

    name: str
    read: Reader[Any, AnyFlaw]
    heeded: Heeded = Heeded.GRANTING
    on_mistake: OnMistake = OnMistake.REFUSE
    key: str = ""

    @cached_property
    def field(self) -> str:
        """The field of Values that it sets."""
        return self.name.removeprefix(PREFIX).replace("-", "_")

    @property
    def default(self) -> object:
        """The value where it is not there; None where the node decides, or nothing does."""
        return getattr(Values(), self.field)


def read_labels(labels: Mapping[str, str], cpus: int | None = None) -> Labels:
    """Everything that these labels say, with all mistakes in the order of the table.

    `cpus` is the number of CPUs that the container asks for, to which bounds are held; None where it is not known.
    """
    values: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    for name in [name for name in NAMES if name in labels]:
        label, text = ROWS[name], labels[name]
        read = _BOUNDS[name](cpus) if name in _BOUNDS else label.read
        found = read(text)
        if isinstance(found, Flaw):
            # Of the union's classes, which all are its: asking each of them takes a microsecond.
            mistakes.append(mistake(name, text, cast(AnyFlaw, found)))
        else:
            values[label.field] = found
    return Labels(Values(**values), tuple(mistakes))


def mistake(label: str, text: str, flaw: AnyFlaw) -> Mistake:
    """The mistake that this text of a label is, with as much of both as is kept."""
    return Mistake(kept(label, _LABEL_LENGTH), kept(text), flaw)


def unheeded(labels: Mapping[str, str], policy: PolicyName) -> tuple[Mistake, ...]:
    """The labels of the sidecar's prefix that mean nothing here: unknown ones, and those that the policy ignores."""
    found = []
    for name in sorted(labels):
        if name.startswith(PREFIX) and name not in ROWS:
            found.append(mistake(name, labels[name], UnknownLabel()))
        elif name in ROWS and ROWS[name].heeded is Heeded.DYNAMIC and policy is not PolicyName.DYNAMIC:
            found.append(mistake(name, labels[name], NoEffect(policy.value)))
    return tuple(found)


def _count(value: object) -> int | Literal["limit"] | CountOrTrue:
    word = str(value).strip()
    if word.lower() in ("", "false", "no", "off", "0"):
        return 0
    if word.lower() in ("true", "yes", "on"):
        return FROM_LIMIT
    number = _CPUS(word)
    if isinstance(number, Whole):
        return CountOrTrue(is_fraction=re.fullmatch(r"\d+\.\d+", word[:GIVEN_LENGTH]) is not None)
    return number


def _options(value: object) -> tuple[str, ...] | AllOf | Clashes:
    wanted = _PLACEMENT(value)
    if isinstance(wanted, AllOf):
        return wanted
    pairs = clashes(wanted)
    return Clashes(pairs) if pairs else wanted


def _device(value: object) -> str | Flaw:
    return str(value).strip()[:_DEVICE_LENGTH]


def is_directory_name(text: str) -> bool:
    """Whether this can be the name of a directory below `by-name`: one that leads nowhere else."""
    return not isinstance(plain_name(text), Flaw)


def _is_managed(value: object) -> bool | OneOf:
    return value == "on" if value in ("off", "on") else OneOf(("off",))


def _signal(value: object) -> str | SignalName:
    name = str(value).strip().upper().removeprefix("SIG")
    return name if name in SIGNALS else SignalName()


def _floor(cpus: int | None) -> Reader[int, UpToCount]:
    def read(value: object) -> int | UpToCount:
        number = whole(1, cpus or MAX_CPUS)(value)
        return UpToCount(cpus) if isinstance(number, Whole) else number

    return read


def _ceiling(cpus: int | None) -> Reader[int, FromCount]:
    def read(value: object) -> int | FromCount:
        number = whole(cpus or 1, MAX_CPUS)(value)
        return FromCount(cpus) if isinstance(number, Whole) else number

    return read


_BOUNDS: Final = {"cpuset.min": _floor, "cpuset.max": _ceiling}

SIZED: Final = frozenset(_BOUNDS)
"""Labels whose bounds are the count of `cpuset.exclusive`, so that they are read once more when that is known."""

LABELS: Final = (
    Label("cpuset.exclusive", _count),
    Label("cpuset.options", _options, key="options"),
    Label("cpuset.numa", choice(NumaRule, NUMA_WORDS), key="numa"),
    Label("cpuset.near", _device, on_mistake=OnMistake.WARN),
    Label("cpuset.mems", choice(MemsRule)),
    Label("cpuset.on-shortage", choice(Shortage), key="shortage"),
    Label("cpuset.quota", choice(QuotaRule)),
    Label("cpuset.projection", plain_name, Heeded.ALWAYS, OnMistake.WARN),
    Label("cpuset.manage", _is_managed, Heeded.ALWAYS, OnMistake.WARN),
    Label("cpuset.min", _floor(None), Heeded.DYNAMIC),
    Label("cpuset.max", _ceiling(None), Heeded.DYNAMIC),
    Label("cpuset.scale", choice(Scale), Heeded.DYNAMIC),
    Label("cpuset.weight", whole(1, MAX_WEIGHT), Heeded.DYNAMIC),
    Label("cpuset.grace", duration(0, MAX_GRACE), Heeded.DYNAMIC, key="grace"),
    Label("cpuset.signal", _signal, Heeded.DYNAMIC),
    Label("cpuset.move", truth, Heeded.DYNAMIC),
)
"""Every label there is, in the order of the reference."""

NAMES: Final = tuple(label.name for label in LABELS)
ROWS: Final[Mapping[str, Label]] = {label.name: label for label in LABELS}
