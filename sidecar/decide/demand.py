"""From labels and limits to a Wish: who is exclusive, who is shared, who is left alone, and why not.

As in the kubelet, exclusive means a whole number of CPUs, at least one. Labels say it (`cpuset.exclusive`), or, with
`opt_in = guaranteed`, the limits do: a whole-number CPU limit, and a memory limit that equals its reservation or has
none. A label that cannot be understood never fails a container: it runs in the shared pool, with the reason.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, TypeVar

import msgspec

from sidecar.decide.elastic import elasticity
from sidecar.decide.facts import ContainerView
from sidecar.decide.options import CONTAINER_OPTIONS, conflict
from sidecar.decide.swarm import mismatch
from sidecar.decide.world import OptIn, PolicyName, Settings, Standing, Wish, shared_id
from sidecar.slicenames import exclusive_beside
from state.cpuset import EMPTY, CPUSet
from state.errors import CPUSetError
from state.model import Demand, MemsRule, NumaRule, Originals, QuotaRule, Scale, Shortage
from state.refusal import Lives, Refusal, RefusalCode, Said

PREFIX: Final = "cpuset."
MEMS_LABEL: Final = "cpuset.mems"
DYNAMIC_LABELS: Final = (
    "cpuset.min",
    "cpuset.max",
    "cpuset.scale",
    "cpuset.weight",
    "cpuset.grace",
    "cpuset.signal",
    "cpuset.move",
)
"""What only `dynamic` heeds; under any other policy they are read, so that a mistake is found, and change nothing."""

LABELS: Final = (
    "cpuset.exclusive",
    "cpuset.options",
    "cpuset.numa",
    "cpuset.near",
    MEMS_LABEL,
    "cpuset.on-shortage",
    "cpuset.quota",
    "cpuset.projection",
    "cpuset.manage",
    *DYNAMIC_LABELS,
)

NANO: Final = 1_000_000_000
"""The engine counts CPU limits in 1e-9 CPUs."""

_DEVICE_LENGTH: Final = 64
"""Characters of a device's name: a network interface has 15 at most, a PCI address 12 or some more."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


C = TypeVar("C", Shortage, QuotaRule, MemsRule, Scale)


class _BadLabel(Exception):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.code)
        self.refusal = refusal


def _bad(code: RefusalCode, reason: str) -> _BadLabel:
    return _BadLabel(Refusal(code, Said(reason)))


def wish_of(
    view: ContainerView,
    settings: Settings,
    originals: Originals,
    online: CPUSet,
    devices: Mapping[str, CPUSet] | None = None,
) -> Wish:
    """What this container is and asks for. `originals` are its settings before the sidecar first changed them;
    `devices` are those of the machine, with their local CPUs.

    A cpuset of all CPUs is not a pin: engines cannot clear a cpuset, so that is what "not pinned any more" looks like.
    """
    if is_group(view):
        return Wish(standing=Standing.MANAGED)
    if originals.cpuset and online <= cpus_of(originals.cpuset, online):
        originals = msgspec.structs.replace(originals, cpuset="")
    manage = view.labels.get("cpuset.manage", "")
    if manage == "off" or _is_unmanaged(view, settings):
        pinned = bool(originals.cpuset)
        return Wish(standing=Standing.STRANGER if pinned else Standing.UNMANAGED)
    warnings = tuple(_warnings(view.labels, settings))
    try:
        demand = _demand(view, settings, originals)
        if demand is not None and view.in_shared_group:
            shared = settings.shared_slice
            where = Lives(shared, exclusive_beside(shared))
            raise _BadLabel(Refusal(RefusalCode.BORN_IN_GROUP, where))  # noqa: TRY301
    except _BadLabel as bad:
        return Wish(standing=_standing(view, originals, online), refusal=bad.refusal, warnings=warnings)
    if doubt := mismatch(view, demand):
        warnings += (doubt,)
    if demand is None:
        return Wish(standing=_standing(view, originals, online), warnings=warnings)
    if demand.near and demand.near not in (devices or {}):
        warnings += (f"cpuset.near is {demand.near!r}, and this machine has no such device{_closest(demand, devices)}",)
    return Wish(standing=Standing.MANAGED, demand=demand, warnings=warnings)


def cpu_limit(originals: Originals) -> float:
    """The CPU limit in CPUs, from nano CPUs or from quota and period; 0 where there is none."""
    if originals.nano_cpus > 0:
        return originals.nano_cpus / NANO
    if originals.cpu_quota > 0:
        return originals.cpu_quota / (originals.cpu_period or 100_000)
    return 0.0


def projection_name(view: ContainerView, settings: Settings) -> str | None:
    """The name of its directory below `by-name`, from its label or its mounts; None where it has none."""
    name = view.labels.get("cpuset.projection", "")
    if _NAME.fullmatch(name):
        return name
    root = f"{settings.projections.rstrip('/')}/by-name/"
    for mount in view.mounts:
        for path, start in ((mount.source, root), (mount.subpath.lstrip("/"), "by-name/")):
            if path.startswith(start) and _NAME.fullmatch(path[len(start) :]):
                return path[len(start) :]
    return None


def is_single_file_mount(view: ContainerView, settings: Settings) -> bool:
    """Whether it mounts one projected file instead of a directory, which stays stale for ever."""
    root = settings.projections.rstrip("/") + "/"
    return any(m.source.startswith(root) and m.source.endswith(("/cpuset", "/status.json")) for m in view.mounts)


def _standing(view: ContainerView, originals: Originals, online: CPUSet) -> Standing:
    if originals.cpuset:
        return Standing.STRANGER
    # One with CPUs of its own has what these and the group have in common: it must be written like anybody else.
    is_free = not view.cpuset or online <= cpus_of(view.cpuset, online)
    return Standing.MEMBER if view.in_shared_group and is_free else Standing.MANAGED


def _demand(view: ContainerView, settings: Settings, originals: Originals) -> Demand | None:
    labels = view.labels
    text = labels.get("cpuset.exclusive")
    if text is None or text.strip().lower() in ("", "false", "no", "off", "0"):
        guaranteed = settings.opt_in is OptIn.GUARANTEED and text is None and _is_guaranteed(view, originals)
        if not guaranteed:
            return None
        cpus = round(cpu_limit(originals))
    else:
        cpus = _whole(text.strip(), cpu_limit(originals))
    if originals.cpuset:
        _check_pin(originals.cpuset, cpus)
    elastic = elasticity(labels, cpus)
    if elastic.problem:
        raise _bad(RefusalCode.BAD_LABEL, elastic.problem)
    return Demand(
        container=view.id,
        name=view.name,
        cpus=cpus,
        shortage=_choice(labels, "cpuset.on-shortage", Shortage, settings.shortage),
        quota=_choice(labels, "cpuset.quota", QuotaRule, QuotaRule.LIFT),
        options=_options(labels),
        numa=_numa(labels),
        near=labels.get("cpuset.near", "").strip()[:_DEVICE_LENGTH],
        mems=_choice(labels, MEMS_LABEL, MemsRule, MemsRule.KEEP),
        min_cpus=elastic.least,
        max_cpus=elastic.most,
        scale=_choice(labels, "cpuset.scale", Scale, Scale.FILL),
        weight=elastic.weight,
        grace_seconds=elastic.grace_seconds,
        signal=elastic.signal,
        move=elastic.move,
    )


def _whole(text: str, limit: float) -> int:
    """The number of CPUs that a `cpuset.exclusive` label asks for."""
    if text.lower() in ("true", "yes", "on"):
        if limit <= 0:
            reason = f"cpuset.exclusive is {text!r}, but no CPU limit says how many: set cpus, or give the number"
            raise _bad(RefusalCode.CONTRADICTION, reason)
        if limit != int(limit):
            reason = f"a limit of {limit:g} CPUs is a fraction: only whole CPUs can be exclusive, at least 1"
            raise _bad(RefusalCode.NOT_WHOLE, reason)
        return int(limit)
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and int(text)):
        reason = f"cpuset.exclusive is {text[:40]!r}: write a whole number of CPUs, or true to take it from the limit"
        code = RefusalCode.NOT_WHOLE if re.fullmatch(r"\d+\.\d+", text[:40]) else RefusalCode.BAD_LABEL
        raise _bad(code, reason)
    if limit and limit != int(text):
        reason = (
            f"cpuset.exclusive asks for {text} CPUs, but the limit is {limit:g}: make them equal, or drop the limit"
        )
        raise _bad(RefusalCode.CONTRADICTION, reason)
    return int(text)


def _check_pin(cpuset: str, cpus: int) -> None:
    if len(cpus_of(cpuset, EMPTY)) != cpus:
        reason = f"it asks for {cpus} exclusive CPUs and is pinned by hand to {cpuset[:40]}: drop one of the two"
        raise _bad(RefusalCode.CONTRADICTION, reason)


def _is_guaranteed(view: ContainerView, originals: Originals) -> bool:
    """The kubelet's Guaranteed: CPU and memory limits, equal to the requests, and a whole number of CPUs."""
    limit = cpu_limit(originals)
    return limit >= 1 and limit == int(limit) and view.memory > 0 and view.memory_reservation in (0, view.memory)


def _options(labels: Mapping[str, str]) -> tuple[str, ...] | None:
    text = labels.get("cpuset.options")
    if text is None:
        return None
    wanted = tuple(sorted({part.strip() for part in text.split(",")} - {""}))
    for option in wanted:
        if option not in CONTAINER_OPTIONS:
            reason = f"cpuset.options has {option[:40]!r}{nearest(option, CONTAINER_OPTIONS)}"
            raise _bad(RefusalCode.BAD_LABEL, reason)
    if refusal := conflict(wanted, "cpuset.options"):
        raise _BadLabel(refusal)
    return wanted


def numa_rule(text: str) -> NumaRule | None:
    """The rule of this name, ours or the kubelet's; None for any other word."""
    word = text.strip().lower()
    return NumaRule.SINGLE if word == "single-numa-node" else next((each for each in NumaRule if each == word), None)


def _numa(labels: Mapping[str, str]) -> NumaRule | None:
    text = labels.get("cpuset.numa")
    if text is None:
        return None
    rule = numa_rule(text)
    if rule is None:
        words = tuple(each.value for each in NumaRule)
        raise _bad(RefusalCode.BAD_LABEL, f"cpuset.numa is {text[:40]!r}{nearest(text, words)}")
    return rule


def _closest(demand: Demand, devices: Mapping[str, CPUSet] | None) -> str:
    close = difflib.get_close_matches(demand.near, sorted(devices or {}), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _choice(labels: Mapping[str, str], label: str, kind: type[C], default: C) -> C:
    text = labels.get(label)
    if text is None:
        return default
    try:
        return kind(text.strip().lower())
    except ValueError:
        words = [each.value for each in kind]
        raise _bad(RefusalCode.BAD_LABEL, f"{label} is {text[:40]!r}: one of {', '.join(words)}") from None


def _warnings(labels: Mapping[str, str], settings: Settings) -> list[str]:
    found = []
    for label in sorted(labels):
        if label in DYNAMIC_LABELS and settings.policy is not PolicyName.DYNAMIC:
            found.append(f"the label {label} has no effect under the policy {settings.policy}")
        elif label.startswith(PREFIX) and label not in LABELS:
            found.append(f"unknown label {label[:60]!r}{_nearest_label(label)}")
    name = labels.get("cpuset.projection")
    if name is not None and not _NAME.fullmatch(name):
        found.append(f"cpuset.projection is {name[:40]!r}: use letters, digits, _ . - and at most 64 of them")
    manage = labels.get("cpuset.manage")
    if manage not in (None, "off", "on"):
        found.append(f"cpuset.manage is {str(manage)[:40]!r}: the only word it knows is off")
    return found


def _is_unmanaged(view: ContainerView, settings: Settings) -> bool:
    for pattern in settings.unmanaged:
        label, equals, value = pattern.partition("=")
        if equals:
            if label in view.labels and fnmatchcase(view.labels[label], value):
                return True
        elif fnmatchcase(view.name, pattern):
            return True
    return False


def label_keys(patterns: tuple[str, ...]) -> frozenset[str]:
    """The labels that `label=value` patterns of the configuration speak of."""
    return frozenset(pattern.partition("=")[0] for pattern in patterns if "=" in pattern)


def nearest(word: str, words: tuple[str, ...]) -> str:
    """`; did you mean "x"?`, or the list of what there is."""
    close = difflib.get_close_matches(word, words, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there is {', '.join(words)}"


def _nearest_label(label: str) -> str:
    """The same for a label, whose prefix is like that of all others and says nothing."""
    words = tuple(known.removeprefix(PREFIX) for known in LABELS)
    close = difflib.get_close_matches(label.removeprefix(PREFIX), words, n=1)
    return f"; did you mean {PREFIX + close[0]!r}?" if close else f"; there is {', '.join(LABELS)}"


def cpus_of(cpuset: str, without: CPUSet) -> CPUSet:
    """An engine's cpuset text as a set; `without` where it says nothing, or nothing that can be understood."""
    try:
        return CPUSet.parse(cpuset) or without
    except CPUSetError:
        return without


def is_group(view: ContainerView) -> bool:
    """Whether this is the cgroup that confines the shared pool, and no container."""
    return view.id == shared_id(view.name)


def originals_of(view: ContainerView) -> Originals:
    """A container's settings as they are now: its originals, if the sidecar never changed it. The group that confines
    the shared pool is the sidecar's own: whatever it has is of an earlier sidecar.
    """
    return Originals(
        cpuset="" if is_group(view) else view.cpuset,
        mems=view.mems,
        nano_cpus=view.nano_cpus,
        cpu_quota=view.cpu_quota,
        cpu_period=view.cpu_period,
    )
