"""Podman's own wire format (libpod): its JSON to our structs, and our updates to its JSON. Pure.

Most of it has Docker's shape, and `docker_wire` reads it; here is what differs. Measured on Podman 4.3.1 and 5.4.2.

- Podman keeps a CPU limit as a quota and a period, however it was requested, and computes nano CPUs from them. One form
 never conflicts with the other. So a view has nano CPUs only, and a lifted limit is a quota of the whole machine: a
 quota of -1 becomes one hundredth of a CPU under crun with the systemd driver.
- Its events use other words, and a `since` reads history from a file or the journal, as far back as that goes.
- An update's body is the OCI runtime's; anything else is accepted with 201, and ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from sidecar.decide.engine_traits import EngineTraits
from sidecar.decide.facts import ContainerView, EngineInfo
from sidecar.decide.orders import Update
from sidecar.engines.answer_errors import shown
from sidecar.engines.docker import docker_wire, engine_identity
from sidecar.engines.int64 import Int64
from sidecar.engines.traits_table import PODMAN, number_of, traits_of
from sidecar.failures import EngineFailed, EngineLacks
from sidecar.ports import EngineEvent
from sidecar.words.start_gaps import LOSES_UPDATES, tells_late
from state.codec import UNREADABLE

PREFIX: Final = "v4.0.0/libpod"
"""How all routes begin: 4.x and 5.x serve this one."""

OLDEST: Final = (4, 3)
"""The first version with an update route."""

NANO: Final = 1_000_000_000
_PERIOD: Final = 100_000
"""Microseconds; Podman's and the kernel's default."""

ROUNDED: Final = NANO // 100
"""Limits that differ by no more are the same, in 1e-9 CPUs: systemd keeps a quota in steps of 10 ms per second."""

WATCHED: Final = {
    "create": "create",
    "start": "start",
    "restart": "restart",
    "died": "die",
    "stop": "stop",
    "pause": "pause",
    "unpause": "unpause",
    "update": "update",
    "rename": "rename",
    "remove": "destroy",
}
"""Podman's words for what may change a container's CPUs, name or phase, and Docker's. `init` and `cleanup` do not."""

DELEGATE: Final = (
    "delegate the controllers: write `[Service]` and `Delegate=cpu cpuset io memory pids` to "
    "/etc/systemd/system/user@.service.d/delegate.conf, run `systemctl daemon-reload`, and log in again "
    "(or `systemctl restart user@UID.service`)"
)


_OURS: Final = "cpuset."
_DISABLED: Final = "disabled"
"""What a container has for `Cgroups` that runs in the cgroup of whatever starts it."""
_SERVICE: Final = b'"service"'
"""A word of the command of Podman's service, which it tells of containers that were created by the API."""
_PIN: Final = b'"--cpuset-cpus'
"""How a word of a command begins, as JSON, that pins a container."""


class PodLimits(msgspec.Struct, frozen=True):
    """The limits of a whole pod: the CPUs to which it is confined, as text, and its limit in CPUs; "" and 0: none."""

    cpuset: str = ""
    cpus: float = 0.0


class Native(msgspec.Struct, frozen=True):
    """The limits of a container as Podman keeps them: texts of CPUs and memory nodes, microseconds; 0: none."""

    cpus: str = ""
    mems: str = ""
    quota: Int64 = 0
    period: Int64 = 0

    def after(self, update: Update, ncpu: int) -> Native:
        """Return these limits after an update; `ncpu` CPUs are the whole machine."""
        period = self.period or _PERIOD
        quota = self.quota
        if update.nano_cpus is not None:
            quota = round(update.nano_cpus * period / NANO)
        elif update.cpu_quota is not None:
            quota = update.cpu_quota if update.cpu_quota > 0 else max(ncpu, 1) * period
        mems = self.mems if update.mems is None else update.mems
        return Native(cpus=str(update.cpus), mems=mems, quota=quota, period=period if quota else self.period)

    def in_force(self, limit: int | None) -> Native:
        """Return these limits with the CPU limit that the kernel enforces, in 1e-9 CPUs; None: it is not known."""
        period = self.period or _PERIOD
        if limit is None or (limit and self.quota and abs(limit - self.quota * NANO / period) <= ROUNDED):
            return self
        return msgspec.structs.replace(
            self, quota=round(limit * period / NANO), period=period if limit else self.period
        )


class _PodmanActor(msgspec.Struct):
    attributes: dict[str, msgspec.Raw] | None = msgspec.field(name="Attributes", default=None)


class _PodmanEvent(msgspec.Struct):
    actor: _PodmanActor | None = msgspec.field(name="Actor", default=None)


class _OwnConfig(msgspec.Struct, rename="pascal"):
    annotations: dict[str, msgspec.Raw] | None = None
    create_command: list[msgspec.Raw] | None = None


class _OwnHostConfig(msgspec.Struct, rename="pascal"):
    cgroups: str | None = None


class _Inspected(msgspec.Struct, rename="pascal"):
    pod: str | None = None
    config: _OwnConfig = msgspec.field(default_factory=_OwnConfig)
    host_config: _OwnHostConfig = msgspec.field(default_factory=_OwnHostConfig)


class _Pod(msgspec.Struct):
    cpuset_cpus: str | None = None
    cpu_quota: Int64 | None = None
    cpu_period: Int64 | None = None


class _Security(msgspec.Struct):
    rootless: bool | None = None


class _Host(msgspec.Struct, rename="camel"):
    cpus: Int64 | None = None
    cgroup_version: str | None = None
    cgroup_manager: str | None = None
    cgroup_controllers: list[str] | None = None
    event_logger: str | None = None
    security: _Security = msgspec.field(default_factory=_Security)


class _Store(msgspec.Struct, rename="camel"):
    graph_root: str | None = None


class _PodmanInfo(msgspec.Struct):
    host: _Host = msgspec.field(default_factory=_Host)
    store: _Store = msgspec.field(default_factory=_Store)


def is_wanted(path: tuple[str, ...]) -> bool:
    """Return whether this member of an inspect route's answer is read here, or as Docker's."""
    return path[0] == "Pod" or docker_wire.is_wanted(path)


def is_wanted_of_pod(path: tuple[str, ...]) -> bool:
    """Return whether this member of a pod's answer is read here."""
    return path[0] in ("cpuset_cpus", "cpu_quota", "cpu_period")


def completed(view: ContainerView, answer: bytes | bytearray) -> ContainerView:
    """Return a view that `docker_wire` read from this answer, with what only Podman tells.

    The sidecar's annotations count as labels: in a kube YAML a single container can have no others.
    """
    read = docker_wire.decoded(answer, _Inspected)
    ours = {key: text for key, text in (read.config.annotations or {}).items() if key.startswith(_OURS)}
    command = [bytes(word) for word in read.config.create_command or []]
    return msgspec.structs.replace(
        view,
        pod=docker_wire.id_in(read.pod or ""),
        labels={**docker_wire.labels(ours, frozenset()), **view.labels},
        has_no_cgroup=read.host_config.cgroups == _DISABLED,
        names_no_cpuset=bool(command) and not any(word == _SERVICE or word.startswith(_PIN) for word in command),
    )


def pod_limits_of(body: bytes | bytearray) -> PodLimits:
    """Return the limits in an answer of the pod's inspect route."""
    read = docker_wire.decoded(body, _Pod)
    quota = max(0, read.cpu_quota or 0)
    return PodLimits((read.cpuset_cpus or "")[: docker_wire.PATH_LENGTH], quota / max(1, read.cpu_period or _PERIOD))


def native_of(view: ContainerView) -> Native:
    """Return the limits in a view that `docker_wire` read, still in Podman's own terms."""
    return Native(cpus=view.cpuset, mems=view.mems, quota=max(0, view.cpu_quota), period=view.cpu_period)


def told(view: ContainerView, limits: Native, *, keeps_updates: bool) -> ContainerView:
    """Return a view that `docker_wire` read, with these limits, in the port's terms."""
    return msgspec.structs.replace(
        view,
        cpuset=limits.cpus,
        mems=limits.mems,
        cpu_quota=0,
        nano_cpus=round(limits.quota * NANO / (limits.period or _PERIOD)),
        forgets_updates=not keeps_updates,
    )


def stripped(view: ContainerView) -> ContainerView:
    """Return the part of a view that a glance contains: no CPUs and no limits."""
    return msgspec.structs.replace(
        view,
        cpuset="",
        mems="",
        nano_cpus=0,
        cpu_quota=0,
        cpu_period=0,
        memory=0,
        memory_reservation=0,
        pid=0,
    )


def update_body(wanted: Native, update: Update, *, is_whole: bool) -> bytes:
    """Return the body of the update route. An empty text is never in it: runtimes treat that as an error.

    With `is_whole` it has all limits and not only the changed ones, for a Podman that forgets earlier updates.
    """
    cpu: dict[str, str | int] = {"cpus": wanted.cpus}
    if wanted.mems and (is_whole or update.mems is not None):
        cpu["mems"] = wanted.mems
    if wanted.quota and (is_whole or not update.leaves_limits):
        cpu["quota"], cpu["period"] = wanted.quota, wanted.period
    return msgspec.json.encode({"cpu": cpu})


def check_updated(body: bytes | bytearray, container: str) -> None:
    """Raise EngineFailed unless Podman took the update: it answers with the container's id."""
    if container.encode() not in body:
        raise EngineFailed(
            f"what answered the order is not Podman: {shown(bytes(body[:200]).decode('utf-8', 'replace'))}"
        )


def event_of(line: bytes) -> EngineEvent | None:
    """Return the event in a line of the stream, with its action in Docker's words; None for irrelevant events."""
    event = docker_wire.event_of(line, WATCHED)
    return None if event is None else _renamed(event)


def torn_event_of(head: bytes, tail: bytes) -> EngineEvent | None:
    """Return an event too long to keep, from its beginning and its end; None if they do not suffice."""
    event = docker_wire.torn_event_of(head, tail, WATCHED)
    return None if event is None else _renamed(event)


def attributes_of(line: bytes, keep: frozenset[str]) -> tuple[str, Mapping[str, str]]:
    """Return the container's name and the relevant labels, from an event; empty if it does not contain them."""
    try:
        read = msgspec.json.decode(line, type=_PodmanEvent)
    except UNREADABLE:
        return "", {}
    attributes = (read.actor.attributes if read.actor else None) or {}
    return docker_wire.label(attributes["name"]) if "name" in attributes else "", docker_wire.labels(attributes, keep)


def engine_info_of(info: bytes | bytearray, version: str) -> EngineInfo:
    """Return what Podman reports about itself.

    Raise EngineLacks, with the cure, if it could not confine any container, or keeps no events.
    """
    host = docker_wire.decoded(info, _PodmanInfo).host
    traits = traits_of(PODMAN, version)
    if number_of(version) < OLDEST:
        raise EngineLacks(f"Podman {version} cannot change the CPUs of a container: use 4.3 or later (5.4 recommended)")
    if host.event_logger == "none":
        raise EngineLacks(
            "Podman keeps no events, so new containers would go unnoticed: set `events_logger` in containers.conf to "
            "`journald` or `file`, and restart its service"
        )
    is_rootless = host.security.rootless or False
    controllers = host.cgroup_controllers or []
    if "cpuset" not in controllers:
        cure = DELEGATE if is_rootless else "enable it for this host and for the engine's cgroup"
        if is_rootless and host.cgroup_version == "v1":
            cure = "boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1), as a rootless engine has none under v1"
        has = ", ".join(controllers) or "none"
        raise EngineLacks(
            f"the engine has no cpuset controller (it has {has}), so it cannot confine containers: {cure}"
        )
    return EngineInfo(
        name=PODMAN,
        version=version,
        api_version=PREFIX.partition("/")[0].removeprefix("v"),
        ncpu=host.cpus or 0,
        cgroup_version=(host.cgroup_version or "").removeprefix("v"),
        cgroup_driver=host.cgroup_manager or "",
        is_rootless=is_rootless,
        traits=traits,
        notes=tuple(_notes(traits, is_rootless=is_rootless)),
        home=home_of(info),
    )


def home_of(info: bytes | bytearray) -> str:
    """Return where this Podman keeps its containers, which identifies it."""
    return (docker_wire.decoded(info, _PodmanInfo).store.graph_root or "")[: docker_wire.PATH_LENGTH]


def _notes(traits: EngineTraits, *, is_rootless: bool) -> list[str]:
    notes = []
    if not traits.keeps_updates:
        notes.append(LOSES_UPDATES)
    elif traits.resets_unnamed_limits:
        notes.append("this Podman may reset limits that an update does not name (before 5.4): best effort")
    notes.append(tells_late(traits))
    if is_rootless:
        notes.append(engine_identity.ROOTLESS_NOTE)
    return notes


def _renamed(event: EngineEvent) -> EngineEvent:
    return msgspec.structs.replace(event, action=WATCHED[event.action])
