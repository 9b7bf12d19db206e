"""Why a grant changed, as a value: Cause, with the facts of each kind. The sentences are made elsewhere."""

from __future__ import annotations

import enum

import msgspec

from state.cpuset import CPUSet
from state.refusal import Said


class Resized(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """A `resize` ordered this number of CPUs; `size` is what it comes to in whole cores, 0 if that is the same."""

    cpus: int
    size: int = 0


class Used(msgspec.Struct, frozen=True, tag=True):
    """It used this much of the CPUs that it had (`use` in CPUs, by tenths)."""

    use: float
    of: int


class Surplus(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True):
    """`count` CPUs above the floor of the container of this name went elsewhere. `kept` is what it keeps if that is
    more than its floor: the CPUs on the cores of its original set; else 0.
    """

    name: str
    count: int
    floor: int
    kept: int = 0


class TakenOver(Surplus, frozen=True, kw_only=True, tag=True):
    """They were granted to a container that `arrived`."""

    arrived: str


class SharedAnew(Surplus, frozen=True, kw_only=True, tag=True):
    """They are shared out again, since `others` containers arrived, or may have more CPUs if `is_growth`; `names` are
    the first few of those containers.
    """

    names: tuple[str, ...]
    others: int
    is_growth: bool = False


class Supplied(Surplus, frozen=True, kw_only=True, tag=True):
    """The containers of these names, the first of `others`, lacked CPUs of their least size."""

    names: tuple[str, ...]
    others: int


class FewerToShare(Surplus, frozen=True, kw_only=True, tag=True):
    """The machine or a setting leaves fewer CPUs to share out."""


class Gone(msgspec.Struct, frozen=True, tag=True):
    """These CPUs of it went offline or became reserved: of an earlier version, which did not tell them apart."""

    cpus: CPUSet


class WentOffline(msgspec.Struct, frozen=True, tag=True):
    """These CPUs of it went offline."""

    cpus: CPUSet


class BecameReserved(msgspec.Struct, frozen=True, tag=True):
    """These CPUs of it became reserved: by a setting, or in place of others that went offline."""

    cpus: CPUSet


class ByItsRules(msgspec.Struct, frozen=True, tag=True):
    """It lies on whole cores and NUMA nodes again as its rules require."""


class Completed(msgspec.Struct, frozen=True, tag=True):
    """It held fewer CPUs than this number, which it has at least."""

    cpus: int


class NumberOnly(msgspec.Struct, frozen=True, tag=True):
    """The policy grants it the number of CPUs that it asks for, and it held more."""

    cpus: int


class CeilingSank(msgspec.Struct, frozen=True, tag=True):
    """Its ceiling is this number of CPUs now: a rule or an option of the configuration changed, or what tenants may."""

    ceiling: int


class WantsFewer(msgspec.Struct, frozen=True, tag=True):
    """It wants no more than this number of CPUs now, whatever others do: a rule changed what decides its size."""

    cpus: int


class Pinned(msgspec.Struct, frozen=True, tag=True):
    """A container that is pinned by hand keeps these CPUs, of it or of another one that moved: it is pinned to them, or
    runs there although it is pinned elsewhere.
    """

    cpus: CPUSet


class Spare(msgspec.Struct, frozen=True, tag=True):
    """`count` CPUs were spare, and the container may have up to its ceiling."""

    count: int
    ceiling: int


class Level(enum.StrEnum):
    """A level of the machine at which CPUs can lie together."""

    NODE = "node"
    CACHE = "cache"
    CORE = "core"


class Together(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It was moved onto fewer groups of a level: `now` instead of `before`."""

    level: Level
    now: int
    before: int


class ForOthers(msgspec.Struct, frozen=True, tag=True):
    """It was moved to improve the placement of others."""


Cause = (
    Said
    | Resized
    | Used
    | TakenOver
    | SharedAnew
    | Supplied
    | FewerToShare
    | Gone
    | WentOffline
    | BecameReserved
    | ByItsRules
    | Completed
    | NumberOnly
    | CeilingSank
    | WantsFewer
    | Pinned
    | Spare
    | Together
    | ForOthers
)
"""Why a grant changed."""
