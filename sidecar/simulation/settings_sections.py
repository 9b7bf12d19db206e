"""The settings of a scenario: those at its beginning, and those that a reload brings. All mistakes have their lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from sidecar.config.config import Config, configured
from sidecar.config.keys import KEYS
from sidecar.config.misfits import misfits
from sidecar.config.rule_sections import SECTION, read_rules
from sidecar.config.running_settings import RESTART_KEYS
from sidecar.config.tenant_section import TENANTS, doubled, flattened
from sidecar.contradictions import Contradiction
from sidecar.decide.settings import Rule
from sidecar.misreadings import Misreading, Missing, NoTable, TypedFlaw
from sidecar.readers import Given, shown
from sidecar.scenario_flaws import MeansNothing, OnlyAtStart
from sidecar.simulation.scenario import Do, Event
from sidecar.simulation.toml_sections import Section
from state.topology import Topology

OTHER_KEYS: Final = (
    *(
        "engine",
        "engines",
        "state_dir",
        "projections",
        "cgroup",
        "hand",
        "host_units",
        "host_groups",
        "leave",
        "shared_slice",
        "listen",
        "api_group",
    ),
    *("log_level", "log_format"),
)
"""Keys of the configuration that mean nothing in a simulation."""

AT_START: Final = tuple(
    key for key, row in KEYS.items() if key not in OTHER_KEYS and any(field in RESTART_KEYS for field in row.fields)
)
"""Keys that a reload does not change."""

_SETTINGS: Final = "settings"


def config_in(section: Section, machine: Topology | None) -> Config | None:
    """Return the configuration; None if it is wrong, also for the machine if that is known."""
    given, rules = _taken(section, {key: MeansNothing() for key in OTHER_KEYS})
    read = configured(given, lambda: machine)
    if isinstance(read, Config):
        return msgspec.structs.replace(read, rules=rules or ())
    section.mistakes += read
    return None


class _Reload(NamedTuple):
    """What one reload changes. `rules` is None if it leaves them as they are."""

    at: float
    section: Section
    given: list[Given]
    rules: tuple[Rule, ...] | None


class Reloads:
    """The reloads of a scenario: each is read where it stands, and changes what is in force at its time."""

    def __init__(self, machine: Topology | None, config: Config | None) -> None:
        self._machine = machine
        self._config = config
        self._read: dict[str, _Reload] = {}

    def read(self, event: Section, at: float) -> None:
        """Read the settings of a reload."""
        if not event.has(_SETTINGS):
            event.fail(Missing('{ reserved = "0-1" }'), name=_SETTINGS)
        section = event.one_of(_SETTINGS)
        given, rules = _taken(section, _FORBIDDEN)
        self._read[event.place()] = _Reload(at, section, given, rules)
        if self._config is None:
            # What it contradicts is not known.
            mistakes = configured(given)
            wrong = () if isinstance(mistakes, Config) else mistakes
            section.mistakes += [each for each in wrong if not isinstance(each.flaw, Contradiction)]

    def added(self, events: Sequence[Event | None]) -> list[Event | None]:
        """Return the events, each reload with its configuration: in the order of time, each one upon the last. The
        mistakes of a reload are recorded, those of its beginning not again.
        """
        if self._config is None:
            return list(events)
        made: dict[str, Event] = {}
        config, told = self._config, list(self._misfits(self._config))
        for where, reload in sorted(self._read.items(), key=lambda each: each[1].at):
            read = configured(reload.given, lambda: self._machine, config)
            if isinstance(read, Config):
                config = read if reload.rules is None else msgspec.structs.replace(read, rules=reload.rules)
            found = self._misfits(config) if isinstance(read, Config) else read
            # What an earlier one brought is told already, at the same line.
            news = [each for each in found if each not in told]
            told += news
            reload.section.mistakes += news
            changes = tuple((each.name, shown(each.value)) for each in reload.given)
            changes += ((SECTION, str(len(reload.rules))),) if reload.rules is not None else ()
            if not found:
                made[where] = Event(at=reload.at, do=Do.RELOAD, where=where, config=config, changes=changes)
        return [made.get(each.where) if each and each.do is Do.RELOAD else each for each in events]

    def _misfits(self, config: Config) -> tuple[Misreading, ...]:
        """Return the values that the machine cannot have; none where the machine is not known."""
        return tuple(misfits(config, self._machine)) if self._machine else ()


_FORBIDDEN: Final[dict[str, TypedFlaw]] = {
    **{key: MeansNothing() for key in OTHER_KEYS},
    **{key: OnlyAtStart() for key in AT_START},
}


def _taken(section: Section, forbidden: dict[str, TypedFlaw]) -> tuple[list[Given], tuple[Rule, ...] | None]:
    """Return the keys of a section, and its rules, None if it has none. What is forbidden is a mistake."""
    given = list(flattened(section.given(), lambda key: section.place_of(TENANTS, 0, key)))
    section.mistakes += doubled(given)
    for each in given:
        if each.name in forbidden:
            section.fail(forbidden[each.name], each.name)
    rules: tuple[Rule, ...] | None = None
    if section.has(SECTION):
        value = section.raw(SECTION, [])
        if isinstance(value, list):
            rules, mistakes = read_rules(value, _places(section))
            section.mistakes += mistakes
        else:
            section.fail(NoTable(is_list=True), SECTION, name=section.path_of(SECTION))
    return [each for each in given if each.name not in forbidden and each.name != SECTION], rules


def _places(section: Section) -> Callable[[int, str], str]:
    return lambda number, key: section.place_of(SECTION, number, key)
