"""Mistakes beyond a single key: values that contradict each other or the machine, and doubtful ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sidecar.config.serving import group_of, socket_in
from sidecar.contradictions import (
    AllReserved,
    BandUpsideDown,
    BareNumber,
    Contradiction,
    IsolatedReserved,
    IsolatedShared,
    LackingThreads,
    NeedsReserved,
    NoneToGive,
    NoSuchGroup,
    NothingIsolated,
    NoticeCut,
    NotOnMachine,
    NoUnitAsks,
    NoUnitConfined,
    OneEngineOnly,
    PoolTooLarge,
    ReservedOffline,
    SocketPathTooLong,
    SplitCores,
    StateInProjections,
    Unfit,
)
from sidecar.decide.container.labels import read_labels
from sidecar.decide.placement.options import FULL_PCPUS_ONLY, misfit
from sidecar.decide.settings import IsolatedRule, PolicyName
from sidecar.misreadings import Misreading
from sidecar.systemd_names import names_what_may_ask
from state.cpuset import EMPTY, union
from state.topology import Topology

if TYPE_CHECKING:
    from sidecar.config.config import Config


class _Found(NamedTuple):
    """A contradiction between these keys. It is reported at the first of them that was given."""

    flaw: Contradiction
    keys: tuple[str, ...]


def contradictions(config: Config, unread: Collection[str] = ()) -> Iterator[Misreading]:
    """Yield values that contradict each other, except those of the keys `unread`, whose values are not known."""
    yield from _told(config, _contradictions(config), unread)


def misfits(config: Config, topology: Topology, unread: Collection[str] = ()) -> Iterator[Misreading]:
    """Yield values that this machine cannot have, except those of the keys `unread`."""
    yield from _told(config, _misfits(config, topology), unread)


def unservable(config: Config, unread: Collection[str] = ()) -> Iterator[Misreading]:
    """Yield values with which no daemon here could serve its socket, except those of the keys `unread`."""
    yield from _told(config, _unservable(config), unread)


def _unservable(config: Config) -> Iterator[_Found]:
    if isinstance(group := group_of(config.api_group), NoSuchGroup):
        yield _Found(group, ("api_group",))
    if isinstance(path := socket_in(config.state_dir), SocketPathTooLong):
        yield _Found(path, ("state_dir",))


def _contradictions(config: Config) -> Iterator[_Found]:
    if config.policy is not PolicyName.NONE and not config.reserved and not config.reserved_count:
        yield _Found(NeedsReserved(config.policy.value), ("policy", "reserved"))
    if config.load_low >= config.load_high:
        yield _Found(BandUpsideDown(config.load_low, config.load_high), ("load_low", "load_high"))
    for key in ("engine", "hand", "shared_slice"):
        if config.engines and getattr(config, key) not in ("auto", "off", ""):
            yield _Found(OneEngineOnly(key), (key, "engines"))
    state, projections = Path(config.state_dir), Path(config.projections)
    if state == projections or projections in state.parents:
        yield _Found(StateInProjections(str(state), str(projections)), ("state_dir", "projections"))


def _misfits(config: Config, topology: Topology) -> Iterator[_Found]:
    # Offline is not never: those that are offline are the machine's.
    cpus = topology.online | topology.offline
    size = len(cpus)
    if config.reserved and (missing := config.reserved - cpus):
        yield _Found(NotOnMachine(config.reserved, missing, cpus), ("reserved",))
    count = len(config.reserved & cpus) if config.reserved else config.reserved_count
    if config.policy is not PolicyName.NONE and count >= size:
        yield _Found(AllReserved(count, size), ("reserved", "policy"))
    if config.shared_min >= size:
        yield _Found(PoolTooLarge(config.shared_min, size), ("shared_min",))
    if unfit := misfit(config.options, config.numa, topology):
        yield _Found(Unfit(unfit), ("options", "numa"))


def doubts(config: Config, topology: Topology) -> Iterator[Misreading]:
    """Yield values that this machine can have, but that are perhaps not meant."""
    reserved, isolated = config.reserved or EMPTY, topology.isolated
    if config.reserved_bare is not None:
        yield _at(config, BareNumber(config.reserved_bare), "reserved")
    if offline := reserved & topology.offline:
        yield _at(config, ReservedOffline(reserved, offline), "reserved")
    kept = max(len(reserved & topology.online) or config.reserved_count, config.shared_min)
    if config.policy is not PolicyName.NONE and topology.offline and kept >= len(topology.online):
        yield Misreading(flaw=NoneToGive(topology.offline))
    if config.policy is PolicyName.DYNAMIC:
        yield from _cut_notices(config)
    yield from _units_in_vain(config)
    split = topology.whole_cores(reserved) - reserved
    if split and FULL_PCPUS_ONLY in config.options:
        yield Misreading(flaw=SplitCores(reserved, split))
    lacking = topology.online - union(core.cpus for core in topology.full_cores)
    if lacking and FULL_PCPUS_ONLY in config.options:
        yield Misreading(flaw=LackingThreads(lacking))
    if config.isolated is IsolatedRule.IGNORE:
        if isolated and config.policy is not PolicyName.NONE:
            yield Misreading(flaw=IsolatedShared(isolated))
    elif not isolated:
        yield Misreading(flaw=NothingIsolated(config.isolated.value))
    elif both := reserved & isolated:
        yield Misreading(flaw=IsolatedReserved(both))


def _cut_notices(config: Config) -> Iterator[Misreading]:
    most = config.tenants_longest_notice_seconds
    for rule in config.rules:
        asked = read_labels(rule.labels).values.grace
        if asked is not None and asked > most:
            yield Misreading(where=rule.place, name="grace", flaw=NoticeCut(asked, most))


def _units_in_vain(config: Config) -> Iterator[Misreading]:
    for rule in config.rules:
        if rule.unit and config.host_units == "off":
            yield Misreading(where=rule.place, name="match.unit", flaw=NoUnitConfined(rule.unit))
        elif rule.unit and not names_what_may_ask(rule.unit):
            yield Misreading(where=rule.place, name="match.unit", flaw=NoUnitAsks(rule.unit))


def _told(config: Config, found: Iterable[_Found], unread: Collection[str]) -> Iterator[Misreading]:
    """Yield the mistakes between keys that could be read."""
    for flaw, keys in found:
        if not set(keys) & set(unread):
            yield _at(config, flaw, *keys)


def _at(config: Config, flaw: Contradiction, *keys: str) -> Misreading:
    """Return the mistake at the first of these keys that was given."""
    given = [config.origins[key] for key in keys if key in config.origins]
    return Misreading(where=given[0] if given else "the configuration", name=keys[0], flaw=flaw)
