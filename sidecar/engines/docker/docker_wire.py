"""Engine JSON to our structs, and back: lenient about all unneeded parts, bounded in all kept parts.

Pure. An engine's answer may contain anything that a user who creates containers has put there: labels of 40 MB, names
that are no names, phases of a later version. None of that may stop the sidecar, so unknown fields are skipped, unknown
phases fall back on the engine's flags, and every text that is kept has a length limit.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from sidecar.decide.container import labels as container_labels
from sidecar.decide.container import role, swarm_task
from sidecar.decide.container.mounts import may_show_projection
from sidecar.decide.facts import ContainerView, Mount, Phase
from sidecar.decide.orders import Update
from sidecar.engines.answer_errors import shown
from sidecar.engines.cut_text import cut
from sidecar.engines.docker.docker_signals import SideEffect, side_effect
from sidecar.engines.int64 import Int64
from sidecar.failures import EngineFailed, EngineLacks
from sidecar.ports import EngineEvent
from sidecar.systemd_names import cleaned_parent
from state.codec import UNREADABLE

T = TypeVar("T")

WATCHED_ACTIONS: Final = (
    "create",
    "start",
    "restart",
    "die",
    "stop",
    "pause",
    "unpause",
    "update",
    "rename",
    "destroy",
    "remove",  # Podman's word for destroy
)
"""The requested events: all that may change a container's CPUs, name or phase, without exec and health noise."""

_LABELS: Final = frozenset((*role.LABELS, *swarm_task.LABELS))
_OUR_LABELS: Final = "cpuset."
_MOST_COMPARED: Final = 64
_LIKE_OURS: Final = re.compile(r"[cC].?[pPsS]")
_LABEL_LENGTH: Final = 256
"""Characters of a label's key and value that are kept: no meaningful one is longer."""
_MOST_LABELS: Final = 256
"""Labels kept of those that are known: more than there are, with a name of a container for each."""
_ODD_LABELS: Final = 8
"""Labels kept that are none of ours, but like one, in alphabetical order: people are warned of them."""
NAME_LENGTH: Final = 256
STAMP_LENGTH: Final = 64
_NO_START: Final = "0001-01-01T00:00:00Z"
"""Go's zero time, which Docker and Podman report as the start of a container that was never started."""
PATH_LENGTH: Final = 4096
"""PATH_MAX; a longer text is no path, and cutting it would make another path."""
MOUNT_COUNT: Final = 8
"""Mounts kept, of those that may show a projection."""
MOUNT_LENGTH: Final = 1024
"""Characters of a mount's source and subpath: a longer one is passed over, because cut it would be another path."""

_SET_ASIDE: Final = re.compile(rb'"DOCKER_RESOURCE_%s=(\d{1,5})"' % swarm_task.KIND.upper().encode())
_WANTED: Final = frozenset(
    ("Id", "Name", "Created", "State", "HostConfig", "Config", "Mounts", "OCIRuntime", "IsInfra")  # of _Container
)
_ID: Final = re.compile(r"[0-9a-f]{64}")
_NUMBER_AT_END: Final = re.compile(rb'"timeNano":(\d{1,19})\}?\s*$')
_ACTION_IN_HEAD: Final = re.compile(rb'"Action":"([a-z_]{1,32})","Actor":\{"ID":"([0-9a-f]{64})"')


class _Actor(msgspec.Struct):
    id: str | None = msgspec.field(name="ID", default=None)


class _Event(msgspec.Struct):
    type: str | None = msgspec.field(name="Type", default=None)
    action: str | None = msgspec.field(name="Action", default=None)
    actor: _Actor | None = msgspec.field(name="Actor", default=None)
    legacy_id: str | None = msgspec.field(name="id", default=None)
    legacy_status: str | None = msgspec.field(name="status", default=None)
    time_nano: Int64 | None = msgspec.field(name="timeNano", default=None)


class _Listed(msgspec.Struct, rename="pascal"):
    id: str = ""
    state: str | None = None


class _State(msgspec.Struct, rename="pascal"):
    status: str | None = None
    running: bool | None = None
    paused: bool | None = None
    restarting: bool | None = None
    dead: bool | None = None
    pid: Int64 | None = None
    started_at: str | None = None
    cgroup_path: str | None = None


class _VolumeOptions(msgspec.Struct, rename="pascal"):
    subpath: str | None = None


class _WantedMount(msgspec.Struct, rename="pascal"):
    target: str | None = None
    volume_options: _VolumeOptions | None = None


class _Mount(msgspec.Struct, rename="pascal"):
    type: str | None = None
    name: str | None = None
    source: str | None = None
    destination: str | None = None


class _RestartPolicy(msgspec.Struct, rename="pascal"):
    name: str | None = None


class _HostConfig(msgspec.Struct, rename="pascal"):
    cpuset_cpus: str | None = None
    cpuset_mems: str | None = None
    nano_cpus: Int64 | None = None
    cpu_quota: Int64 | None = None
    cpu_period: Int64 | None = None
    memory: Int64 | None = None
    memory_reservation: Int64 | None = None
    cgroup_parent: str | None = None
    mounts: list[_WantedMount] | None = None
    restart_policy: _RestartPolicy | None = None
    runtime: str | None = None


class _Config(msgspec.Struct, rename="pascal"):
    labels: dict[str, msgspec.Raw] | None = None
    """Values stay raw, views into the answer, until one is needed: a label of 40 MB is not copied."""
    image: str | None = None
    stop_signal: str | int | None = None
    env: list[msgspec.Raw] | None = None
    """Raw as well, and read only for tasks of Swarm."""


class _Container(msgspec.Struct, rename="pascal"):
    id: str
    name: str | None = None
    created: str | None = None
    state: _State = msgspec.field(default_factory=_State)
    host_config: _HostConfig = msgspec.field(default_factory=_HostConfig)
    config: _Config = msgspec.field(default_factory=_Config)
    mounts: list[_Mount] | None = None
    oci_runtime: str | None = msgspec.field(name="OCIRuntime", default=None)
    """Podman's; its HostConfig.Runtime is always `oci`."""
    is_infra: bool | None = None
    """Podman's as well: whether it only holds a pod together."""


class _Updated(msgspec.Struct, rename="pascal"):
    warnings: list[str] | None = None


def event_of(event: bytes | Mapping[str, Any], actions: Container[str] = WATCHED_ACTIONS) -> EngineEvent | None:
    """Return one event, from a line of the stream or from JSON values; None for junk and for irrelevant events.

    API 1.52 dropped the old `id` and `status`: `Actor.ID` and `Action` come first here.
    """
    try:
        read = msgspec.json.decode(event, type=_Event) if isinstance(event, bytes) else msgspec.convert(event, _Event)
    except UNREADABLE:
        return None
    if read.type is not None and read.type != "container":
        return None
    container = (read.actor.id if read.actor else None) or read.legacy_id or ""
    action = read.action or read.legacy_status or ""
    return _event(container, action, read.time_nano or 0, actions)


def torn_event_of(head: bytes, tail: bytes, actions: Container[str] = WATCHED_ACTIONS) -> EngineEvent | None:
    """Return an event too long to keep, from its beginning and its end; None if they do not suffice.

    Engines write the action and the id before the labels, and the time after them. Text of a user cannot imitate the
    pattern in the head: its quotation marks are escaped.
    """
    found = _ACTION_IN_HEAD.search(head)
    if found is None or b'"Type":"container"' not in head:
        return None
    stamp = _NUMBER_AT_END.search(tail)
    return _event(found[2].decode(), found[1].decode(), int(stamp[1]) if stamp else 0, actions)


def _event(container: str, action: str, time_nano: int, actions: Container[str]) -> EngineEvent | None:
    if action not in actions or not _ID.fullmatch(container):
        return None
    return EngineEvent(container=container, action=action, time_nano=time_nano)


def ids_of(body: bytes | bytearray) -> tuple[str, ...]:
    """Return the ids in an answer of the list route, in its order."""
    return listed_in(body)[0]


def listed_in(body: bytes | bytearray) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the ids in an answer of the list route, in its order, and those of them that have never run."""
    listed = [each for each in decoded(body, list[_Listed]) if _ID.fullmatch(each.id)]
    return tuple(each.id for each in listed), frozenset(each.id for each in listed if each.state == Phase.CREATED)


def is_wanted(path: tuple[str, ...]) -> bool:
    """Return whether this member of an inspect route's answer is read here."""
    return path[0] in _WANTED


def side_effect_of(body: bytes | bytearray, signal: str) -> SideEffect | None:
    """Return what this signal would do in addition to being delivered, to the container that the inspect route
    describes.
    """
    read = decoded(body, _Container)
    return side_effect(
        signal,
        stop_signal=str(read.config.stop_signal or ""),
        restarts=_restarts(read),
        is_paused=bool(read.state.paused),
    )


def has_restart_policy(body: bytes | bytearray) -> bool:
    """Return whether the engine restarts the container when it ends, from the answer of the inspect route."""
    return _restarts(decoded(body, _Container))


def _restarts(read: _Container) -> bool:
    policy = read.host_config.restart_policy
    return bool(policy and policy.name not in (None, "", "no"))


def view_of(body: bytes | bytearray, keep: frozenset[str] = frozenset()) -> ContainerView:
    """Return the engine's view of a container, from an inspect route's answer. Raise EngineFailed if it is none."""
    read = decoded(body, _Container)
    if not _ID.fullmatch(read.id):
        raise EngineFailed(f"the engine describes a container whose id is {shown(read.id)}")
    limits, state = read.host_config, read.state
    return ContainerView(
        id=read.id,
        name=cut((read.name or "").removeprefix("/"), NAME_LENGTH),
        phase=_phase(state),
        labels=labels(read.config.labels or {}, keep),
        cpuset=(limits.cpuset_cpus or "")[:PATH_LENGTH],
        mems=(limits.cpuset_mems or "")[:PATH_LENGTH],
        nano_cpus=limits.nano_cpus or 0,
        cpu_quota=limits.cpu_quota or 0,
        cpu_period=limits.cpu_period or 0,
        memory=limits.memory or 0,
        memory_reservation=limits.memory_reservation or 0,
        pid=state.pid or 0,
        cgroup_parent=cleaned_parent(limits.cgroup_parent or "")[:PATH_LENGTH],
        cgroup=(state.cgroup_path or "")[:PATH_LENGTH],
        runtime=(read.oci_runtime or limits.runtime or "")[:PATH_LENGTH],
        created_at=(read.created or "")[:STAMP_LENGTH],
        started_at="" if state.started_at == _NO_START else (state.started_at or "")[:STAMP_LENGTH],
        image=cut(read.config.image or "", NAME_LENGTH),
        is_infra=bool(read.is_infra),
        mounts=kept_mounts(_mounts(read)),
        set_aside=_set_aside(read.config),
    )


def update_body(update: Update) -> bytes:
    """Return the body of the update route: only the given fields, so that the engine keeps the others."""
    body: dict[str, str | int] = {"CpusetCpus": str(update.cpus)}
    if update.mems is not None:
        body["CpusetMems"] = update.mems
    if update.nano_cpus is not None:
        body["NanoCpus"] = update.nano_cpus
    if update.cpu_quota is not None:
        body["CpuQuota"] = update.cpu_quota
    return msgspec.json.encode(body)


def check_updated(body: bytes | bytearray) -> None:
    """Raise EngineLacks if an update was dropped: 200 with a warning, if the cpuset controller is missing."""
    if not body.strip():
        return
    for warning in decoded(body, _Updated).warnings or []:
        if "cpuset" in warning.lower():
            raise EngineLacks(
                f"the engine accepted the update and dropped it ({shown(warning)}): delegate the cpuset controller"
            )


def _phase(state: _State) -> Phase:
    known = _PHASES.get(state.status or "")
    if known is not None:
        return known
    if state.paused:
        return Phase.PAUSED
    if state.restarting:
        return Phase.RESTARTING
    if state.running or state.pid:
        return Phase.RUNNING
    return Phase.DEAD if state.dead else Phase.EXITED


_PHASES: Final = {
    **{phase.value: phase for phase in Phase},
    "configured": Phase.CREATED,  # this and the next three are Podman's
    "initialized": Phase.CREATED,
    "stopping": Phase.RUNNING,
    "stopped": Phase.EXITED,
}


def labels(values: Mapping[str, msgspec.Raw], keep: frozenset[str]) -> dict[str, str]:
    """Return the relevant labels of a container, cut to a bounded length."""
    # Names like ours, for a warning; only some, since a comparison takes long.
    rows = container_labels.ROWS
    known = sorted(key for key in values if key.partition("/")[0] in rows or key in _LABELS or key in keep)[
        :_MOST_LABELS
    ]
    alike = sorted(key for key in values.keys() - set(known) if _LIKE_OURS.match(key))[:_MOST_COMPARED]
    odd = [key for key in alike if key.startswith(_OUR_LABELS) or container_labels.meant(key)][:_ODD_LABELS]
    return {cut(key, _LABEL_LENGTH): label(values[key]) for key in sorted((*known, *odd))}


def id_in(text: str) -> str:
    """Return a text that is a full id; "" for any other."""
    return text if _ID.fullmatch(text) else ""


def _set_aside(config: _Config) -> int:
    """Return how many exclusive CPUs Swarm's scheduler counted for a task, from its environment."""
    if swarm_task.TASK_LABEL not in (config.labels or {}):
        return 0
    for raw in config.env or []:
        if found := _SET_ASIDE.fullmatch(bytes(raw)):
            return int(found[1])
    return 0


def label(raw: msgspec.Raw) -> str:
    """Return a text of bounded length; "" if it is none."""
    try:
        value = msgspec.json.decode(raw)
    except UNREADABLE:
        return ""
    return cut(value, _LABEL_LENGTH) if isinstance(value, str) else ""


def _mounts(read: _Container) -> Iterator[Mount]:
    subpaths = {
        wanted.target: wanted.volume_options.subpath
        for wanted in read.host_config.mounts or []
        if wanted.volume_options is not None and wanted.volume_options.subpath
    }
    for mount in read.mounts or []:
        source = (mount.name if mount.type == "volume" else mount.source) or ""
        yield Mount(source=source, subpath=subpaths.get(mount.destination) or "")


def kept_mounts(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """Return the first of the mounts that may show a projection."""
    relevant = (
        each
        for each in mounts
        if max(len(each.source), len(each.subpath)) <= MOUNT_LENGTH and may_show_projection(each)
    )
    return tuple(islice(relevant, MOUNT_COUNT))


def decoded(body: bytes | bytearray, wanted: type[T]) -> T:
    """Return an answer, read leniently. Raise EngineFailed if it cannot be understood."""
    try:
        return msgspec.json.decode(body, type=wanted, strict=False)
    except UNREADABLE as error:
        raise EngineFailed(f"the answer of the engine cannot be understood: {shown(str(error))}") from error
