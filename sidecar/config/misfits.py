"""Mistakes beyond a single key: values that contradict each other or the machine, and doubtful ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar.decide.placement.options import FULL_PCPUS_ONLY, misfit
from sidecar.decide.settings import IsolatedRule, PolicyName
from sidecar.misreadings import (
    AllReserved,
    BandUpsideDown,
    BareNumber,
    Contradiction,
    IsolatedReserved,
    IsolatedShared,
    Misreading,
    NeedsReserved,
    NothingIsolated,
    NotOnMachine,
    PoolTooLarge,
    SplitCores,
    StateInProjections,
    UnevenCores,
    Unfit,
)
from state.cpuset import EMPTY
from state.topology import Topology

if TYPE_CHECKING:
    from sidecar.config.config import Config


def contradictions(config: Config) -> Iterator[Misreading]:
    """Yield values that contradict each other."""
    if config.policy is not PolicyName.NONE and not config.reserved and not config.reserved_count:
        yield _at(config, NeedsReserved(config.policy.value), "policy")
    if config.load_low >= config.load_high:
        yield _at(config, BandUpsideDown(config.load_low, config.load_high), "load_low", "load_high")
    state, projections = Path(config.state_dir), Path(config.projections)
    if state == projections or projections in state.parents:
        yield _at(config, StateInProjections(str(state), str(projections)), "state_dir", "projections")


def misfits(config: Config, topology: Topology) -> Iterator[Misreading]:
    """Yield values that this machine cannot have."""
    size = len(topology.online)
    if config.reserved and (missing := config.reserved - topology.online):
        is_offline = missing <= topology.offline
        yield _at(config, NotOnMachine(config.reserved, missing, topology.online, is_offline), "reserved")
    count = len(config.reserved & topology.online) if config.reserved else config.reserved_count
    if config.policy is not PolicyName.NONE and count >= size:
        yield _at(config, AllReserved(count, size), "reserved")
    if config.shared_min >= size:
        yield _at(config, PoolTooLarge(config.shared_min, size), "shared_min")
    if unfit := misfit(config.options, config.numa, topology):
        yield _at(config, Unfit(unfit), "options")


def doubts(config: Config, topology: Topology) -> Iterator[Misreading]:
    """Yield values that this machine can have, but that are perhaps not meant."""
    reserved, isolated = config.reserved or EMPTY, topology.isolated
    if config.reserved_bare is not None:
        yield _at(config, BareNumber(config.reserved_bare), "reserved")
    split = topology.whole_cores(reserved) - reserved
    if split and FULL_PCPUS_ONLY in config.options:
        yield Misreading(flaw=SplitCores(reserved, split))
    widths = tuple(sorted({len(core.cpus) for core in topology.cores}))
    if FULL_PCPUS_ONLY in config.options and len(widths) > 1 and not topology.kinds:
        yield Misreading(flaw=UnevenCores(widths, topology.cpus_per_core))
    if config.isolated is IsolatedRule.IGNORE:
        if isolated and config.policy is not PolicyName.NONE:
            yield Misreading(flaw=IsolatedShared(isolated))
    elif not isolated:
        yield Misreading(flaw=NothingIsolated(config.isolated.value))
    elif both := reserved & isolated:
        yield Misreading(flaw=IsolatedReserved(both))


def _at(config: Config, flaw: Contradiction, *keys: str) -> Misreading:
    """Return the mistake at the first of these keys that was given."""
    given = [config.origins[key] for key in keys if key in config.origins]
    return Misreading(where=given[0] if given else "the configuration", name=keys[0], flaw=flaw)
