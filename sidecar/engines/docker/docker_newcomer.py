"""What Docker's `create` event tells of a container: its name, its image and all its labels. Pure.

Docker puts the labels among the event's attributes, beside `name` and `image`, which hide labels of these keys. Nothing
else is told: no limits, no cpuset, no mounts, no runtime (20.10 to 29; tests/contract).
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from sidecar.decide.facts import ContainerView, Phase
from sidecar.engines.cut_text import cut
from sidecar.engines.docker import docker_wire
from sidecar.engines.event_dialect import DOCKER, Dialect
from sidecar.ports import EngineEvent, KeepsBack
from state.codec import UNREADABLE

_NOT_LABELS: Final = frozenset(("name", "image"))


class _Described(msgspec.Struct):
    attributes: dict[str, msgspec.Raw] = msgspec.field(name="Attributes", default_factory=dict)


class _Creation(msgspec.Struct):
    actor: _Described = msgspec.field(name="Actor", default_factory=_Described)


def asking(engine: str, labels: frozenset[str], keeps_back: KeepsBack) -> Dialect:
    """Return Docker's words for a stream from which events are kept back. `labels` are kept in addition to our own; if
    an attribute hides one of them, nothing is told of created containers.
    """
    return DOCKER._replace(event_of=partial(_event_of, engine, labels, keeps_back))


def newcomer_of(line: bytes, engine: str, container: str, labels: frozenset[str]) -> ContainerView | None:
    """Return what an event tells of a created container, as a glance; None if it cannot be understood, or if it does
    not tell all labels.
    """
    if labels & _NOT_LABELS:
        return None
    try:
        told = msgspec.json.decode(line, type=_Creation).actor.attributes
    except UNREADABLE:
        return None
    own = {key: value for key, value in told.items() if key not in _NOT_LABELS}
    return ContainerView(
        engine=engine,
        id=container,
        name=cut(docker_wire.label(told["name"]), docker_wire.NAME_LENGTH) if "name" in told else "",
        phase=Phase.CREATED,
        labels=docker_wire.labels(own, labels),
        is_glance=True,
        image=cut(docker_wire.label(told["image"]), docker_wire.NAME_LENGTH) if "image" in told else "",
    )


def _event_of(engine: str, labels: frozenset[str], keeps_back: KeepsBack, line: bytes) -> EngineEvent | None:
    event = docker_wire.event_of(line)
    if event is None:
        return None
    told = newcomer_of(line, engine, event.container, labels) if event.action == "create" else None
    return None if keeps_back(event, told) else event
