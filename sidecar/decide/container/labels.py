"""The labels of a container: one table of their names, readers and defaults, and the reading of a container's labels.

A value that cannot be read is a mistake, listed next to the values; all mistakes are found. The label's row determines
the consequence: a refusal of exclusive CPUs, or a warning. Under the strict start each is a refusal (`wish`).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from functools import cached_property
from keyword import iskeyword
from typing import Any, Final, Literal, cast

import msgspec

from sidecar.decide.placement.options import CONTAINER_OPTIONS, clashes
from sidecar.decide.settings import PolicyName
from sidecar.readers import (
    NUMA_WORDS,
    Reader,
    choice,
    closest,
    duration,
    exec_rule,
    kept,
    plain_name,
    truth,
    whole,
    words,
)
from state.demand import MemsRule, NumaRule, QuotaRule, Scale, Shortage
from state.exec_rule import ExecRule
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

PREFIX: Final = "cpuset."

FROM_LIMIT: Final = "limit"
"""The value of `cpuset.exclusive` that uses the CPU limit as the number."""

EXEC: Final = "cpuset.exec"

MAX_CPUS: Final = 9999
MAX_WEIGHT: Final = 100
MAX_PRIORITY: Final = 9
MAX_GRACE: Final = 60.0
"""Seconds. A longer grace would delay another container's floor."""

SIGNALS: Final = (
    *("HUP", "INT", "QUIT", "USR1", "USR2", "PIPE", "ALRM", "TERM", "CONT", "TSTP", "TTIN", "TTOU"),
    *("URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR"),
    *(f"RTMIN+{number}" for number in range(1, 16)),
    *(f"RTMAX-{number}" for number in range(15)),
)
"""Signals of signal(7) that a program can catch and that do not indicate a crash, as engines spell them."""

_DEVICE_LENGTH: Final = 64
"""Characters of a device's name: a network interface has at most 15, a PCI address 12 or a few more."""

_LABEL_LENGTH: Final = 60
"""Characters kept of an unknown label's name."""

_LIKE_OURS: Final = re.compile(r"[cC].?[pPsS]")
"""How every name begins that can be like our prefix: a quick test of labels that mean something else."""

_PREFIX_LIKENESS: Final = 0.8
_REST_LIKENESS: Final = 0.75
"""From which likeness a part of a name counts as a slip in ours: `cpu-set.exclusiv`, and neither `cpu.numa` nor
`cpuset.team`.
"""

_CPUS: Final = whole(1, MAX_CPUS)
_PLACEMENT: Final = words(CONTAINER_OPTIONS)


class Values(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the labels, by their names without the prefix: None if a label is absent and the node decides.

    `exclusive` is a count, 0 for "none, regardless of the limits", or FROM_LIMIT.
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
    for_: str = ""
    min: int | None = None
    max: int | None = None
    scale: Scale = Scale.FILL
    weight: int = 10
    grace: float | None = None
    signal: str = ""
    move: bool = False
    priority: int = 5
    exec: ExecRule | None = None


class Labels(msgspec.Struct, frozen=True):
    """The values, with the default for each label that is absent or invalid, and all mistakes."""

    values: Values
    mistakes: tuple[Mistake, ...] = ()

    @property
    def refusing(self) -> tuple[Mistake, ...]:
        """The mistakes that prevent a grant of exclusive CPUs."""
        return tuple(each for each in self.mistakes if ROWS[each.label].on_mistake is OnMistake.REFUSE)

    @property
    def harmless(self) -> tuple[Mistake, ...]:
        """The mistakes that only cause a warning."""
        return tuple(each for each in self.mistakes if ROWS[each.label].on_mistake is OnMistake.WARN)


class OnMistake(enum.Enum):
    """The consequence of a value that cannot be read."""

    REFUSE = "refuse"
    WARN = "warn"


class Heeded(enum.Enum):
    """Under which policies a label has an effect."""

    ALWAYS = "always"
    GRANTING = "granting"
    """Under every policy that grants CPUs."""
    DYNAMIC = "dynamic"
    """Under other policies it is read, to find mistakes, but has no effect."""


class Label(msgspec.Struct, frozen=True, dict=True):
    """One label. `key` is the key of the configuration that applies if the label is absent, "" if there is none."""

    name: str
    read: Reader[Any, AnyFlaw]
    heeded: Heeded = Heeded.GRANTING
    on_mistake: OnMistake = OnMistake.REFUSE
    key: str = ""

    @cached_property
    def field(self) -> str:
        """The field of Values for this label."""
        name = self.name.removeprefix(PREFIX).replace("-", "_")
        return f"{name}_" if iskeyword(name) else name

    @property
    def default(self) -> object:
        """The value if the label is absent; None if the node decides, or if there is no default."""
        return getattr(Values(), self.field)


def read_labels(labels: Mapping[str, str], cpus: int | None = None) -> Labels:
    """Return the values of these labels, and all mistakes in the order of the table.

    `cpus` is the number of CPUs that the container asks for, against which bounds are checked; None if not known.
    """
    values: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    for name in [name for name in NAMES if name in labels]:
        label, text = ROWS[name], labels[name]
        read = _BOUNDS[name](cpus) if name in _BOUNDS else label.read
        found = read(text)
        if isinstance(found, Flaw):
            # All flaws are members of the union AnyFlaw; checking against each class would take a microsecond.
            mistakes.append(mistake(name, text, cast(AnyFlaw, found)))
        else:
            values[label.field] = found
    return Labels(Values(**values), tuple(mistakes))


def mistake(label: str, text: str, flaw: AnyFlaw) -> Mistake:
    """Return the mistake of a label with this text; both strings are cut to the lengths that are kept."""
    return Mistake(kept(label, _LABEL_LENGTH), kept(text), flaw)


def meant(name: str) -> str:
    """Return the label that a foreign name probably stands for, like `cpusets.exclusive`; "" if it stands for none.

    A name is split at each sign in turn: its first part must be like our prefix, and the rest like one of our labels.
    The prefix alone stands for the label that asks for CPUs.
    """
    if name.startswith(PREFIX) or len(name) > _LABEL_LENGTH or not _LIKE_OURS.match(name):
        return ""
    if together := _LETTERS.get(_letters(name)):
        return together
    if _letters(name) == _letters(PREFIX):
        return PREFIX + "exclusive"
    for sign in re.finditer(r"[._:/-]", name):
        head, rest = _letters(name[: sign.start()]), name[sign.end() :]
        if closest(head, (_letters(PREFIX),), _PREFIX_LIKENESS) and (found := closest(rest, _RESTS, _REST_LIKENESS)):
            return PREFIX + found
    return ""


def split(name: str) -> tuple[str, tuple[str, ...]]:
    """Return a label and the names of the container that it is for, as in `cpuset.exclusive/voice`; none without one,
    if it is none of ours, or if one of them is empty.
    """
    label, *names = name.split("/")
    return (label, tuple(names)) if label in ROWS and all(names) else (name, ())


def unheeded(labels: Mapping[str, str], policy: PolicyName) -> tuple[Mistake, ...]:
    """Return a mistake for each label that is unknown, or ignored by the policy: one with the sidecar's prefix, or one
    that was probably meant to have it.
    """
    found = []
    for name in sorted(labels):
        if (name.startswith(PREFIX) and name not in ROWS) or meant(name):
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
    """Return whether this can be the name of a directory below `by-name`, and leads nowhere else."""
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
"""Labels whose bounds depend on the count of `cpuset.exclusive`: they are read again when the count is known."""

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
    Label("cpuset.for", plain_name, Heeded.ALWAYS, OnMistake.WARN),
    Label("cpuset.min", _floor(None), Heeded.DYNAMIC),
    Label("cpuset.max", _ceiling(None), Heeded.DYNAMIC),
    Label("cpuset.scale", choice(Scale), Heeded.DYNAMIC),
    Label("cpuset.weight", whole(1, MAX_WEIGHT), Heeded.DYNAMIC),
    Label("cpuset.grace", duration(0, MAX_GRACE), Heeded.DYNAMIC, key="grace"),
    Label("cpuset.signal", _signal, Heeded.DYNAMIC),
    Label("cpuset.move", truth, Heeded.DYNAMIC),
    Label("cpuset.priority", whole(0, MAX_PRIORITY)),
    Label(EXEC, exec_rule, key="exec"),
)
"""All labels, in the order of the reference."""

NAMES: Final = tuple(label.name for label in LABELS)
ROWS: Final[Mapping[str, Label]] = {label.name: label for label in LABELS}

_RESTS: Final = tuple(name.removeprefix(PREFIX) for name in NAMES)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


_LETTERS: Final[Mapping[str, str]] = {_letters(name): name for name in NAMES}
"""Each label by its letters alone, as in `CPUSET_EXCLUSIVE`."""
