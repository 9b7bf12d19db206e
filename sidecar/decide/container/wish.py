"""From labels and limits to a Wish: what a container is to the sidecar, what it asks for, and the mistakes in that.

As in the kubelet, a container gets a whole number of exclusive CPUs, at least one. It asks by label
(`cpuset.exclusive`) or, with `opt_in = guaranteed`, by its limits: a whole-number CPU limit, and a memory limit that
equals the reservation or has none. An invalid label keeps no container from starting but one whose runtime asks first:
the container stays in the shared pool, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from sidecar.decide.container.container import Standing, Wish
from sidecar.decide.container.labels import (
    EXEC,
    FROM_LIMIT,
    ROWS,
    SIZED,
    Labels,
    Values,
    mistake,
    read_labels,
    unheeded,
)
from sidecar.decide.container.originals import cpu_limit
from sidecar.decide.container.place import cpus_of
from sidecar.decide.container.pods import FOR, addressed, confinement
from sidecar.decide.container.role import role_of
from sidecar.decide.container.rules import ruled
from sidecar.decide.container.start import is_strict_runtime
from sidecar.decide.container.swarm_task import mismatch
from sidecar.decide.container.tenant_rights import MANAGE, as_allowed
from sidecar.decide.container.terms import own_or
from sidecar.decide.facts import ContainerView, ViewKind
from sidecar.decide.placement.options import ALIGN_BY_SOCKET
from sidecar.decide.settings import OptIn, PolicyName, Settings, TenantRight
from sidecar.readers import closest, kept
from sidecar.systemd_names import exclusive_beside, is_inside_a_container
from state.cpuset import EMPTY, CPUSet
from state.demand import Demand, NumaRule, QuotaRule
from state.mistakes import (
    AnyFlaw,
    BornInGroup,
    Clashes,
    CountOrTrue,
    Cut,
    Flaw,
    FractionalLimit,
    InPod,
    InsideAnother,
    Mistake,
    NoCgroup,
    NoEffect,
    NoLimit,
    NoSuchDevice,
    OfPod,
    OtherLimit,
    OtherPin,
    PodThrottles,
    UnknownLabel,
)
from state.model import Originals
from state.refusal import Mistakes, Refusal, RefusalCode

_AS_RECREATED: Final = re.compile(r"^[0-9a-f]{12}_")
"""What compose puts before a container's name until the one that it replaces is removed."""

_COUNT: Final = "cpuset.exclusive"
_PARENT: Final = "cgroup_parent"
_CGROUPS: Final = "cgroups"
_OPTIONS: Final = "cpuset.options"
_NUMA: Final = "cpuset.numa"
_NEAR: Final = "cpuset.near"
_GRACE: Final = "cpuset.grace"
_LONGEST_NOTICE: Final = "tenants_longest_notice"


def wish_of(
    view: ContainerView,
    settings: Settings,
    originals: Originals,
    online: CPUSet,
    devices: Mapping[str, CPUSet] | None = None,
    *,
    is_placed: bool = False,
) -> Wish:
    """Return what this container is and asks for. `originals` are its settings before the sidecar first changed them;
    `devices` are the machine's devices, with their local CPUs. `is_placed`: the sidecar has placed it before.

    A container has the labels of its rule in the configuration as well as its own (`rules`), but for those of its own
    that tenants may not use (`tenant_rights`), or that are for another container of its pod (`pods`). The container
    that holds a pod together (`is_infra`) sleeps, and asks for nothing, whatever its labels and limits.

    1. The shared group is the sidecar's own, and has no labels.
    2. A cpuset of all CPUs is no pin: engines cannot clear a cpuset, so a pin is removed by writing all CPUs. The
       cpuset of a pod is one for each container in it.
    3. The other labels of an unmanaged container are not read. One that was placed before leaves management only while
       it rests: as long as it runs it is in the shared pool, whatever it is called now.
    4. The number of CPUs is determined first, because the bounds depend on it.
    5. A container with a mistake that prevents a grant is refused, with all its mistakes at once.
    6. One whose runtime asks before it starts is refused for any label that is unknown or has an invalid value, also
       where it asks for no CPUs: what it was to ask for is not known. One that runs was started before, and stays.
    7. One whose cgroup parent is another container, or that has no cgroup of its own, runs where others do, and cannot
       be placed: no order reaches it, and it starts only where nothing is asked. It counts where it is seen, so no
       other one is called alone there.
    """
    own = addressed(view)
    view, rule = ruled(own, settings.rules)
    view, denied = as_allowed(own, view, settings, originals)
    if denied and view.kind is not ViewKind.UNIT:
        view, rule = ruled(view, settings.rules)
    made = _wish(view, settings, originals, online, devices, is_placed=is_placed)
    is_by_owner = view.kind is ViewKind.UNIT or is_unmanaged(view, settings) or not _opts_out(own, denied)
    if made.is_kept_out and is_by_owner:
        made = msgspec.structs.replace(made, is_kept_out_by_owner=True)
    if EXEC in view.labels and not isinstance(where := ROWS[EXEC].read(view.labels[EXEC]), Flaw):
        made = msgspec.structs.replace(made, exec=where)
    if not rule and not denied:
        return made
    return msgspec.structs.replace(made, rule=rule, warnings=(*made.warnings, *denied))


def _wish(
    view: ContainerView,
    settings: Settings,
    originals: Originals,
    online: CPUSet,
    devices: Mapping[str, CPUSet] | None,
    *,
    is_placed: bool,
) -> Wish:
    """Return the same from labels that are complete. The numbers are those of `wish_of`."""
    # 1. The shared group.
    if view.kind is ViewKind.GROUP:
        return Wish(standing=Standing.MANAGED)
    # 2. No pin.
    if originals.cpuset and online <= cpus_of(originals.cpuset, online):
        originals = msgspec.structs.replace(originals, cpuset="")
    if (within := confinement(view, online)) != online:
        own = cpus_of(originals.cpuset, within) & within or within
        originals = msgspec.structs.replace(originals, cpuset=str(own))
    if nowhere := _without_a_place(view):
        # 7. No place of its own.
        refusal = Refusal(RefusalCode.CONTRADICTION, Mistakes((nowhere,)))
        return Wish(standing=Standing.UNMANAGED, refusal=refusal)
    labels = read_labels(view.labels)
    # 3. Unmanaged.
    if not labels.values.manage or is_unmanaged(view, settings):
        if is_placed and view.phase.is_live:
            pin = cpus_of(originals.cpuset, EMPTY)
            return Wish(standing=_unpinned(view, online), is_kept_out=True, pin=pin)
        return Wish(standing=Standing.STRANGER if originals.cpuset else Standing.UNMANAGED, is_kept_out=True)
    # 4. How many.
    count = _count(view, settings, originals, labels)
    size = _size(count, labels)
    if size and not SIZED.isdisjoint(view.labels):
        labels = read_labels(view.labels, size)
    standing, mems = _standing(view, settings, originals, online), labels.values.mems
    pin = EMPTY if standing is Standing.STRANGER else cpus_of(originals.cpuset, EMPTY)
    without_effect = unheeded(view.labels, settings.policy)
    invalid = (*labels.harmless, *_missing(labels.values.near, devices or {}))
    warnings = (*without_effect, *invalid)
    if is_strict_runtime(view.runtime) and not view.phase.is_live:
        # 6. Nothing that cannot be read.
        unknown = tuple(each for each in without_effect if isinstance(each.flaw, UnknownLabel))
        if unread := (*unknown, *invalid, *(labels.refusing if unknown or invalid or count == 0 else ())):
            others = _but_those_of(unread, warnings)
            refusal = Refusal(RefusalCode.BAD_LABEL, Mistakes(unread))
            return Wish(standing=standing, mems=mems, warnings=others, refusal=refusal, pin=pin)
    if count == 0:
        # Mistakes that would refuse a demand are warnings here: they prevent nothing, but the labels were not meant so.
        warnings = _warned(warnings, *labels.refusing, mismatch(view, 0), _of_pod(view))
        return Wish(standing=standing, mems=mems, warnings=warnings, pin=pin)
    # 5. Refused.
    mistakes = tuple(_mistakes(view, settings, originals, labels, count))
    if mistakes or isinstance(count, Mistake):
        refusal = Refusal(_code_of(mistakes[0]), Mistakes(mistakes))
        warnings = _but_those_of(mistakes, warnings)
        return Wish(standing=standing, mems=mems, warnings=warnings, refusal=refusal, pin=pin)
    demand = _demand(view, settings, labels.values, count)
    warnings = _warned(warnings, mismatch(view, count), _cut_notice(view, settings, labels.values))
    return Wish(standing=Standing.MANAGED, demand=demand, mems=mems, warnings=warnings)


def label_keys(patterns: tuple[str, ...]) -> frozenset[str]:
    """Return the labels named in `label=value` patterns of the configuration."""
    return frozenset(pattern.partition("=")[0] for pattern in patterns if "=" in pattern)


def is_unmanaged(view: ContainerView, settings: Settings) -> bool:
    """Return whether the configuration leaves this container alone, by its name or a label. Units that are left alone
    are not looked at.
    """
    if view.kind is ViewKind.UNIT:
        return False
    for pattern in settings.unmanaged:
        label, equals, value = pattern.partition("=")
        if equals:
            if label in view.labels and fnmatchcase(view.labels[label], value):
                return True
        elif fnmatchcase(_AS_RECREATED.sub("", view.name), pattern):
            return True
    return False


def _standing(view: ContainerView, settings: Settings, originals: Originals, online: CPUSet) -> Standing:
    """Return what it is without exclusive CPUs."""
    if originals.cpuset and (TenantRight.PIN in settings.may or view.kind is ViewKind.UNIT):
        return Standing.STRANGER
    return _unpinned(view, online)


def _opts_out(own: ContainerView, denied: tuple[Mistake, ...]) -> bool:
    """Return whether a label of its own keeps a container out, and may: if not, a rule's does."""
    return MANAGE in own.labels and all(each.label != MANAGE for each in denied)


def _unpinned(view: ContainerView, online: CPUSet) -> Standing:
    """Return what it is without exclusive CPUs, if it has no pin that counts."""
    # The kernel confines a member with its own cpuset to what that and the group share: it must be updated like others.
    is_free = not view.cpuset or online <= cpus_of(view.cpuset, online)
    return Standing.MEMBER if view.in_shared_group and is_free else Standing.MANAGED


def _without_a_place(view: ContainerView) -> Mistake | None:
    """Return why a container has no cgroup in which it can be placed; None if it has one."""
    if view.has_no_cgroup:
        return mistake(_CGROUPS, "disabled", NoCgroup())
    if is_inside_a_container(view.cgroup_parent, view.pod):
        return mistake(_PARENT, view.cgroup_parent, InsideAnother())
    return None


def _count(view: ContainerView, settings: Settings, originals: Originals, labels: Labels) -> int | Mistake:
    """Return how many CPUs it asks for, 0 for none; or the mistake in that number."""
    if view.is_infra:
        return 0
    if unread := [each for each in labels.mistakes if each.label == _COUNT]:
        return unread[0]
    asked, limit = labels.values.exclusive, cpu_limit(originals)
    flaw: AnyFlaw
    if asked is None:
        return round(limit) if settings.opt_in is OptIn.GUARANTEED and _is_guaranteed(view, limit) else 0
    if asked == FROM_LIMIT:
        if limit > 0 and limit == int(limit):
            return int(limit)
        flaw = FractionalLimit(limit) if limit > 0 else NoLimit()
    elif asked and limit and limit != asked:
        flaw = OtherLimit(limit)
    else:
        return asked
    return mistake(_COUNT, view.labels[_COUNT].strip(), flaw)


def _size(count: int | Mistake, labels: Labels) -> int:
    """Return the number against which its bounds and its pin are checked: the number asked for, even if refused; 0 if
    unknown.
    """
    if isinstance(count, int):
        return count
    asked = labels.values.exclusive
    return asked if isinstance(asked, int) else 0


def _is_guaranteed(view: ContainerView, limit: float) -> bool:
    """Return whether it is Guaranteed as in the kubelet: limits of CPU and memory equal the requests, in whole CPUs."""
    return limit >= 1 and limit == int(limit) and view.memory > 0 and view.memory_reservation in (0, view.memory)


def _mistakes(
    view: ContainerView, settings: Settings, originals: Originals, labels: Labels, count: int | Mistake
) -> Iterator[Mistake]:
    """Yield each mistake that prevents a grant: first in the count, then in the other labels, then in its cgroup."""
    if isinstance(count, Mistake):
        yield count
    size = _size(count, labels)
    if view.pod_cpuset:
        yield Mistake(_COUNT, str(size), InPod(kept(view.pod_cpuset)))
    elif size and originals.cpuset and len(cpus_of(originals.cpuset, EMPTY)) != size:
        yield Mistake(_COUNT, str(size), OtherPin(size, kept(originals.cpuset)))
    if view.pod_limit and labels.values.quota is QuotaRule.LIFT:
        yield Mistake(_COUNT, str(size), PodThrottles(view.pod_limit))
    yield from (each for each in labels.refusing if each.label != _COUNT)
    yield from _unplaceable(view, settings, labels)
    if view.in_shared_group:
        shared = settings.shared_slice
        yield Mistake(_COUNT, str(labels.values.exclusive or count), BornInGroup(shared, exclusive_beside(shared)))


def _unplaceable(view: ContainerView, settings: Settings, labels: Labels) -> Iterator[Mistake]:
    """Its options and its NUMA rule, where they exclude each other on every machine. Nothing if one is unread."""
    given = [name for name in (_OPTIONS, _NUMA) if name in view.labels]
    if not given or any(each.label in given for each in labels.mistakes):
        return
    options, numa = own_or(labels.values.options, settings.options), own_or(labels.values.numa, settings.numa)
    if ALIGN_BY_SOCKET in options and numa is NumaRule.SINGLE:
        yield mistake(given[0], view.labels[given[0]], Clashes(((ALIGN_BY_SOCKET, numa.value),)))


def _code_of(mistake: Mistake) -> RefusalCode:
    match mistake.flaw:
        case FractionalLimit() | CountOrTrue(is_fraction=True):
            return RefusalCode.NOT_WHOLE
        case NoLimit() | OtherLimit() | OtherPin() | InPod() | PodThrottles() | Clashes():
            return RefusalCode.CONTRADICTION
        case BornInGroup():
            return RefusalCode.BORN_IN_GROUP
        case _:
            return RefusalCode.BAD_LABEL


def _demand(view: ContainerView, settings: Settings, said: Values, count: int) -> Demand:
    return Demand(
        container=view.key,
        name=view.name,
        cpus=count,
        shortage=own_or(said.on_shortage, settings.shortage),
        quota=said.quota,
        options=said.options,
        numa=said.numa,
        near=said.near,
        mems=said.mems,
        min_cpus=said.min,
        max_cpus=said.max,
        scale=said.scale,
        weight=said.weight,
        grace_seconds=said.grace,
        signal=said.signal,
        move=said.move,
        priority=said.priority,
        role=role_of(view),
    )


def _cut_notice(view: ContainerView, settings: Settings, said: Values) -> Mistake | None:
    """Return the mistake of asking for a longer notice than the owner of the host gives; None if it is not cut."""
    most = settings.longest_notice_seconds
    if settings.policy is not PolicyName.DYNAMIC or said.grace is None or said.grace <= most:
        return None
    return mistake(_GRACE, view.labels[_GRACE], Cut(most, _LONGEST_NOTICE))


def _missing(near: str, devices: Mapping[str, CPUSet]) -> Iterator[Mistake]:
    """Yield the mistake of naming a device, in `cpuset.near`, that the machine does not have."""
    if near and near not in devices:
        yield mistake(_NEAR, near, NoSuchDevice(closest(near, devices)))


def _of_pod(view: ContainerView) -> Mistake | None:
    """Return the mistake of giving a pod a label that asks for CPUs, without the container that it is for."""
    is_lost = view.is_infra and FOR not in view.labels and _COUNT in view.labels
    return mistake(_COUNT, view.labels[_COUNT], OfPod()) if is_lost else None


def _but_those_of(mistakes: tuple[Mistake, ...], warnings: tuple[Mistake, ...]) -> tuple[Mistake, ...]:
    """Return the warnings that are none of these mistakes. A label that refuses has an effect under each policy."""
    wrong = {each.label for each in mistakes}
    others = (each for each in warnings if each not in mistakes)
    return tuple(each for each in others if each.label not in wrong or not isinstance(each.flaw, NoEffect))


def _warned(warnings: tuple[Mistake, ...], *more: Mistake | None) -> tuple[Mistake, ...]:
    return (*warnings, *(each for each in more if each))
