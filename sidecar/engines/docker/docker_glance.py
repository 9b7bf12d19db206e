"""A glance: a container's identity from Docker's list route, which waits for no container's lock. Pure.

The list is made from a copy of the engine's records, so it is answered in a millisecond while a start holds the lock
that an inspect would wait for (measured on Docker 20.10). It has the name, labels, state and mounts; no limits.
"""

from __future__ import annotations

import msgspec

from sidecar.decide.facts import ContainerView, Mount, Phase
from sidecar.engines.cut_text import cut
from sidecar.engines.docker import docker_wire
from sidecar.failures import ContainerGone


class _Mounted(msgspec.Struct, rename="pascal"):
    type: str | None = None
    name: str | None = None
    source: str | None = None


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


def is_wanted(path: tuple[str, ...]) -> bool:
    """Return whether this member of a listed container is read here."""
    return path[0] in ("Id", "Names", "State", "Image", "Labels", "Mounts")


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
        name=cut(name, docker_wire.NAME_LENGTH),
        phase=_PHASES.get(each.state or "", Phase.CREATED),
        labels=docker_wire.labels(each.labels or {}, keep),
        is_glance=True,
        image=cut(each.image or "", docker_wire.NAME_LENGTH),
        mounts=docker_wire.kept_mounts(_mount(mounted) for mounted in each.mounts or []),
    )


_PHASES = {phase.value: phase for phase in Phase}


def _mount(mounted: _Mounted) -> Mount:
    return Mount(source=(mounted.name if mounted.type == "volume" else mounted.source) or "")
