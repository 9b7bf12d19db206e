"""The settings with which a daemon runs, kept beside its recorded state for the commands that answer for it.

A daemon may have been started with flags and variables that no other command has. It writes its whole configuration at
its start and after each reload. `plan` and `doctor` answer by it while the daemon runs. `release` restores by it what
the daemon changed, at its engine and in its directories, after it has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from sidecar.config.config import Config
from sidecar.config.keys import KEYS
from sidecar.decide.settings import Rule
from state import codec, files
from state.errors import StateError
from state.topology import Topology

NAME: Final = "settings.json"

_LIMIT: Final = 1024 * 1024
_MODE: Final = 0o600
"""As of the recorded state beside it."""


RESTART_KEYS: Final = (
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
    *("reconcile_seconds", "load_period_seconds", "load_half_life_seconds", "log_level", "log_format"),
    *("disturbed_period_seconds", "hooks"),
)
"""Fields of the configuration that take effect only after a restart."""


def write_settings(state_dir: str | Path, config: Config) -> None:
    """Record the configuration of the daemon of this directory, in one step and synced. Raise StateError."""
    with files.directory(state_dir) as at:
        files.replace(at, NAME, codec.encode(config) + b"\n", sync=True, mode=_MODE)


def read_settings(state_dir: str | Path) -> Config | None:
    """Return the configuration of the last daemon of this directory; None if none is recorded, or it is not readable
    here. Keys of a later version are ignored.
    """
    try:
        with files.directory(state_dir) as at:
            content = files.read_bounded(at, NAME, _LIMIT)
        return None if content is None else codec.decode(content, Config)
    except (StateError, *codec.UNREADABLE):
        return None


def changed_in_vain(config: Config, running: Config) -> tuple[str, ...]:
    """Return the fields of a configuration that was read again which differ, and take effect only after a restart."""
    return tuple(key for key in RESTART_KEYS if getattr(config, key) != getattr(running, key))


def after_reload(config: Config, running: Config) -> Config:
    """Return what is in force after a daemon with the configuration `running` has read this one."""
    return msgspec.structs.replace(config, **{key: getattr(running, key) for key in RESTART_KEYS})


def new_doubts(running: Config, config: Config, topology: Topology) -> tuple[str, ...]:
    """Return the warnings about a configuration that was read again which the one that ran gave no reason for."""
    told = running.doubts_on(topology)
    return tuple(warning for warning in config.doubts_on(topology) if warning not in told)


def differing(config: Config, other: Config) -> tuple[str, ...]:
    """Return the keys, and `rule` and `hook`, in which two configurations differ."""
    keys = [key for key, row in KEYS.items() if any(getattr(config, f) != getattr(other, f) for f in row.fields)]
    rules = ["rule"] if _unplaced(config.rules) != _unplaced(other.rules) else []
    return (*keys, *rules, *(["hook"] if config.hooks != other.hooks else []))


def _unplaced(rules: Sequence[Rule]) -> list[object]:
    """Return the rules without their places: a line more above a rule changes nothing."""
    return [(rule.labels, rule.name, rule.project, rule.image, rule.unit) for rule in rules]


def overridden(config: Config) -> tuple[str, ...]:
    """Return the keys that flags set, except the directory that names the daemon."""
    return tuple(sorted(key for key in config.flags if key != "state_dir"))
