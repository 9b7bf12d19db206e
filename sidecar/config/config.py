"""Config: what the daemon was told, from a TOML file, the environment and flags; the later ones win.

Every key is one row of `KEYS`: how its value is read, and what would be right where it cannot be. The same keys stand
in the file (`shared_min = 1`), in the environment (`CPUSET_SIDECAR_SHARED_MIN=1`) and as flags (`--shared-min 1`).

`reserved` is a CPU list or a count. A text is a list, so `CPUSET_SIDECAR_RESERVED=0` reserves CPU 0; a number in TOML
is a count, so `reserved = 2` reserves two CPUs, and a text says the same as `count:2`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from sidecar.config.keys import KEYS, Wrong
from sidecar.decide.placement.options import FULL_PCPUS_ONLY, misfit
from sidecar.decide.settings import Band, IsolatedRule, OptIn, PolicyName, Settings
from sidecar.failures import ConfigError
from sidecar.readers import nearest
from sidecar.words.refusals import sentence
from state.cpuset import EMPTY, CPUSet
from state.model import NumaRule, Shortage
from state.topology import Topology

DEFAULT_FILE: Final = "/etc/cpuset-sidecar.toml"
PREFIX: Final = "CPUSET_SIDECAR_"
OTHER_VARIABLES: Final = (PREFIX + "CONFIG", PREFIX + "DIR")
"""Variables that are no keys: where the file is, and where a workload finds its projection."""

MAX_BYTES: Final = 1024 * 1024
"""Bytes of a configuration file: a larger one is something else."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon's configuration, checked. Durations are in seconds; `origins` tells where each given key was given."""

    policy: PolicyName = PolicyName.NONE
    reserved: CPUSet | None = None
    reserved_count: int = 0
    options: tuple[str, ...] = ()
    numa: NumaRule = NumaRule.NONE
    isolated: IsolatedRule = IsolatedRule.IGNORE
    shared_min: int = 0
    opt_in: OptIn = OptIn.LABEL
    shortage: Shortage = Shortage.SHARE
    linger_seconds: float = 10.0
    grace_seconds: float = 2.0
    cooldown_seconds: float = 10.0
    min_change: int = 1
    max_moves: int = 2
    reconcile_seconds: float = 10.0
    load_period_seconds: float = 2.0
    load_half_life_seconds: float = 30.0
    """Long enough to outlast the lulls of a bursty load, short enough that what is idle is given back in a minute."""
    load_low: float = 0.5
    load_high: float = 0.8
    load_pressure: float = 20.0
    engine: str = "auto"
    state_dir: str = "/var/lib/cpuset-sidecar"
    projections: str = "/run/cpuset-sidecar"
    unmanaged: tuple[str, ...] = ()
    cgroup: str = "/sys/fs/cgroup"
    shared_slice: str = ""
    listen: str = ""
    log_level: str = "info"
    log_format: str = "text"
    file: str = ""
    """The file that was read, "" where there is none."""
    origins: Mapping[str, str] = {}
    flags: Mapping[str, str] = {}
    """The flags as they were given, for reading it again."""

    def settings(self) -> Settings:
        """What of it decisions need."""
        return Settings(
            policy=self.policy,
            reserved_cpus=self.reserved or EMPTY,
            reserved_count=self.reserved_count,
            options=self.options,
            numa=self.numa,
            isolated=self.isolated,
            shared_min=self.shared_min,
            opt_in=self.opt_in,
            shortage=self.shortage,
            linger_seconds=self.linger_seconds,
            grace_seconds=self.grace_seconds,
            cooldown_seconds=self.cooldown_seconds,
            min_change=self.min_change,
            max_moves=self.max_moves,
            band=Band(low=self.load_low, high=self.load_high, pressure=self.load_pressure),
            unmanaged=self.unmanaged,
            projections=self.projections,
            shared_slice=self.shared_slice,
        )

    def check_against(self, topology: Topology) -> tuple[str, ...]:
        """Whether this machine can do it: ConfigError if not; sentences about what is lawful and perhaps not meant."""
        where = self.origins.get("reserved", "the configuration")
        size = len(topology.online)
        if self.reserved and (missing := self.reserved - topology.online):
            there = "offline" if missing <= topology.offline else "not on this machine"
            raise ConfigError(
                f"{where}: reserved is {self.reserved}, but {missing} is {there}: it has {topology.online}"
            )
        count = len(self.reserved) if self.reserved else self.reserved_count
        if self.policy is not PolicyName.NONE and count >= size:
            raise ConfigError(
                f"{where}: reserved takes {count} of this machine's {size} CPUs: leave some to be given exclusively"
            )
        if self.shared_min >= size:
            where = self.origins.get("shared_min", "the configuration")
            raise ConfigError(
                f"{where}: shared_min is {self.shared_min}, and this machine has {size} CPUs: make it smaller"
            )
        if unfit := misfit(self.options, self.numa, topology):
            raise ConfigError(f"{self.origins.get('options', 'the configuration')}: {sentence(unfit)}")
        return tuple(self._doubts(topology))

    def _doubts(self, topology: Topology) -> Iterator[str]:
        reserved, isolated = self.reserved or EMPTY, topology.isolated
        split = topology.whole_cores(reserved) - reserved
        if split and FULL_PCPUS_ONLY in self.options:
            yield f"reserved {reserved} splits cores: under full-pcpus-only CPUs {split} cannot be granted"
        widths = sorted({len(core.cpus) for core in topology.cores})
        if FULL_PCPUS_ONLY in self.options and len(widths) > 1 and not topology.kinds:
            yield (
                f"cores have {' or '.join(map(str, widths))} threads here: full-pcpus-only counts with "
                f"{topology.cpus_per_core}, the average, as the kubelet does, and two containers may share a core"
            )
        if self.isolated is IsolatedRule.IGNORE:
            if isolated and self.policy is not PolicyName.NONE:
                yield (
                    f"the kernel isolates CPUs {isolated}, over which it does not balance threads: those of a shared "
                    "container can get stuck on one of them: set isolated = prefer, or only"
                )
        elif not isolated:
            yield f"isolated is {self.isolated}, and the kernel isolates no CPUs here (isolcpus= at boot)"
        elif both := reserved & isolated:
            yield f"reserved has the isolated CPUs {both}: several threads there would all sit on one"


def load(path: str | None, environ: Mapping[str, str], flags: Mapping[str, str | None]) -> Config:
    """Read the configuration; ConfigError names the place, the value, and what would be right.

    `path` is the file that was asked for; without it the variable CPUSET_SIDECAR_CONFIG, or the default file where it
    exists. `flags` maps keys to the text of the flags that were given, None for the others.
    """
    asked = path or environ.get(PREFIX + "CONFIG")
    file = asked or (DEFAULT_FILE if Path(DEFAULT_FILE).exists() else "")
    given = [*(_in_file(file) if file else ()), *_in_environ(environ), *_in_flags(flags)]
    read = configured(given)
    kept = {key: value for key, value in flags.items() if value is not None}
    return msgspec.structs.replace(read, file=file, flags=kept)


def configured(given: Iterable[Given]) -> Config:
    """The configuration that these values make, the later ones winning. ConfigError, naming where a value stands."""
    fields: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for key, value, where in given:
        fields.update(_read(key, value, where))
        origins[key] = where
    config = Config(**fields, origins=origins)
    _check_whole(config)
    return config


def load_again(config: Config, environ: Mapping[str, str]) -> Config:
    """The same configuration, its file read anew; ConfigError as `load`."""
    return load(config.file or None, environ, config.flags)


class Given(NamedTuple):
    """A value as it stands somewhere: its key, the raw value, and the place in words."""

    key: str
    value: object
    where: str


def _in_file(file: str) -> list[Given]:
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"the configuration {file} cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise ConfigError(f"the configuration {file} has {len(content)} bytes: this is something else")
    try:
        text = content.decode()
        table = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"the configuration {file} is not TOML: {error}") from error
    return [Given(key, value, f"{file}, line {_line_of(key, text)}") for key, value in table.items()]


def _line_of(key: str, text: str) -> int:
    """The line where a top-level key, or a table of that name, begins; 1 if it is written in some odd way."""
    name = re.escape(key)
    match = re.search(rf"""^[ \t]*\[*[ \t]*(["']?){name}\1[ \t]*[].=]""", text, re.MULTILINE)
    return text.count("\n", 0, match.start()) + 1 if match else 1


def _in_environ(environ: Mapping[str, str]) -> list[Given]:
    """An empty variable counts as not given: that is what compose makes of `${UNSET:-}`."""
    return [
        Given(name.removeprefix(PREFIX).lower(), environ[name], f"the variable {name}")
        for name in sorted(environ)
        if name.startswith(PREFIX) and name not in OTHER_VARIABLES and environ[name]
    ]


def _in_flags(flags: Mapping[str, str | None]) -> list[Given]:
    return [
        Given(key, value, f"the flag --{key.replace('_', '-')}") for key, value in flags.items() if value is not None
    ]


def _read(key: str, value: object, where: str) -> dict[str, Any]:
    """The fields of Config that a given key sets."""
    if key not in KEYS:
        raise ConfigError(f"{where}: unknown key {key[:60]!r}{nearest(key, tuple(KEYS))}")
    try:
        return KEYS[key].read(value)
    except Wrong as wrong:
        shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "..."
        raise ConfigError(f"{where}: {key} is {shown}{wrong}") from wrong


def _check_whole(config: Config) -> None:
    """What no key alone can tell."""
    if config.policy is not PolicyName.NONE and not config.reserved and not config.reserved_count:
        raise ConfigError(
            f"{config.origins.get('policy', 'the configuration')}: the policy {config.policy} needs reserved CPUs, "
            "which are never given exclusively: set reserved, as a CPU list "
            f'(reserved = "0", {PREFIX}RESERVED=0, --reserved 0) or as a count (reserved = 1, --reserved count:1)'
        )
    if config.load_low >= config.load_high:
        raise ConfigError(
            f"{config.origins.get('load_low', config.origins.get('load_high', 'the configuration'))}: load_low is "
            f"{config.load_low:g} and load_high {config.load_high:g}: make load_low the smaller one"
        )
    state, projections = Path(config.state_dir), Path(config.projections)
    if state == projections or projections in state.parents:
        raise ConfigError(
            f"{config.origins.get('state_dir', config.origins.get('projections', 'the configuration'))}: state_dir "
            f"{state} is inside projections {projections}, which workloads mount: keep them apart"
        )
