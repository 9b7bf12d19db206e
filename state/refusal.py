"""Why a wish is not served, as a value: Refusal, its RefusalCode, and the facts of each kind (Detail). No sentences.

What decisions find is said here as facts, so that it can be compared, kept in the books and told by programs; the
sentences for people are made of it elsewhere.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from state.cpuset import EMPTY, CPUSet
from state.mistakes import Mistake


class RefusalCode(enum.StrEnum):
    """Why a wish was not served, as a word for programs. The `detail` of a refusal has the facts."""

    BAD_LABEL = "bad-label"
    NOT_WHOLE = "not-whole"
    CONTRADICTION = "contradiction"
    NOT_ENOUGH = "not-enough"
    NOT_WHOLE_CORES = "not-whole-cores"
    NOT_ALIGNED = "not-aligned"
    """The CPUs are free, but not on as few NUMA nodes as asked."""
    POOL_WOULD_BE_EMPTY = "pool-would-be-empty"
    CPUS_LOST = "cpus-lost"
    """It had CPUs, and the machine lost them (hotplug, or a reservation that grew)."""
    BORN_IN_GROUP = "born-in-group"
    """It asks for CPUs of its own, and lives in the cgroup that confines the shared pool."""
    TAKEN_BY_STRANGER = "taken-by-stranger"
    """Its start is held, and a container pinned by hand is on the CPUs that were granted to it."""
    UNKNOWN_CONTAINER = "unknown-container"
    WRONG_POLICY = "wrong-policy"
    NOT_GRANTED = "not-granted"
    """It has no CPUs of its own, and their number was to be changed."""
    NOT_ELASTIC = "not-elastic"
    """Its labels leave the number of its CPUs to nobody, or not to people."""
    OUT_OF_RANGE = "out-of-range"


class Said(msgspec.Struct, frozen=True, tag=True):
    """A sentence that stands in books or a journal of an earlier format, which kept no facts."""

    text: str


class Mistakes(msgspec.Struct, frozen=True, tag=True):
    """Everything that is wrong with the labels of a container."""

    mistakes: tuple[Mistake, ...]


class Excluded(msgspec.Struct, frozen=True, tag=True):
    """Two placement options that cannot be used together."""

    one: str
    other: str


class NoOption(msgspec.Struct, frozen=True, tag=True):
    """There is no placement option of this name."""

    name: str


class NoTruth(msgspec.Struct, frozen=True, tag=True):
    """A placement option is switched by a word that is neither true nor false."""

    option: str
    given: str


class SocketOnOneNode(msgspec.Struct, frozen=True, tag=True):
    """CPUs of a whole socket are wanted by an option, and of one node by the NUMA rule."""

    option: str
    numa: str


class MoreSocketsThanNodes(msgspec.Struct, frozen=True, tag=True):
    """An option needs no fewer NUMA nodes than sockets, and this machine has fewer."""

    option: str
    sockets: int
    nodes: int


class Part(msgspec.Struct, frozen=True):
    """Free CPUs that lie together; the ids of their node and last-level cache where there is more than one."""

    cpus: CPUSet
    node: int | None = None
    cache: int | None = None


NAMES: Final = 5
"""Names of neighbours that are kept; of more, their number."""


class Neighbours(msgspec.Struct, frozen=True, kw_only=True):
    """Who has the rest: the reserved CPUs; how many are `held`, by so many `holders`; and on how many of the others
    containers that are pinned by hand are (`taken`). Of the names the first `NAMES` of each.
    """

    reserved: CPUSet
    held: int = 0
    holders: int = 0
    holder_names: tuple[str, ...] = ()
    taken: int = 0
    stranger_names: tuple[str, ...] = ()


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`count` exclusive CPUs that were asked for, in place of what it `had`, if anything; and how many `would_fit` (one
    number, or two; none where none would).

    `kinds` are the kinds of cores to which the request keeps, `is_isolated` says that it keeps to isolated CPUs. With
    `at_floors`, what is free is counted as if everybody were at its floor. `neighbours` have the rest, which does not
    make it another refusal.
    """

    count: int
    had: CPUSet = EMPTY
    would_fit: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()
    is_isolated: bool = False
    at_floors: bool = False
    neighbours: Neighbours | None = None


class TooFew(Asked, frozen=True, kw_only=True, tag=True):
    """Fewer are free than were asked for."""

    free: tuple[Part, ...] = ()


class NoMultiple(Asked, frozen=True, kw_only=True, tag=True):
    """Not a multiple of the `width` threads of a core."""

    width: int


class TooFewWholeCores(Asked, frozen=True, kw_only=True, tag=True):
    """Fewer are free on cores without a reserved CPU."""

    free: tuple[Part, ...] = ()


class CutCore(Asked, frozen=True, kw_only=True, tag=True):
    """Whole cores of several widths do not add up to it."""

    free: tuple[Part, ...] = ()


class Scattered(Asked, frozen=True, kw_only=True, tag=True):
    """They are free on more NUMA nodes than the rule `numa` allows. Without a rule they would come from `nodes`."""

    numa: str
    free: tuple[Part, ...] = ()
    nodes: tuple[int, ...] = ()


class PoolEmptied(Asked, frozen=True, kw_only=True, tag=True):
    """Of the `shared` CPUs so many must stay so (`keep`); or, where `by_cores`, a whole core."""

    shared: int
    keep: int
    by_cores: bool = False


class Lost(msgspec.Struct, frozen=True, tag=True):
    """The CPUs that it held, and how many the machine no longer has for it."""

    cpus: CPUSet
    wanted: int


class Taken(msgspec.Struct, frozen=True, tag=True):
    """CPUs that were granted to it, and that somebody else is on."""

    cpus: CPUSet


class Named(msgspec.Struct, frozen=True, tag=True):
    """The name of the container that is spoken of."""

    name: str


class UnderPolicy(msgspec.Struct, frozen=True, tag=True):
    """The policy that is in force."""

    policy: str


class Fixed(msgspec.Struct, frozen=True, tag=True):
    """The container of this name has always so many CPUs."""

    name: str
    cpus: int


class Scaled(msgspec.Struct, frozen=True, tag=True):
    """The number of CPUs of the container of this name is decided by its `cpuset.scale`, and not by people."""

    name: str
    scale: str


class Range(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The container of this name may have from `floor` to `ceiling` CPUs."""

    name: str
    floor: int
    ceiling: int
    asked: int


Detail = (
    Said
    | Mistakes
    | Excluded
    | NoOption
    | NoTruth
    | SocketOnOneNode
    | MoreSocketsThanNodes
    | TooFew
    | NoMultiple
    | TooFewWholeCores
    | CutCore
    | Scattered
    | PoolEmptied
    | Lost
    | Taken
    | Named
    | UnderPolicy
    | Fixed
    | Scaled
    | Range
)
"""The facts of a refusal."""


class Refusal(msgspec.Struct, frozen=True):
    """Why something is not done: a word for programs, and the facts."""

    code: RefusalCode
    detail: Detail | None = None

    def is_like(self, other: Refusal) -> bool:
        """Whether it says the same of the container itself and of what is free for it, whoever has the rest."""
        return self.code == other.code and _own(self.detail) == _own(other.detail)


def _own(detail: Detail | None) -> Detail | None:
    return msgspec.structs.replace(detail, neighbours=None) if isinstance(detail, Asked) else detail
