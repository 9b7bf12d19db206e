"""Config: what the daemon was told, from a TOML file, the environment and flags; the later ones win.

Every key is one row of `KEYS`: how its value is read, and what would be right where it cannot be. The same keys stand
in the file (`shared_min = 1`), in the environment (`CPUSET_SIDECAR_SHARED_MIN=1`) and as flags (`--shared-min 1`).

`reserved` is a CPU list or a count. A text is a list, so `CPUSET_SIDECAR_RESERVED=0` reserves CPU 0; a number in TOML
is a count, so `reserved = 2` reserves two CPUs, and a text says the same as `count:2`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from sidecar.decide.demand import OPTIONS, nearest
from sidecar.decide.world import OptIn, PolicyName, Settings
from sidecar.errors import ConfigError
from state.cpuset import EMPTY, CPUSet
from state.errors import CPUSetError
from state.model import Shortage
from state.topology import Topology

DEFAULT_FILE: Final = "/etc/cpuset-sidecar.toml"
PREFIX: Final = "CPUSET_SIDECAR_"
OTHER_VARIABLES: Final = (PREFIX + "CONFIG", PREFIX + "DIR")
"""Variables that are no keys: where the file is, and where a workload finds its projection."""

LATER_OPTIONS: Final = (
    "distribute-cpus-across-numa",
    "distribute-cpus-across-cores",
    "align-by-socket",
    "prefer-align-cpus-by-uncorecache",
)
LATER_KEYS: Final = ("isolated", "grace", "listen")
"""Options and keys of the design that this version does not have: told apart from a slip of the keyboard."""

MAX_BYTES: Final = 1024 * 1024
"""Bytes of a configuration file: a larger one is something else."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon's configuration, checked. Durations are in seconds; `origins` tells where each given key was given."""

    policy: PolicyName = PolicyName.NONE
    reserved: CPUSet | None = None
    reserved_count: int = 0
    options: tuple[str, ...] = ()
    shared_min: int = 0
    opt_in: OptIn = OptIn.LABEL
    shortage: Shortage = Shortage.SHARE
    linger_seconds: float = 10.0
    reconcile_seconds: float = 10.0
    engine: str = "auto"
    state_dir: str = "/var/lib/cpuset-sidecar"
    projections: str = "/run/cpuset-sidecar"
    unmanaged: tuple[str, ...] = ()
    cgroup: str = "/sys/fs/cgroup"
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
            shared_min=self.shared_min,
            opt_in=self.opt_in,
            shortage=self.shortage,
            linger_seconds=self.linger_seconds,
            unmanaged=self.unmanaged,
            projections=self.projections,
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
        warnings = []
        if self.reserved and "full-pcpus-only" in self.options:
            split = topology.whole_cores(self.reserved) - self.reserved
            if split:
                warnings.append(
                    f"reserved {self.reserved} splits cores: under full-pcpus-only nobody can get CPUs {split}"
                )
        return tuple(warnings)


def load(path: str | None, environ: Mapping[str, str], flags: Mapping[str, str | None]) -> Config:
    """Read the configuration; ConfigError names the place, the value, and what would be right.

    `path` is the file that was asked for; without it the variable CPUSET_SIDECAR_CONFIG, or the default file where it
    exists. `flags` maps keys to the text of the flags that were given, None for the others.
    """
    asked = path or environ.get(PREFIX + "CONFIG")
    file = asked or (DEFAULT_FILE if Path(DEFAULT_FILE).exists() else "")
    fields: dict[str, Any] = {"file": file}
    origins: dict[str, str] = {}
    given = [*(_in_file(file) if file else ()), *_in_environ(environ), *_in_flags(flags)]
    for key, value, where in given:
        fields.update(_read(key, value, where))
        origins[key] = where
    fields["flags"] = {key: value for key, value in flags.items() if value is not None}
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


class _Wrong(Exception):
    """What would be right instead, as the end of a sentence."""


def _read(key: str, value: object, where: str) -> dict[str, Any]:
    """The fields of Config that a given key sets."""
    if key not in KEYS:
        if key in LATER_KEYS:
            raise ConfigError(f"{where}: this version does not have {key!r} yet: leave it out")
        raise ConfigError(f"{where}: unknown key {key[:60]!r}{nearest(key, tuple(KEYS))}")
    try:
        return KEYS[key].read(value)
    except _Wrong as wrong:
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
    state, projections = Path(config.state_dir), Path(config.projections)
    if state == projections or projections in state.parents:
        raise ConfigError(
            f"{config.origins.get('state_dir', config.origins.get('projections', 'the configuration'))}: state_dir "
            f"{state} is inside projections {projections}, which workloads mount: keep them apart"
        )


def _choice(field: str, words: tuple[str, ...], make: Callable[[str], Any] = str) -> Callable[[object], dict[str, Any]]:
    def read(value: object) -> dict[str, Any]:
        if value not in words or not isinstance(value, str):
            if value == "dynamic" and field == "policy":
                raise _Wrong(f": this version does not have it yet; there is {', '.join(words)}")
            raise _Wrong(nearest(value, words) if isinstance(value, str) else f": there is {', '.join(words)}")
        return {field: make(value)}

    return read


def _reserved(value: object) -> dict[str, Any]:
    right = ': write a CPU list like "0" or "0-1,8", or a count like 2 (as text count:2)'
    if isinstance(value, list):
        if not value or not all(type(cpu) is int for cpu in value):
            raise _Wrong(right)
        value = ",".join(str(cpu) for cpu in value)
    if type(value) is int or (isinstance(value, str) and value.startswith("count:")):
        count = value if isinstance(value, int) else _digits(str(value).removeprefix("count:"), right)
        if not 1 <= count <= 8191:
            raise _Wrong(": a count of reserved CPUs is at least 1")
        return {"reserved": None, "reserved_count": count}
    if not isinstance(value, str) or not value.strip():
        raise _Wrong(right)
    try:
        return {"reserved": CPUSet.parse(value), "reserved_count": 0}
    except CPUSetError as error:
        raise _Wrong(f"{right} ({error})") from error


def _digits(text: str, right: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise _Wrong(right)
    return int(text)


def _options(value: object) -> dict[str, Any]:
    wanted = tuple(sorted(set(_words(value, "write a list of placement options"))))
    for option in wanted:
        if option in LATER_OPTIONS:
            raise _Wrong(f": this version does not have {option!r} yet; there is {', '.join(OPTIONS)}")
        if option not in OPTIONS:
            raise _Wrong(f": unknown option {option[:40]!r}{nearest(option, OPTIONS)}")
    return {"options": wanted}


def _words(value: object, right: str) -> list[str]:
    """A list of words from a TOML list, or from a text with commas."""
    if isinstance(value, str):
        value = [word.strip() for word in value.split(",")]
        value = [word for word in value if word]
    if not isinstance(value, list) or not all(isinstance(word, str) and word for word in value):
        raise _Wrong(f': {right}, like ["a", "b"] or a,b')
    return value


def _unmanaged(value: object) -> dict[str, Any]:
    return {"unmanaged": tuple(_words(value, "write a list of name patterns (db-*) or label=value patterns"))}


def _shared_min(value: object) -> dict[str, Any]:
    right = ": write how many CPUs are never given exclusively, a whole number like 1"
    count = value if type(value) is int else _digits(value, right) if isinstance(value, str) else -1
    if count < 0:
        raise _Wrong(right)
    return {"shared_min": count}


def _duration(field: str, low: float, high: float) -> Callable[[object], dict[str, Any]]:
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "": 1.0}

    def read(value: object) -> dict[str, Any]:
        right = f": write a duration between {low:g}s and {high:g}s, like 10s, 500ms or 1m"
        text = str(value) if type(value) in (int, float) else value
        match = re.fullmatch(r"(\d{1,7}(?:\.\d{1,6})?) ?(ms|s|m|)", text, re.ASCII) if isinstance(text, str) else None
        if not match:
            raise _Wrong(right)
        seconds = float(match[1]) * units[match[2]]
        if not low <= seconds <= high:
            raise _Wrong(right)
        return {field: seconds}

    return read


def _directory(field: str) -> Callable[[object], dict[str, Any]]:
    def read(value: object) -> dict[str, Any]:
        right = ": write the absolute path of a directory, like /run/cpuset-sidecar"
        if not isinstance(value, str) or not value.startswith("/") or "\0" in value or ".." in value.split("/"):
            raise _Wrong(right)
        path = "/" + value.strip("/")
        if path == "/":
            raise _Wrong(right)
        return {field: path}

    return read


def _engine(value: object) -> dict[str, Any]:
    if isinstance(value, str) and (value == "auto" or re.fullmatch(r"(unix://)?/[^\0]+|(tcp|http)://[^/\s]+", value)):
        return {"engine": f"unix://{value}" if value.startswith("/") else value}
    raise _Wrong(": write auto, or the address of an engine's socket, like unix:///var/run/docker.sock")


class Key(NamedTuple):
    """How one key is read, and what it means, for `--help` and the reference."""

    read: Callable[[object], dict[str, Any]]
    example: str
    meaning: str


def _named(field: str, kind: type[PolicyName] | type[OptIn] | type[Shortage]) -> Callable[[object], dict[str, Any]]:
    return _choice(field, tuple(member.value for member in kind), kind)


KEYS: Final[Mapping[str, Key]] = {
    "policy": Key(_named("policy", PolicyName), "static", "who decides: none (touches nothing) or static"),
    "reserved": Key(_reserved, "0", "CPUs that are never given exclusively: a list, or count:N"),
    "options": Key(_options, "full-pcpus-only", f"placement options: {', '.join(OPTIONS)}"),
    "shared_min": Key(_shared_min, "1", "how many CPUs the shared pool always keeps"),
    "opt_in": Key(_named("opt_in", OptIn), "label", "who may be exclusive: label, or guaranteed (by limits, too)"),
    "shortage": Key(_named("shortage", Shortage), "share", "without cpuset.on-shortage: share, wait or stop"),
    "linger": Key(_duration("linger_seconds", 0, 3600), "10s", "how long a stopped container keeps its CPUs"),
    "reconcile_period": Key(_duration("reconcile_seconds", 0.1, 3600), "10s", "how often everything is looked at"),
    "engine": Key(_engine, "auto", "auto, or the address of the engine's socket"),
    "state_dir": Key(_directory("state_dir"), "/var/lib/cpuset-sidecar", "where the books are kept"),
    "projections": Key(_directory("projections"), "/run/cpuset-sidecar", "where workloads read their CPUs"),
    "unmanaged": Key(_unmanaged, "db-*", "containers left alone: name patterns, or label=value patterns"),
    "cgroup": Key(_directory("cgroup"), "/sys/fs/cgroup", "where the host's cgroup hierarchy is mounted"),
    "log_level": Key(
        _choice("log_level", ("debug", "info", "warning", "error")), "info", "debug, info, warning, error"
    ),
    "log_format": Key(_choice("log_format", ("text", "json")), "text", "text for people, json for machines"),
}
