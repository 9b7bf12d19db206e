"""Misreading: a mistake in a file, a variable or a flag that a user wrote, as facts. The sentences are in `words`.

A label has its own mistake (`state.mistakes.Mistake`), since that is recorded with the refusal of a container. Both
have a `Flaw`: what would be right in place of a value, or what the value contradicts.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

import msgspec

from sidecar.contradictions import Contradiction
from sidecar.scenario_flaws import ScenarioFlaw
from state.mistakes import AnyFlaw, Flaw


class Form(enum.StrEnum):
    """What a value must look like, unless a list, bounds or words define it."""

    TEXT = "text"
    CPU_LIST = "cpu-list"
    RESERVED = "reserved"
    """A CPU list, or a count of CPUs."""
    RESERVED_COUNT = "reserved-count"
    AMOUNT = "amount"
    """A number of CPUs, possibly a fraction."""
    PATTERNS = "patterns"
    DIRECTORY = "directory"
    ENGINE = "engine"
    ENGINES = "engines"
    HAND = "hand"
    """`auto`, `off`, or a cgroup parent."""
    LISTEN = "listen"
    CGROUP_PARENT = "cgroup-parent"
    DELAY = "delay"
    """A duration, or `never`."""
    STEPS = "steps"
    """A number of CPUs, or a list of times with one each."""
    STEPS_IN_ORDER = "steps-in-order"
    LABELS = "labels"
    LABEL = "label"
    """One label with its value, in a flag."""
    GROUP = "group"
    MATCH = "match"
    """The patterns of a rule."""
    TEMPLATE = "template"
    """A line with fields of a container."""
    HOOK = "hook"
    """A hook has a command or a webhook."""
    HOOKS = "hooks"
    """There are not too many."""
    HOOK_NAME = "hook-name"
    HOOK_NAME_TWICE = "hook-name-twice"
    """Each hook has a name of its own."""
    COMMAND = "command"
    WEBHOOK = "webhook"


class NotOfForm(Flaw, frozen=True):
    """It does not have this form; `detail` is the parser's message, "" for none."""

    form: Form
    detail: str = ""


class AboveZero(Flaw, frozen=True):
    """A number above 0, and at most `most`; `like` is an example."""

    most: float
    like: str


class Switched(Flaw, frozen=True):
    """A placement option is switched by a word that is neither true nor false."""

    option: str
    given: str


class BareCount(Flaw, frozen=True):
    """A bare number where CPUs are listed: it may be meant as a count, or as the number of a CPU."""

    number: int


class MisreadSlice(Flaw, frozen=True):
    """A slice that OCI runtimes do not look for where systemd puts it, which is `path`."""

    path: str


class ListKind(enum.StrEnum):
    """The kind of list in which a name is unknown."""

    KEY = "key"
    SECTION = "section"
    CONTAINER = "container"
    FLAG = "flag"
    COMMAND = "command"
    LABEL = "label"
    FIELD = "field"


class Unknown(Flaw, frozen=True):
    """There is nothing of this name; `known` are the existing names."""

    kind: ListKind
    known: tuple[str, ...]


class Superfluous(Flaw, frozen=True):
    """A word on the command line that no argument takes."""


class Absent(Flaw, frozen=True):
    """One of these arguments must be given."""

    names: tuple[str, ...]


class NoValue(Flaw, frozen=True):
    """A flag stands without its value, which is `like` this."""

    like: str


class NeedlessValue(Flaw, frozen=True):
    """A flag that takes no value has one."""


class Misplaced(Flaw, frozen=True):
    """A flag of this command that stands before it."""

    command: str


class GivenTwice(Flaw, frozen=True):
    """A key or a flag that takes one value has several; `first` is the place of the first one, "" if none is known."""

    first: str = ""


class UsedTogether(Flaw, frozen=True):
    """The flag excludes the `other` one."""

    other: str


class SameFile(Flaw, frozen=True):
    """The file is that of the `other` argument as well, and would be replaced."""

    other: str


class Missing(Flaw, frozen=True):
    """The key is required; `like` is an example of its value."""

    like: str


class NoTable(Flaw, frozen=True):
    """It must be a table; a list of tables if `is_list`."""

    is_list: bool = False


class NoFile(Flaw, frozen=True):
    """The file cannot be read: the reason, in words."""

    reason: str


class Slip(enum.StrEnum):
    """Why a file is not TOML."""

    TWICE = "twice"
    CLOSED = "closed"
    """Something is added to what was written whole."""
    VALUE = "value"
    DATE = "date"
    KEY = "key"
    REST = "rest"
    """Something follows a value."""
    UNCLOSED = "unclosed"
    UNCLOSED_HEADER = "unclosed-header"
    UNCLOSED_TEXT = "unclosed-text"
    ESCAPE = "escape"
    CHARACTER = "character"
    DEEP = "deep"
    DIGITS = "digits"
    MARK = "mark"
    """A byte order mark."""
    ENCODING = "encoding"
    OTHER = "other"


class NoTOML(Flaw, frozen=True):
    """The file is not TOML, for this reason. `column` is the place in the line; 0 if it is not known."""

    slip: Slip
    column: int = 0


TypedFlaw: TypeAlias = (
    AnyFlaw
    | NotOfForm
    | AboveZero
    | Switched
    | BareCount
    | MisreadSlice
    | Unknown
    | Superfluous
    | Absent
    | NoValue
    | NeedlessValue
    | Misplaced
    | GivenTwice
    | UsedTogether
    | SameFile
    | Missing
    | NoTable
    | NoFile
    | NoTOML
    | Contradiction
    | ScenarioFlaw
)
"""Every flaw in what users write, labels included."""


class Misreading(msgspec.Struct, frozen=True, kw_only=True):
    """A value that a user wrote and that cannot be used as it stands.

    `where` is its place: `FILE, line N`, `the variable X`, `the flag --x`; "" if `name` suffices. `name` is that of the
    key or flag, `given` the kept part of the value, and `is_text` whether the value is text and not another TOML type.
    """

    flaw: TypedFlaw
    where: str = ""
    name: str = ""
    given: str = ""
    is_text: bool = True
