"""Why a request is refused, as a value: Refusal, its RefusalCode, and the facts of each kind (Detail). No sentences.

Decisions return facts, so that they can be compared, recorded and used by programs; the sentences for people are made
elsewhere.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from state.cpuset import EMPTY, CPUSet
from state.mistakes import Mistake


class RefusalCode(enum.StrEnum):
    """Why a request was refused, as a word for programs. The `detail` of a refusal has the facts."""

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
    AWAITS_PLACE = "awaits-place"
    """It replaces a container that still holds the CPUs, and gets them when that one is gone."""
    BORN_IN_GROUP = "born-in-group"
    """It asks for exclusive CPUs, and lives in the cgroup that confines the shared pool."""
    GIVEN_UP = "given-up"
    """People released its CPUs; it asks again at its next start."""
    START_HELD = "start-held"
    """Its start is held, and asks for the CPUs that were to be released."""
    TAKEN_BY_STRANGER = "taken-by-stranger"
    """Its start is held, and a container pinned by hand is on the CPUs that were granted to it."""
    UNKNOWN_CONTAINER = "unknown-container"
    WRONG_POLICY = "wrong-policy"
    NOT_GRANTED = "not-granted"
    """It has no exclusive CPUs, and their number was to be changed."""
    NOT_ELASTIC = "not-elastic"
    """Its labels fix the number of its CPUs, or do not allow `resize`."""
    OUT_OF_RANGE = "out-of-range"


class Said(msgspec.Struct, frozen=True, tag=True):
    """A sentence from a State or a journal of an earlier format, which kept no facts."""

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
    """An option asks for CPUs of a whole socket, and the NUMA rule for CPUs of one node."""

    option: str
    numa: str


class MoreSocketsThanNodes(msgspec.Struct, frozen=True, tag=True):
    """An option needs at least as many NUMA nodes as sockets, and this machine has fewer."""

    option: str
    sockets: int
    nodes: int


class Part(msgspec.Struct, frozen=True):
    """Free CPUs that lie together; the ids of their node and last-level cache where there is more than one."""

    cpus: CPUSet
    node: int | None = None
    cache: int | None = None


NAMES: Final = 5
"""Names of neighbours that are kept; the others are counted."""


class Neighbours(msgspec.Struct, frozen=True, kw_only=True):
    """What is on the other CPUs: the reserved CPUs; how many CPUs are `held`, and by how many `holders`; and how many
    of the remaining ones are `taken` by containers pinned by hand. Of the names, the first `NAMES` of each.
    """

    reserved: CPUSet
    held: int = 0
    holders: int = 0
    holder_names: tuple[str, ...] = ()
    taken: int = 0
    stranger_names: tuple[str, ...] = ()


class PoolKeeps(msgspec.Struct, frozen=True, tag=True):
    """The shared pool keeps `count` CPUs, among them a whole core if `by_cores`."""

    count: int
    by_cores: bool = False


class OnNodes(msgspec.Struct, frozen=True, tag=True):
    """The rule `numa` allows no more NUMA nodes."""

    numa: str


class InCores(msgspec.Struct, frozen=True, tag=True):
    """Whole cores are asked for, and those that are free do not add up to more."""


Limit = PoolKeeps | OnNodes | InCores
"""Why not all free CPUs would fit."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`count` exclusive CPUs that were asked for, in place of what the container `had`; and how many `would_fit` (one
    number, or two; none if no number would). `limit` is why no more would, though more are free.

    `kinds` are the kinds of cores to which the request is limited; `is_isolated` limits it to isolated CPUs. With
    `at_floors`, free CPUs are counted as if every container were at its floor. `neighbours` are on the other CPUs; they
    do not make it another refusal. With `is_final`, the facts are those of the machine without any container: no
    container that gives up CPUs makes room for it, nor do CPUs that come online. With `offline` they are those of the
    machine, too, as long as these CPUs are offline.
    """

    count: int
    had: CPUSet = EMPTY
    would_fit: tuple[int, ...] = ()
    limit: Limit | None = None
    kinds: tuple[str, ...] = ()
    is_isolated: bool = False
    at_floors: bool = False
    is_final: bool = False
    offline: CPUSet = EMPTY
    neighbours: Neighbours | None = None

    @property
    def is_of_the_machine(self) -> bool:
        """Whether the facts are those of the machine without any container."""
        return self.is_final or bool(self.offline)


class TooFew(Asked, frozen=True, kw_only=True, tag=True):
    """Fewer are free than were asked for."""

    free: tuple[Part, ...] = ()


class NoMultiple(Asked, frozen=True, kw_only=True, tag=True):
    """Not a multiple of the `width` threads of a core."""

    width: int


class TooFewWholeCores(Asked, frozen=True, kw_only=True, tag=True):
    """Fewer are free on cores that are free as a whole."""

    free: tuple[Part, ...] = ()


class CutCore(Asked, frozen=True, kw_only=True, tag=True):
    """Whole cores of several widths do not add up to the count."""

    free: tuple[Part, ...] = ()


class Scattered(Asked, frozen=True, kw_only=True, tag=True):
    """They are free on more NUMA nodes than the rule `numa` allows. Without a rule they would come from `nodes`."""

    numa: str
    free: tuple[Part, ...] = ()
    nodes: tuple[int, ...] = ()


class PoolEmptied(Asked, frozen=True, kw_only=True, tag=True):
    """`keep` of the `shared` CPUs must stay shared, among them a whole core if `by_cores`."""

    shared: int
    keep: int
    by_cores: bool = False


class Lost(msgspec.Struct, frozen=True, tag=True):
    """`cpus` are the CPUs that it held; the machine no longer has the `wanted` number of CPUs for it."""

    cpus: CPUSet
    wanted: int


class Replaces(msgspec.Struct, frozen=True, tag=True):
    """It gets these CPUs when the container `name`, which it replaces, is gone; none if it asks again then, because
    others are pinned by hand to too many of them, or another successor is before it.
    """

    name: str
    cpus: CPUSet


class Taken(msgspec.Struct, frozen=True, tag=True):
    """CPUs that were granted to it, and that another container runs on."""

    cpus: CPUSet


class Named(msgspec.Struct, frozen=True, tag=True):
    """The name of the container in question."""

    name: str


class UnderPolicy(msgspec.Struct, frozen=True, tag=True):
    """The policy in force."""

    policy: str


class Fixed(msgspec.Struct, frozen=True, tag=True):
    """The container of this name always has this number of CPUs."""

    name: str
    cpus: int


class Scaled(msgspec.Struct, frozen=True, tag=True):
    """`cpuset.scale` decides the number of CPUs of the container of this name; `resize` does not."""

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
    | Replaces
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
        """Return whether both say the same about the container, its free CPUs and the reserved ones; which containers
        hold the others is ignored.
        """
        return self.code == other.code and _own(self.detail) == _own(other.detail)

    def after(self, earlier: Refusal) -> Refusal:
        """Return this refusal of a container that was refused before: if it had lost its CPUs, it still has."""
        if earlier.code is not RefusalCode.CPUS_LOST or not isinstance(self.detail, Asked):
            return self
        had = earlier.detail.had if isinstance(earlier.detail, Asked) else EMPTY
        had = earlier.detail.cpus if isinstance(earlier.detail, Lost) else had
        # What would fit instead is said only of the machine: it asks for what it had.
        would_fit = self.detail.would_fit if self.detail.is_of_the_machine else ()
        return Refusal(
            RefusalCode.CPUS_LOST, msgspec.structs.replace(self.detail, had=had, would_fit=would_fit, limit=None)
        )


def _own(detail: Detail | None) -> Detail | None:
    if not isinstance(detail, Asked) or detail.neighbours is None:
        return detail
    return msgspec.structs.replace(detail, neighbours=Neighbours(reserved=detail.neighbours.reserved))
