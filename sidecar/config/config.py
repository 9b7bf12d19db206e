"""Config: the daemon's settings from a TOML file, the environment and flags; the later ones win.

Every key is one row of `KEYS`: how its value is read, and what it sets. The same keys are used in the file
(`shared_min = 1`), in the environment (`CPUSET_SIDECAR_SHARED_MIN=1`) and as flags (`--shared-min 1`). Mistakes are
values too, and all of them are found: only `load` and `check_against` make one error of them.

`reserved` is a CPU list or a count, in the same words everywhere: `0` is CPU 0, and `count:2` is two CPUs. A bare
number in TOML (`reserved = 2`) is a mistake, because it was a count once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from sidecar.config.hook_sections import SECTION as HOOK_SECTION
from sidecar.config.hook_sections import Hook, read_hooks
from sidecar.config.keys import KEYS
from sidecar.config.misfits import contradictions, doubts, misfits, unservable
from sidecar.config.rule_sections import SECTION, read_rules
from sidecar.config.tenant_section import TENANTS, doubled, flattened
from sidecar.config.toml_text import TOMLFile, read_file
from sidecar.decide.settings import Band, IsolatedRule, OptIn, PolicyName, Rule, Settings, TenantRight
from sidecar.failures import ConfigError
from sidecar.misreadings import Misreading
from sidecar.readers import Given, read_all
from sidecar.words.misread import sentences
from state.cpuset import EMPTY, CPUSet
from state.demand import NumaRule, Shortage
from state.exec_rule import ExecRule
from state.topology import Topology

DEFAULT_FILE: Final = "/etc/cpuset-sidecar.toml"
PREFIX: Final = "CPUSET_SIDECAR_"
OTHER_VARIABLES: Final = (PREFIX + "CONFIG", PREFIX + "DIR")
"""Variables that are not keys: where the file is, and where a workload finds its projection."""

Mistakes: TypeAlias = tuple[Misreading, ...]
"""All mistakes, at least one."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon's configuration, checked. Durations are in seconds; `origins` maps each given key to its source."""

    policy: PolicyName = PolicyName.NONE
    reserved: CPUSet | None = None
    reserved_count: int = 0
    reserved_bare: int | None = None
    """The single CPU that `reserved` names as text, which looks like a count."""
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
    exec: ExecRule = ExecRule()
    max_moves: int = 2
    reconcile_seconds: float = 10.0
    load_period_seconds: float = 2.0
    load_half_life_seconds: float = 30.0
    """Long enough to outlast the lulls of a bursty load, short enough that idle CPUs are released in a minute."""
    load_low: float = 0.5
    load_high: float = 0.8
    load_pressure: float = 20.0
    engine: str = "auto"
    engines: tuple[str, ...] = ()
    """Several engines in its place: names, or names with `=` and an address."""
    state_dir: str = "/var/lib/cpuset-sidecar"
    projections: str = "/run/cpuset-sidecar"
    unmanaged: tuple[str, ...] = ()
    tenants_may: tuple[TenantRight, ...] = (TenantRight.PRIORITY,)
    tenants_longest_notice_seconds: float = 20.0
    cgroup: str = "/sys/fs/cgroup"
    hand: str = "auto"
    host_units: str = "off"
    host_groups: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    shared_slice: str = ""
    listen: str = ""
    disturbed_period_seconds: float = 0.0
    """Off: tracing costs the CPUs of owners something, and is of use only to readers of the metrics."""
    api_group: str = ""
    log_level: str = "info"
    log_format: str = "text"
    rules: tuple[Rule, ...] = ()
    """Labels for containers without labels: the sections `[[rule]]` of the file."""
    hooks: tuple[Hook, ...] = ()
    """What is told of changes: the sections `[[hook]]` of the file."""
    file: str = ""
    """The file that was read, "" if there is none."""
    origins: Mapping[str, str] = {}
    flags: Mapping[str, str] = {}
    """The flags as they were given, for reloading."""

    def settings(self) -> Settings:
        """Return the part of it that decisions need."""
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
            longest_notice_seconds=self.tenants_longest_notice_seconds,
            cooldown_seconds=self.cooldown_seconds,
            min_change=self.min_change,
            max_moves=self.max_moves,
            band=Band(low=self.load_low, high=self.load_high, pressure=self.load_pressure),
            unmanaged=self.unmanaged,
            may=self.tenants_may,
            rules=self.rules,
            exec=self.exec,
            projections=self.projections,
            shared_slice=self.shared_slice,
        )

    def check_against(self, topology: Topology) -> tuple[str, ...]:
        """Return warnings about valid but perhaps unintended values. Raise ConfigError if this machine cannot do it."""
        if wrong := tuple(misfits(self, topology)):
            raise ConfigError(*sentences(wrong))
        return self.doubts_on(topology)

    def doubts_on(self, topology: Topology) -> tuple[str, ...]:
        """Return warnings about valid but perhaps unintended values, on a machine that can do it."""
        return sentences(doubts(self, topology))


def load(
    path: str | None,
    environ: Mapping[str, str],
    flags: Mapping[str, str | None],
    machine: Callable[[], Topology | None] = lambda: None,
    *,
    serves: bool = False,
) -> Config:
    """Return the configuration. Raise ConfigError with a sentence for each mistake: place, value, and the right one.

    If `machine` returns one, the values are checked against it as well, so that all mistakes are reported at once. So
    is, for a daemon that `serves`, what its socket needs.
    """
    read = read_config(path, environ, flags, machine, serves=serves)
    if not isinstance(read, Config):
        raise ConfigError(*sentences(read))
    return read


def load_again(config: Config, environ: Mapping[str, str], topology: Topology) -> Config:
    """Return the configuration after reading its file again. Raise ConfigError as `load` does, and if this machine
    cannot do it.
    """
    found = load(config.file or None, environ, config.flags, lambda: topology)
    found.check_against(topology)
    return found


def read_config(
    path: str | None,
    environ: Mapping[str, str],
    flags: Mapping[str, str | None],
    machine: Callable[[], Topology | None] = lambda: None,
    *,
    serves: bool = False,
) -> Config | Mistakes:
    """Return the configuration, or all mistakes in it, also what prevents a daemon that `serves` from doing so.

    `path` is the requested file; without it the variable CPUSET_SIDECAR_CONFIG applies, or the default file if it
    exists. `flags` maps keys to the text of the given flags, None for the others. If the file is not TOML, variables
    and flags are read nonetheless.
    """
    asked = path or environ.get(PREFIX + "CONFIG")
    file = asked or (DEFAULT_FILE if os.path.exists(DEFAULT_FILE) else "")
    in_file = read_file(file, "the configuration") if file else None
    elsewhere = [*_in_environ(environ), *_in_flags(flags)]
    if isinstance(in_file, Misreading):
        values, mistakes = read_all(elsewhere, _READERS)
        partial = _with_values(Config(), elsewhere, values)
        return (in_file, *mistakes, *(unservable(partial) if serves else ()))
    keys, sections, wrong = _in_file(in_file) if in_file else ([], {}, [])
    read = configured([*keys, *elsewhere], machine, serves=serves)
    if wrong or not isinstance(read, Config):
        return (*wrong, *(() if isinstance(read, Config) else read))
    kept = {key: value for key, value in flags.items() if value is not None}
    return msgspec.structs.replace(read, file=file, flags=kept, **sections)


def read_file_again(running: Config) -> Config | Mistakes:
    """Return what the configuration `running` would be with its file as it is now, or all mistakes in that.

    Values from variables and flags stay, also where they are not known here.
    """
    file = read_file(running.file, "the configuration") if running.file else None
    if file is None or isinstance(file, Misreading):
        return running if file is None else (file,)
    keys, sections, wrong = _in_file(file)
    elsewhere = {key for key, where in running.origins.items() if not where.startswith(f"{running.file}, line ")}
    fields = {field: getattr(Config(), field) for key in KEYS if key not in elsewhere for field in KEYS[key].fields}
    origins = {key: where for key, where in running.origins.items() if key in elsewhere}
    below = msgspec.structs.replace(running, **fields, origins=origins, **sections)
    read = configured((each for each in keys if each.name not in elsewhere), below=below)
    return (*wrong, *(() if isinstance(read, Config) else read)) if wrong or not isinstance(read, Config) else read


def load_over(
    running: Config, flags: Mapping[str, str | None], machine: Callable[[], Topology | None] = lambda: None
) -> Config:
    """Return the configuration `running` with what these flags set. Raise ConfigError as `load` does."""
    read = configured(_in_flags(flags), machine, running)
    if not isinstance(read, Config):
        raise ConfigError(*sentences(read))
    return msgspec.structs.replace(read, flags={key: value for key, value in flags.items() if value is not None})


def configured(
    given: Iterable[Given],
    machine: Callable[[], Topology | None] = lambda: None,
    below: Config | None = None,
    *,
    serves: bool = False,
) -> Config | Mistakes:
    """Return the configuration that these values make, the later ones winning, on top of the one `below`; or all
    mistakes.

    Contradictions are looked for between the values that could be read. If there is any mistake, the values are
    checked against the `machine` as well, if it is known. What prevents a daemon that `serves` from doing so is one.
    """
    given = tuple(given)
    values, mistakes = read_all(given, _READERS, _SECTIONS)
    unread = {each.name for each in mistakes}
    config = _with_values(below or Config(), given, values)
    mistakes += contradictions(config, unread)
    mistakes += unservable(config, unread) if serves else ()
    if mistakes and (topology := machine()):
        mistakes += misfits(config, topology, unread)
    return tuple(mistakes) or config


_SECTIONS: Final = ("options", TENANTS, SECTION, HOOK_SECTION)
"""Keys that may be written as sections of the file."""

_READERS: Final = {name: key.read for name, key in KEYS.items()}


def _with_values(below: Config, given: Iterable[Given], values: Mapping[str, Any]) -> Config:
    """Return the configuration `below` with these values, and where they were given."""
    fields = {field: found for key, value in values.items() for field, found in KEYS[key].set_by(value).items()}
    origins = {**below.origins, **{each.name: each.where for each in given}}
    return msgspec.structs.replace(below, **fields, origins=origins)


def _in_file(file: TOMLFile) -> tuple[list[Given], dict[str, Any], list[Misreading]]:
    """Return the keys of a file, the fields of its rules and hooks, and the mistakes in these."""
    sections, mistakes = dict[str, Any](), list[Misreading]()
    for field, section, read in (("rules", SECTION, read_rules), ("hooks", HOOK_SECTION, read_hooks)):
        value = file.table.get(section, [])
        sections[field], wrong = read(value, partial(_place_in, file, section, is_list=isinstance(value, list)))
        mistakes += wrong
    listed = (SECTION, HOOK_SECTION)
    keys = [Given(key, value, file.text.place(key=key)) for key, value in file.table.items() if key not in listed]
    tenants = file.text.place(key=TENANTS)
    flat = list(flattened(keys, lambda key: file.text.place_in_list(TENANTS, 0, key) or tenants))
    return flat, sections, [*mistakes, *doubled(flat)]


def _place_in(file: TOMLFile, section: str, number: int, key: str, *, is_list: bool) -> str:
    return file.text.place(section, number, key) if is_list else file.text.place(key=section)


def _in_environ(environ: Mapping[str, str]) -> list[Given]:
    """Return the variables that are not empty: compose makes an empty one of `${UNSET:-}`."""
    return [
        Given(name.removeprefix(PREFIX).lower(), environ[name], f"the variable {name}")
        for name in sorted(environ)
        if name.startswith(PREFIX) and name not in OTHER_VARIABLES and environ[name]
    ]


def _in_flags(flags: Mapping[str, str | None]) -> list[Given]:
    return [
        Given(key, value, f"the flag --{key.replace('_', '-')}") for key, value in flags.items() if value is not None
    ]
