"""Faults of the reservation, each a rule that is broken in one place: the histories must catch every one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pytest

from sidecar.decide.books import refit
from sidecar.decide.placement.reserve import reserve
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.world import replace
from state.cpuset import CPUSet
from state.model import State
from state.topology import Topology
from tests.decide.lawbook import laws
from tests.decide.lawbook.faults import Fault


def keeps_what_stands_in(patch: pytest.MonkeyPatch) -> None:
    """Reserve what stands in for other CPUs for good, as if it had been chosen."""

    def kept(topology: Topology, settings: Settings, before: State, sources: Iterable[CPUSet] = ()) -> CPUSet:
        return reserve(topology, settings, replace(before, counted=before.reserved), sources)

    patch.setattr(refit, "reserve", kept)


def lets_the_lowest_stand_in(patch: pytest.MonkeyPatch) -> None:
    """Let any CPUs stand in for others, granted or not."""
    patch.setattr(refit, "_with_stand_ins", lambda world, bare: bare)


SETTINGS: Final = (
    Settings(policy=PolicyName.STATIC, reserved_count=2),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=2),
    Settings(policy=PolicyName.DYNAMIC, reserved_cpus=CPUSet.of(0)),
)

FAULTS: Final = (
    Fault(keeps_what_stands_in, laws.RESERVED, first=20),
    Fault(lets_the_lowest_stand_in, laws.STAND_INS, first=230),
)
"""With a count, or a list of one CPU."""
