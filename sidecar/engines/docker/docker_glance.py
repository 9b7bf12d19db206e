"""A glance: a container's identity from Docker's list route, which waits for no container's lock. Pure.

The list is made from a copy of the engine's records, so it is answered in a millisecond while a start holds the lock
that an inspect would wait for (measured on Docker 20.10). It has the name, labels, state and mounts; no limits.
"""

from __future__ import annotations

import msgspec

from sidecar.decide.facts import ContainerView, Mount, Phase
from sidecar.engines.docker import docker_wire
from sidecar.failures import ContainerGone

_LONGEST = 4096
_NAME_LENGTH = 256
_MOUNT_COUNT = 256


class _Mounted(msgspec.Struct, rename="pascal"):
    type: str | None = None
    name: str | None = None
    source: str | None = None
    destination: str | None = None


class _Glanced(msgspec.Struct, rename="pascal"):
    id: str = ""
    names: list[str] | None = None
    state: str | None = None
    image: str | None = None
    labels: dict[str, msgspec.Raw] | None = None
    mounts: list[_Mounted] | None = None


def params_of(container: str) -> dict[str, str]:
    """Return the parameters of the list route for one container, stopped or not."""
    return {"all": "1", "filters": msgspec.json.encode({"id": [container]}).decode()}


def glance_of(body: bytes | bytearray, container: str, keep: frozenset[str] = frozenset()) -> ContainerView:
    """Return the view of a container, with the parts that a list contains.

    Raise ContainerGone if it is not listed, and EngineFailed if the answer is not a list.
    """
    for each in docker_wire.decoded(body, list[_Glanced]):
        if each.id == container:
            break
    else:
        raise ContainerGone(f"the engine lists no container {container[:12]}")
    # A linked container has additional names, with a slash inside.
    names = [name.removeprefix("/") for name in each.names or []]
    name = next((name for name in names if name and "/" not in name), "")
    return ContainerView(
        id=each.id,
        name=name[:_NAME_LENGTH],
        phase=_PHASES.get(each.state or "", Phase.CREATED),
        labels=docker_wire.labels(each.labels or {}, keep),
        is_glance=True,
        image=(each.image or "")[:_NAME_LENGTH],
        mounts=tuple(_mount(mounted) for mounted in (each.mounts or [])[:_MOUNT_COUNT] if _is_sound(mounted)),
    )


_PHASES = {phase.value: phase for phase in Phase}


def _is_sound(mounted: _Mounted) -> bool:
    """Return whether it has paths of at most PATH_MAX: a longer text is no path, and cut it would be another path."""
    source, target = _source(mounted), mounted.destination
    return bool(source and target) and max(len(source), len(target or "")) <= _LONGEST


def _mount(mounted: _Mounted) -> Mount:
    return Mount(source=_source(mounted), target=mounted.destination or "")


def _source(mounted: _Mounted) -> str:
    return (mounted.name if mounted.type == "volume" else mounted.source) or ""
