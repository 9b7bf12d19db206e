"""What an engine is, from its answers about itself: versions, ceilings, Swarm. Pure, and lenient like `docker_wire`."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from sidecar.decide.container import swarm_task
from sidecar.decide.facts import EngineInfo
from sidecar.engines.answer_errors import shown
from sidecar.engines.docker.docker_wire import STAMP_LENGTH, decoded
from sidecar.engines.int64 import Int64
from sidecar.engines.traits_table import DOCKER, PODMAN, traits_of
from sidecar.failures import EngineFailed

ROOTLESS_NOTE: Final = (
    "the engine is rootless: only this user's containers can be confined; other users' containers, root's, and the "
    "host's own processes run on all CPUs, exclusive ones included"
)


class _Component(msgspec.Struct, rename="pascal"):
    name: str | None = None


class _Version(msgspec.Struct, rename="pascal"):
    version: str | None = None
    api_version: str | None = None
    min_api_version: str | None = msgspec.field(name="MinAPIVersion", default=None)
    components: list[_Component] | None = None


class _DiscreteResource(msgspec.Struct, rename="pascal"):
    kind: str | None = None
    value: Int64 | None = None


class _GenericResource(msgspec.Struct, rename="pascal"):
    discrete_resource_spec: _DiscreteResource | None = None


class _Swarm(msgspec.Struct, rename="pascal"):
    local_node_state: str | None = None


class _Info(msgspec.Struct, rename="pascal"):
    ncpu: Int64 | None = msgspec.field(name="NCPU", default=None)
    cpu_set: bool | None = msgspec.field(name="CPUSet", default=None)
    cgroup_version: str | int | None = None
    cgroup_driver: str | None = None
    live_restore_enabled: bool | None = None
    docker_root_dir: str | None = None
    id: str | None = msgspec.field(name="ID", default=None)
    generic_resources: list[_GenericResource] | None = None
    swarm: _Swarm | None = None
    security_options: list[str] | None = None


def api_version_of(version: bytes | bytearray, newest: tuple[int, int]) -> str:
    """Return the API version to use, `v1.41`: the engine's newest, but none newer than `newest` if the engine allows
    that.
    """
    read = decoded(version, _Version)
    theirs = _number(read.api_version)
    oldest = _number(read.min_api_version)
    if theirs is None:
        raise EngineFailed("the engine does not report its API version")
    chosen = max(min(theirs, newest), oldest or (0, 0))
    return f"v{chosen[0]}.{chosen[1]}"


def is_podman(version: bytes | bytearray) -> bool:
    """Return whether the answer of `/version` is Podman's."""
    return any("podman" in (part.name or "").lower() for part in decoded(version, _Version).components or [])


def engine_info_of(info: bytes | bytearray, version: bytes | bytearray) -> EngineInfo:
    """Return what the engine reports about itself, from the answers of `/info` and `/version`."""
    about, said = decoded(info, _Info), decoded(version, _Version)
    is_rootless = any(option.partition(",")[0] == "name=rootless" for option in about.security_options or [])
    name, number = PODMAN if is_podman(version) else DOCKER, (said.version or "")[:STAMP_LENGTH]
    return EngineInfo(
        name=name,
        version=number,
        api_version=(said.api_version or "")[:STAMP_LENGTH],
        ncpu=about.ncpu or 0,
        cgroup_version=str(about.cgroup_version or ""),
        cgroup_driver=(about.cgroup_driver or "")[:STAMP_LENGTH],
        has_cpuset=about.cpu_set is not False,
        live_restore=about.live_restore_enabled or False,
        is_rootless=is_rootless,
        traits=traits_of(name, number),
        in_swarm=about.swarm is not None and about.swarm.local_node_state == "active",
        advertised=_advertised(about.generic_resources or []),
        notes=(ROOTLESS_NOTE,) if is_rootless else (),
        home=home_of(info),
    )


def _advertised(resources: list[_GenericResource]) -> int | None:
    for each in resources:
        if (spec := each.discrete_resource_spec) is not None and spec.kind == swarm_task.KIND:
            return spec.value
    return None


def home_of(info: bytes | bytearray) -> str:
    """Return where an engine keeps its containers, and its permanent id: its identity, from the answer of `/info`."""
    about = decoded(info, _Info)
    return shown(f"{about.docker_root_dir or 'an unknown place'} (id {about.id or 'unknown'})")


def _number(text: str | None) -> tuple[int, int] | None:
    found = re.fullmatch(r"v?(\d{1,4})\.(\d{1,4})(\.\d+)*", text or "")
    return (int(found[1]), int(found[2])) if found else None
