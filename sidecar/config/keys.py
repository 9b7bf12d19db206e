"""The keys of the configuration: how each one's value is read, and what would be right where it cannot be.

A value comes from TOML with its type, from the environment and from flags as text: every reader takes both, and gives
the fields of Config that it sets.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from sidecar.decide.container.labels import MAX_GRACE
from sidecar.decide.placement.options import NODE_OPTIONS, conflict, from_switches
from sidecar.decide.settings import IsolatedRule, OptIn, PolicyName
from sidecar.readers import nearest, numa_rule, seconds_of
from sidecar.systemd_names import is_slice, misread_by_runtimes, slice_path
from sidecar.words.refusals import sentence
from state.cpuset import CPUSet
from state.errors import CPUSetError
from state.model import NumaRule, Shortage
from state.refusal import Refusal


class Wrong(Exception):
    """What would be right instead, as the end of a sentence."""


def _choice(field: str, words: tuple[str, ...], make: Callable[[str], Any] = str) -> Callable[[object], dict[str, Any]]:
    def read(value: object) -> dict[str, Any]:
        if value not in words or not isinstance(value, str):
            raise Wrong(nearest(value, words) if isinstance(value, str) else f": there is {', '.join(words)}")
        return {field: make(value)}

    return read


def _reserved(value: object) -> dict[str, Any]:
    right = ': write a CPU list like "0" or "0-1,8", or a count like 2 (as text count:2)'
    if isinstance(value, list):
        if not value or not all(type(cpu) is int for cpu in value):
            raise Wrong(right)
        value = ",".join(str(cpu) for cpu in value)
    if type(value) is int or (isinstance(value, str) and value.startswith("count:")):
        count = value if isinstance(value, int) else _digits(str(value).removeprefix("count:"), right)
        if not 1 <= count <= 8191:
            raise Wrong(": a count of reserved CPUs is at least 1")
        return {"reserved": None, "reserved_count": count}
    if not isinstance(value, str) or not value.strip():
        raise Wrong(right)
    try:
        return {"reserved": CPUSet.parse(value), "reserved_count": 0}
    except CPUSetError as error:
        raise Wrong(f"{right} ({error})") from error


def _digits(text: str, right: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise Wrong(right)
    return int(text)


def _options(value: object) -> dict[str, Any]:
    """A list of options; or names with truth values, as the kubelet's configuration has them."""
    switches = _switches(value)
    if switches is not None:
        wanted = from_switches(switches)
        if isinstance(wanted, Refusal):
            raise Wrong(f": {sentence(wanted)}; there is {', '.join(NODE_OPTIONS)}")
        return {"options": wanted}
    wanted = tuple(sorted(set(_words(value, "write a list of placement options"))))
    for option in wanted:
        if option not in NODE_OPTIONS:
            raise Wrong(f": unknown option {option[:40]!r}{nearest(option, NODE_OPTIONS)}")
    if refusal := conflict(wanted):
        raise Wrong(f": {sentence(refusal)}")
    return {"options": wanted}


def _switches(value: object) -> dict[str, str] | None:
    """`full-pcpus-only=true,...` or a TOML table of the same; None where it is neither."""
    if isinstance(value, Mapping):
        return {
            str(name): str(switch).lower() if switch in (True, False) else str(switch) for name, switch in value.items()
        }
    if isinstance(value, str) and "=" in value:
        pairs = (word.partition("=") for word in value.split(",") if word.strip())
        return {name.strip(): switch.strip() for name, _, switch in pairs}
    return None


def _numa(value: object) -> dict[str, Any]:
    rule = numa_rule(value) if isinstance(value, str) else None
    if rule is None:
        words = tuple(each.value for each in NumaRule)
        raise Wrong(nearest(value, words) if isinstance(value, str) else f": there is {', '.join(words)}")
    return {"numa": rule}


def _words(value: object, right: str) -> list[str]:
    """A list of words from a TOML list, or from a text with commas."""
    if isinstance(value, str):
        value = [word.strip() for word in value.split(",")]
        value = [word for word in value if word]
    if not isinstance(value, list) or not all(isinstance(word, str) and word for word in value):
        raise Wrong(f': {right}, like ["a", "b"] or a,b')
    return value


def _unmanaged(value: object) -> dict[str, Any]:
    return {"unmanaged": tuple(_words(value, "write a list of name patterns (db-*) or label=value patterns"))}


def _shared_min(value: object) -> dict[str, Any]:
    right = ": write how many CPUs are never given exclusively, a whole number like 1"
    count = value if type(value) is int else _digits(value, right) if isinstance(value, str) else -1
    if count < 0:
        raise Wrong(right)
    return {"shared_min": count}


def _count(field: str, low: int, high: int) -> Callable[[object], dict[str, Any]]:
    def read(value: object) -> dict[str, Any]:
        right = f": write a whole number from {low} to {high}"
        count = value if type(value) is int else _digits(value, right) if isinstance(value, str) else -1
        if not low <= count <= high:
            raise Wrong(right)
        return {field: count}

    return read


def _duration(field: str, low: float, high: float) -> Callable[[object], dict[str, Any]]:
    def read(value: object) -> dict[str, Any]:
        text = str(value) if type(value) in (int, float) else value
        seconds = seconds_of(text, low, high) if isinstance(text, str) else None
        if seconds is None:
            raise Wrong(f": write a duration between {low:g}s and {high:g}s, like 10s, 500ms or 1m")
        return {field: seconds}

    return read


def _number(field: str, most: float, right: str) -> Callable[[object], dict[str, Any]]:
    """A number above 0, `most` at the highest."""

    def read(value: object) -> dict[str, Any]:
        text = str(value) if type(value) in (int, float) else value
        if not isinstance(text, str) or not re.fullmatch(r"\d{1,3}(\.\d{1,6})?", text, re.ASCII):
            raise Wrong(right)
        number = float(text)
        if not 0 < number <= most:
            raise Wrong(right)
        return {field: number}

    return read


_SHARE: Final = ": write how busy a CPU may be, above 0 and at most 1, like 0.5"
_PERCENT: Final = ": write a number of percent, above 0 and at most 100, like 20"


def _directory(field: str) -> Callable[[object], dict[str, Any]]:
    def read(value: object) -> dict[str, Any]:
        right = ": write the absolute path of a directory, like /run/cpuset-sidecar"
        if not isinstance(value, str) or not value.startswith("/") or "\0" in value or ".." in value.split("/"):
            raise Wrong(right)
        path = "/" + value.strip("/")
        if path == "/":
            raise Wrong(right)
        return {field: path}

    return read


def _engine(value: object) -> dict[str, Any]:
    if isinstance(value, str) and (value == "auto" or re.fullmatch(r"(unix://)?/[^\0]+|(tcp|http)://[^/\s]+", value)):
        return {"engine": f"unix://{value}" if value.startswith("/") else value}
    raise Wrong(": write auto, or the address of an engine's socket, like unix:///var/run/docker.sock")


def _listen(value: object) -> dict[str, Any]:
    """`host:port`, where the host is an address: a name may mean several, or another one tomorrow."""
    right = ": write an address and a port, like 127.0.0.1:9413, [::1]:9413, or 0.0.0.0:9413 for all interfaces"
    host, colon, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if host == "localhost":
        host = "127.0.0.1"
    try:
        address = ipaddress.ip_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
    except ValueError:
        raise Wrong(right) from None
    if not colon or (address.version == 6) != host.startswith("[") or not 1 <= _digits(port, right) <= 65535:
        raise Wrong(right)
    return {"listen": f"{f'[{address}]' if address.version == 6 else address}:{int(port)}"}


def _shared_slice(value: object) -> dict[str, Any]:
    """A slice's name, or a cgroup's path, as the engine is told its default parent."""
    right = ': write the name of a slice, like "sidecar-shared.slice", or under cgroupfs a path, like "/sidecar-shared"'
    if value == "":
        return {"shared_slice": ""}
    if not isinstance(value, str):
        raise Wrong(right)
    if value.startswith("/"):
        parts = value.rstrip("/").split("/")[1:]
        if not parts or not all(re.fullmatch(r"[A-Za-z0-9_.:@-]+", part) and part not in (".", "..") for part in parts):
            raise Wrong(right)
        return {"shared_slice": "/" + "/".join(parts)}
    if not is_slice(value):
        raise Wrong(right)
    if misread_by_runtimes(value):
        raise Wrong(
            f": systemd puts it at {slice_path(value)}, where OCI runtimes do not look for it, since it begins with "
            "the name of a cgroup controller: write another name, like sidecar-shared.slice"
        )
    return {"shared_slice": value}


class Key(NamedTuple):
    """How one key is read, and what it means, for `--help` and the reference."""

    read: Callable[[object], dict[str, Any]]
    example: str
    meaning: str


def _named(
    field: str, kind: type[PolicyName] | type[OptIn] | type[Shortage] | type[IsolatedRule]
) -> Callable[[object], dict[str, Any]]:
    return _choice(field, tuple(member.value for member in kind), kind)


KEYS: Final[Mapping[str, Key]] = {
    "policy": Key(_named("policy", PolicyName), "static", "the policy: none (changes nothing), static or dynamic"),
    "reserved": Key(_reserved, "0", "CPUs that are never given exclusively: a list, or count:N"),
    "options": Key(_options, "full-pcpus-only", f"placement options: {', '.join(NODE_OPTIONS)}"),
    "numa": Key(_numa, "best-effort", "how exclusive CPUs lie to NUMA nodes: none, best-effort, restricted, single"),
    "isolated": Key(
        _named("isolated", IsolatedRule), "prefer", "CPUs that the kernel isolates: ignore, prefer, or only them"
    ),
    "shared_min": Key(_shared_min, "1", "how many CPUs the shared pool always keeps"),
    "opt_in": Key(_named("opt_in", OptIn), "label", "how containers ask: label, or guaranteed (limits as well)"),
    "shortage": Key(_named("shortage", Shortage), "share", "without cpuset.on-shortage: share, wait or stop"),
    "grace": Key(_duration("grace_seconds", 0, MAX_GRACE), "2s", "notice before CPUs are taken, without cpuset.grace"),
    "cooldown": Key(
        _duration("cooldown_seconds", 0, 3600), "10s", "how long one that grew is not shrunk, but for floors"
    ),
    "min_change": Key(_count("min_change", 1, 8191), "1", "the least change of a size, in CPUs, but for floors"),
    "max_moves": Key(_count("max_moves", 0, 8191), "2", "the most containers that a defragmentation moves at once"),
    "linger": Key(_duration("linger_seconds", 0, 3600), "10s", "how long a stopped container keeps its CPUs"),
    "reconcile_period": Key(_duration("reconcile_seconds", 0.1, 3600), "10s", "how often everything is looked at"),
    "load_period": Key(_duration("load_period_seconds", 0.1, 3600), "2s", "how often elastic containers are measured"),
    "load_half_life": Key(
        _duration("load_half_life_seconds", 1, 3600), "30s", "how long until a peak of use counts half"
    ),
    "load_low": Key(_number("load_low", 1, _SHARE), "0.5", "less use than this of each CPU: it has too many"),
    "load_high": Key(_number("load_high", 1, _SHARE), "0.8", "more use than this of each CPU: it has too few"),
    "load_pressure": Key(
        _number("load_pressure", 100, _PERCENT), "20", "CPU pressure in percent that asks for one more"
    ),
    "engine": Key(_engine, "auto", "auto, or the address of the engine's socket"),
    "state_dir": Key(_directory("state_dir"), "/var/lib/cpuset-sidecar", "where the recorded state is kept"),
    "projections": Key(_directory("projections"), "/run/cpuset-sidecar", "where workloads read their CPUs"),
    "unmanaged": Key(_unmanaged, "db-*", "containers left alone: name patterns, or label=value patterns"),
    "cgroup": Key(_directory("cgroup"), "/sys/fs/cgroup", "where the host's cgroup hierarchy is mounted"),
    "shared_slice": Key(
        _shared_slice,
        "sidecar-shared.slice",
        "the engine's default cgroup parent, which confines the shared pool as one",
    ),
    "listen": Key(_listen, "127.0.0.1:9413", "where metrics are served over TCP as well: an address and a port"),
    "log_level": Key(
        _choice("log_level", ("debug", "info", "warning", "error")), "info", "debug, info, warning, error"
    ),
    "log_format": Key(_choice("log_format", ("text", "json")), "text", "text for people, json for machines"),
}
