"""The keys of the configuration: how each value is read, and what it means, for `--help` and the reference.

A value from TOML has a type, a value from the environment or a flag is text: every reader takes both.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sidecar.decide.container.labels import MAX_GRACE
from sidecar.decide.placement.options import NODE_OPTIONS, clashes, from_switches
from sidecar.decide.settings import IsolatedRule, OptIn, PolicyName, TenantRight
from sidecar.misreadings import BareCount, Form, MisreadSlice, NotOfForm, Switched
from sidecar.readers import (
    NUMA_WORDS,
    Reader,
    above_zero,
    choice,
    closest,
    cpu_list,
    duration,
    exec_rule,
    kept,
    shown,
    whole,
    word,
    words,
)
from sidecar.systemd_names import is_slice, misread_by_runtimes, slice_path
from state.cpuset import MAX_CPU, CPUSet
from state.demand import NumaRule, Shortage
from state.mistakes import AllOf, Clashes, Flaw, OneOf
from state.refusal import Refusal

_COUNT: Final = re.compile(r"([A-Za-z]+) ?[:=]? ?(\d{1,4})", re.ASCII)
"""A text that may mean `count:2`."""


ENGINE_NAMES: Final = ("docker", "podman")
"""Those of which a host may have several."""

_TCP: Final = re.compile(r"tcp://(?:\[[0-9A-Fa-f:.]+\]|[^\s/:@?#\[\]]+):([0-9]{1,5})/?")
"""Its group is the port. A bare IPv6 address would end in what looks like one: it stands between brackets."""

_port: Final = whole(1, 65535)

_MAX_GROUP: Final = 2**32 - 2
"""The highest number of a group; the next one means none (chown(2))."""


class Reserved(NamedTuple):
    """The value of `reserved`: these CPUs, or a number of them. `bare` is a single CPU given as text, like a count."""

    cpus: CPUSet | None = None
    number: int = 0
    bare: int | None = None


class Key(NamedTuple):
    """How one key is read, the fields of Config that it sets, its default as it would be written, and its meaning.

    If there is no default, `example` is a possible value.
    """

    read: Reader[Any, Any]
    fields: tuple[str, ...]
    default: str
    example: str
    meaning: str

    def set_by(self, found: Any) -> dict[str, Any]:
        """Return the fields of Config for the value that was read."""
        values = found if len(self.fields) > 1 else (found,)
        return dict(zip(self.fields, values, strict=True))


def _reserved(value: object) -> Reserved | NotOfForm | OneOf | BareCount:
    """Return a list of CPUs, from text or TOML; or a count, from a text after `count:`.

    A bare number of TOML was a count once, and is the number of a CPU everywhere else: it is refused.
    """
    if type(value) is int:
        return BareCount(value) if 0 <= value <= MAX_CPU else NotOfForm(Form.RESERVED)
    if isinstance(value, str) and value.strip().startswith("count:"):
        return _counted(value.strip().removeprefix("count:"))
    is_list = isinstance(value, list) and all(type(cpu) is int for cpu in value)
    found = cpu_list(",".join(map(shown, value)) if is_list else value)  # type: ignore[call-overload]  # a list
    if isinstance(found, NotOfForm):
        match = _COUNT.fullmatch(value.strip()) if isinstance(value, str) else None
        if match and closest(match[1], ("count",)):
            return OneOf((f"count:{match[2]}",))
        return NotOfForm(Form.RESERVED, found.detail)
    is_bare = isinstance(value, str) and value.strip().isdigit() and found.lowest() > 0
    return Reserved(found, bare=found.lowest() if is_bare else None)


def _counted(value: object) -> Reserved | NotOfForm:
    number = whole(0, MAX_CPU)(value)
    if isinstance(number, Flaw):
        return NotOfForm(Form.RESERVED)
    return Reserved(number=number) if number else NotOfForm(Form.RESERVED_COUNT)


def _options(value: object) -> tuple[str, ...] | AllOf | Switched | Clashes:
    """Return a list of options, from names or from names with truth values as in the kubelet's configuration."""
    switches = _switches(value)
    wanted = words(NODE_OPTIONS)(value if switches is None else [name or "=" for name in switches])
    if isinstance(wanted, AllOf):
        return wanted
    if switches is not None:
        for option, switch in sorted(switches.items()):
            refused = from_switches({option: switch})
            if isinstance(refused, Refusal):
                return Switched(option, kept(switch))
        wanted = tuple(option for option in wanted if from_switches({option: switches[option]}))
    pairs = clashes(wanted)
    return Clashes(pairs) if pairs else wanted


def _rights(value: object) -> tuple[TenantRight, ...] | AllOf:
    """Return a list of rights, from a TOML list or a text with commas."""
    found = words(tuple(TenantRight))(value)
    return found if isinstance(found, AllOf) else tuple(map(TenantRight, found))


def _switches(value: object) -> dict[str, str] | None:
    """Return the switches in `full-pcpus-only=true,...` or in a TOML table; None if it is neither."""
    if isinstance(value, Mapping):
        return {str(name): shown(switch) for name, switch in value.items()}
    if isinstance(value, str) and "=" in value:
        pairs = (each.partition("=") for each in value.split(",") if each.strip())
        return {name.strip(): switch.strip() for name, _, switch in pairs}
    return None


def _patterns(value: object) -> tuple[str, ...] | NotOfForm:
    """Return a list of texts from a TOML list, or from a text with commas."""
    found = [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(each, str) and each for each in found):
        return NotOfForm(Form.PATTERNS)
    return tuple(found)


def _groups(value: object) -> tuple[str, ...] | Flaw:
    """Return the paths of cgroups, without one that is within another or could leave the hierarchy."""
    found = _patterns(value)
    if isinstance(found, NotOfForm):
        return found
    read = [each if each == "/" else _directory(each) for each in found]
    flaws = [each for each in read if not isinstance(each, str)]
    return flaws[0] if flaws else tuple(each for each in read if isinstance(each, str))


def _directory(value: object) -> str | NotOfForm:
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value or ".." in value.split("/"):
        return NotOfForm(Form.DIRECTORY)
    path = value.strip("/")
    return f"/{path}" if path else NotOfForm(Form.DIRECTORY)


def _engine(value: object) -> str | NotOfForm:
    """Return `auto`, or an address as a URL: `unix:///path` or `tcp://host:port`."""
    if not isinstance(value, str):
        return NotOfForm(Form.ENGINE)
    if value.strip().lower() == "auto":
        return "auto"
    if re.fullmatch(r"(unix://)?/[^\0]+", value):
        return f"unix://{value}" if value.startswith("/") else value
    match = _TCP.fullmatch(value)
    return NotOfForm(Form.ENGINE) if match is None or isinstance(_port(match[1]), Flaw) else value


def _engines(value: object) -> tuple[str, ...] | NotOfForm:
    """Return several engines, each once, as `docker` or `docker=ADDRESS`, and so for `podman` and the `podman:UID` of
    users; `auto` for all that answer; () for none.
    """
    found = _patterns(value)
    if found == ("auto",):
        return found
    if isinstance(found, NotOfForm):
        return NotOfForm(Form.ENGINES)
    read = []
    for each in found:
        name, is_at, where = each.partition("=")
        at = _engine(where) if is_at else ""
        if not _is_engine(name) or isinstance(at, Flaw) or at == "auto":
            return NotOfForm(Form.ENGINES)
        read.append(f"{name}={at}" if is_at else name)
    names = [each.partition("=")[0] for each in read]
    return tuple(read) if len(read) != 1 and len(set(names)) == len(names) else NotOfForm(Form.ENGINES)


def _is_engine(name: str) -> bool:
    return name in ENGINE_NAMES or re.fullmatch(r"podman:[0-9]{1,10}", name) is not None


def _listen(value: object) -> str | NotOfForm:
    """Return `host:port`; the host must be an address, since a name may have several, or another one tomorrow."""
    host, colon, digits = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if host == "localhost":
        host = "127.0.0.1"
    port = _port(digits)
    try:
        address = ipaddress.ip_address(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
    except ValueError:
        return NotOfForm(Form.LISTEN)
    if not colon or (address.version == 6) != host.startswith("[") or isinstance(port, Flaw):
        return NotOfForm(Form.LISTEN)
    return f"{f'[{address}]' if address.version == 6 else address}:{port}"


def _group(value: object) -> str | NotOfForm:
    """Return the name or number of a group, "" for none; a number of TOML is one as well."""
    name = shown(value) if type(value) is int else value
    if isinstance(name, str) and re.fullmatch("[0-9]+", name) and isinstance(whole(0, _MAX_GROUP)(name), Flaw):
        return NotOfForm(Form.GROUP, f"the highest number is {_MAX_GROUP}")
    return name if isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_.-]{0,32}", name) else NotOfForm(Form.GROUP)


def _shared_slice(value: object) -> str | NotOfForm | MisreadSlice:
    """Return a slice's name, or a cgroup's path, as the engine's default parent is written; "" for none."""
    if not isinstance(value, str):
        return NotOfForm(Form.CGROUP_PARENT)
    if value.startswith("/"):
        parts = value.rstrip("/").split("/")[1:]
        if not parts or not all(re.fullmatch(r"[A-Za-z0-9_.:@-]+", part) and part not in (".", "..") for part in parts):
            return NotOfForm(Form.CGROUP_PARENT)
        return "/" + "/".join(parts)
    if value and not is_slice(value):
        return NotOfForm(Form.CGROUP_PARENT)
    if value and misread_by_runtimes(value):
        return MisreadSlice(slice_path(value))
    return value


def _hand(value: object) -> str | Flaw:
    """Return `auto`, `off`, or the engine's default cgroup parent as `_shared_slice` does."""
    if isinstance(value, str) and (value.startswith("/") or value.endswith(".slice")):
        return _shared_slice(value)
    found = word("auto", "off")(value)
    is_slip = isinstance(value, str) and closest(value, ("auto", "off"))
    return found if isinstance(found, str) or is_slip else NotOfForm(Form.HAND)


def _key(read: Reader[Any, Any], field: str, default: str, meaning: str, *, example: str = "") -> Key:
    return Key(read, (field,), default, example or default, meaning)


KEYS: Final[Mapping[str, Key]] = {
    "policy": _key(
        choice(PolicyName),
        "policy",
        "none",
        "the policy: none (changes nothing), static or dynamic",
        example="static",
    ),
    "reserved": Key(
        _reserved,
        ("reserved", "reserved_count", "reserved_bare"),
        "",
        "0",
        "CPUs that are never given exclusively: a list, or count:N",
    ),
    "options": _key(
        _options, "options", "", f"placement options: {', '.join(NODE_OPTIONS)}", example="full-pcpus-only"
    ),
    "numa": _key(
        choice(NumaRule, NUMA_WORDS),
        "numa",
        "none",
        "how exclusive CPUs lie to NUMA nodes: none, best-effort, restricted, single",
    ),
    "isolated": _key(
        choice(IsolatedRule), "isolated", "ignore", "CPUs that the kernel isolates: ignore, prefer, or only them"
    ),
    "shared_min": _key(whole(0, MAX_CPU), "shared_min", "0", "how many CPUs the shared pool always keeps"),
    "opt_in": _key(choice(OptIn), "opt_in", "label", "how containers ask: label, or guaranteed (limits as well)"),
    "shortage": _key(choice(Shortage), "shortage", "share", "without cpuset.on-shortage: share, wait or stop"),
    "exec": _key(
        exec_rule,
        "exec",
        "all",
        "where docker exec and health checks begin in owners of CPUs, without cpuset.exec: first, last, all, or places",
        example="last",
    ),
    "grace": _key(duration(0, MAX_GRACE), "grace_seconds", "2s", "notice before CPUs are taken, without cpuset.grace"),
    "cooldown": _key(
        duration(0, 3600), "cooldown_seconds", "10s", "how long one that grew is not shrunk, but for floors"
    ),
    "min_change": _key(
        whole(1, MAX_CPU),
        "min_change",
        "1",
        "the fewest CPUs that are taken from a container at a time, but for floors and arrivals",
    ),
    "max_moves": _key(whole(0, MAX_CPU), "max_moves", "2", "the most containers that a defragmentation moves at once"),
    "linger": _key(duration(0, 3600), "linger_seconds", "10s", "how long a stopped container keeps its CPUs"),
    "reconcile_period": _key(duration(0.1, 3600), "reconcile_seconds", "10s", "how often everything is looked at"),
    "load_period": _key(duration(0.1, 3600), "load_period_seconds", "2s", "how often elastic containers are measured"),
    "load_half_life": _key(
        duration(1, 3600), "load_half_life_seconds", "30s", "how long until a peak of use counts half"
    ),
    "load_low": _key(above_zero(1, "0.5"), "load_low", "0.5", "less use than this of each CPU: it has too many"),
    "load_high": _key(above_zero(1, "0.5"), "load_high", "0.8", "more use than this of each CPU: it has too few"),
    "load_pressure": _key(
        above_zero(100, "20"), "load_pressure", "20", "CPU pressure in percent that asks for one more"
    ),
    "engine": _key(_engine, "engine", "auto", "auto, or the address of the engine's socket"),
    "engines": _key(
        _engines,
        "engines",
        "",
        "several engines of this host, in place of engine: docker, podman, podman:UID of a user, or NAME=ADDRESS; auto",
        example="docker,podman",
    ),
    "state_dir": _key(_directory, "state_dir", "/var/lib/cpuset-sidecar", "where the recorded state is kept"),
    "projections": _key(_directory, "projections", "/run/cpuset-sidecar", "where workloads read their CPUs"),
    "unmanaged": _key(
        _patterns, "unmanaged", "", "containers left alone: name patterns, or label=value patterns", example="db-*"
    ),
    "tenants_may": _key(
        _rights,
        "tenants_may",
        "priority",
        f"what users may do with the containers that they create: {', '.join(TenantRight)}",
        example="pin",
    ),
    "tenants_longest_notice": _key(
        duration(0, MAX_GRACE),
        "tenants_longest_notice_seconds",
        "20s",
        "the longest notice that cpuset.grace gives: so long may a container keep CPUs from another one",
    ),
    "cgroup": _key(_directory, "cgroup", "/sys/fs/cgroup", "where the host's cgroup hierarchy is mounted"),
    "hand": _key(
        _hand,
        "hand",
        "auto",
        "auto: cgroups are written directly where possible, or the engine's own cgroup parent; off: the engine alone",
    ),
    "host_units": _key(
        word("auto", "off"),
        "host_units",
        "off",
        "auto: systemd confines the host's services and sessions to the shared pool as well; off: containers alone",
    ),
    "host_groups": _key(
        _groups,
        "host_groups",
        "",
        "groups that host_units confines where no systemd does, by their paths; /: the tasks of the root group",
        example="/",
    ),
    "leave": _key(
        _patterns, "leave", "", "units of the host that are left alone: name patterns", example="irqbalance.service"
    ),
    "shared_slice": _key(
        _shared_slice,
        "shared_slice",
        "",
        "the engine's default cgroup parent, which confines the shared pool as one",
        example="sidecar-shared.slice",
    ),
    "listen": _key(
        _listen,
        "listen",
        "",
        "where metrics are served over TCP as well: an address and a port",
        example="127.0.0.1:9413",
    ),
    "disturbed_period": _key(
        duration(0, 3600), "disturbed_period_seconds", "0s", "how often what disturbs is sampled for 1s; 0: never"
    ),
    "api_group": _key(
        _group, "api_group", "", "a group whose members may read the status and the API", example="monitoring"
    ),
    "log_level": _key(word("debug", "info", "warning", "error"), "log_level", "info", "debug, info, warning, error"),
    "log_format": _key(word("text", "json"), "log_format", "text", "text for people, json for machines"),
}

PATHS: Final = frozenset(("state_dir", "projections", "cgroup"))
"""Keys that are directories: a flag may be relative to the working directory."""
