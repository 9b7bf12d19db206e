"""The table of engines: what is known of each, from which version on. How an engine behaves is asked of its traits. Its
name decides only what has a name: parents by default, files, and pages for people.

The contract suite (`tests/contract`) runs against each engine that is at hand, and goes by this table. Some traits are
there for that suite alone: they are what a caller of the engine's API meets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from sidecar.decide.engine_traits import EngineTraits

DOCKER: Final = "docker"
PODMAN: Final = "podman"

_PODMAN: Final = EngineTraits(
    needs_service=False,
    keeps_updates=False,
    resets_unnamed_limits=True,
    tells_updates=False,
    tells_late=0.25,
    has_default_parent=False,
    confines_builds=False,
    limits_one_way=True,
    only_delivers=True,
    tells_intentions=True,
    glances_from_memory=True,
)
_PODMAN_4_4: Final = msgspec.structs.replace(_PODMAN, signal_forgets_policy=True)
_PODMAN_5_1: Final = msgspec.structs.replace(_PODMAN_4_4, keeps_updates=True, tells_updates=True)
_PODMAN_5_4: Final = msgspec.structs.replace(_PODMAN_5_1, resets_unnamed_limits=False)

TABLE: Final[Mapping[str, Sequence[tuple[tuple[int, int], EngineTraits]]]] = {
    DOCKER: (((0, 0), EngineTraits()),),
    PODMAN: (((0, 0), _PODMAN), ((4, 4), _PODMAN_4_4), ((5, 1), _PODMAN_5_1), ((5, 4), _PODMAN_5_4)),
}
"""By engine, the first version that behaves so. On Podman 4.3 a signal was seen to leave a restart policy in force, on
5.4 not: every version between is believed to be as 5.4.
"""


def traits_of(engine: str, version: str) -> EngineTraits:
    """Return the traits of an engine; of one that is not in the table, Docker's."""
    number = number_of(version)
    rows = TABLE.get(engine, TABLE[DOCKER])
    return [traits for since, traits in rows if since <= number][-1]


def number_of(version: str) -> tuple[int, int]:
    """Return `4.3.1` as (4, 3); (0, 0) if it is no version."""
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)
