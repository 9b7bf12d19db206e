"""Why a grant changed, as a value: Cause, by the facts of each kind. No sentences: they are made of it elsewhere."""

from __future__ import annotations

import enum

import msgspec

from state.refusal import Said


class Resized(msgspec.Struct, frozen=True, tag=True):
    """Somebody ordered so many CPUs."""

    cpus: int


class Used(msgspec.Struct, frozen=True, tag=True):
    """It used so much of the CPUs that it had (`use` in CPUs, by tenths)."""

    use: float
    of: int


class Surplus(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """So many CPUs (`count`) that the container of this name had above its floor went elsewhere."""

    name: str
    count: int
    floor: int


class TakenOver(Surplus, frozen=True, kw_only=True, tag=True):
    """They are what a container that `arrived` was granted."""

    arrived: str


class SharedAnew(Surplus, frozen=True, kw_only=True, tag=True):
    """They are shared out anew, since so many (`others`) arrived, or may have more where `is_growth`; of their names
    the first few.
    """

    names: tuple[str, ...]
    others: int
    is_growth: bool = False


class FewerToShare(Surplus, frozen=True, kw_only=True, tag=True):
    """The machine or a setting leaves fewer CPUs to share out."""


class Spare(msgspec.Struct, frozen=True, tag=True):
    """So many CPUs were spare, and it may have as many as its ceiling."""

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


Cause = Said | Resized | Used | TakenOver | SharedAnew | FewerToShare | Spare | Together | ForOthers
"""Why a grant changed."""
