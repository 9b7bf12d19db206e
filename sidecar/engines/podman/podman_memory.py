"""What is remembered of Podman's containers, because Podman does not say it: the limits last written, and who they are.

Podman before 5.1 shows no update in its inspect, and forgets it at the container's next start. Later ones show it, but
of a stopped container only from its next start on. So what was written lies over what inspect says, for as long as
inspect goes on saying what it said then:

1. Anything else in inspect is a real change, by Podman or by somebody, and wins.
2. Where updates are not kept, another start wins, too: the container runs with the old limits again.
3. What was written for a container that does not run is only remembered where Podman could not take it.

While Podman starts a container it answers nothing that needs the container's lock: no look at it, no list of any, and
not even who it is itself. So ids, names and labels are remembered, too, from looks and events. Forgotten with the
container, and bounded: the oldest goes first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from sidecar.decide.facts import ContainerView, Phase
from sidecar.engines.podman import libpod_wire
from sidecar.engines.podman.libpod_wire import Native

LIMIT: Final = 16_384
"""Containers remembered; more than a host has."""

_PHASES: Final = {
    "start": Phase.RUNNING,
    "restart": Phase.RUNNING,
    "die": Phase.EXITED,
    "stop": Phase.EXITED,
    "pause": Phase.PAUSED,
    "unpause": Phase.RUNNING,
}


class _Written(msgspec.Struct, frozen=True):
    """Limits that were written, what inspect said then, and during which start."""

    limits: Native
    over: Native
    started_at: str


class Remembered:
    """One engine's containers. Belongs to one thread."""

    def __init__(self) -> None:
        self._listed: dict[str, None] = {}
        self._seen: dict[str, ContainerView] = {}
        self._written: dict[str, _Written] = {}

    def looked(self, view: ContainerView, *, keeps_updates: bool) -> Native:
        """Remember what inspect says, in Podman's words; the limits that the container really has."""
        said = libpod_wire.native_of(view)
        written = self._written.get(view.id)
        self._keep(view)
        if written is None:
            return said
        if said == written.over and (keeps_updates or view.started_at == written.started_at):
            return written.limits
        del self._written[view.id]
        return said

    def heard(self, container: str, action: str, name: str, labels: Mapping[str, str]) -> None:
        """Remember what an event says; who is new is created."""
        if action == "destroy":
            self.forget(container)
            return
        view = self._seen.get(container) or ContainerView(id=container, name=name, phase=Phase.CREATED, labels=labels)
        phase = _PHASES.get(action, view.phase)
        self._keep(msgspec.structs.replace(view, name=name or view.name, phase=phase))

    def wrote(self, view: ContainerView, limits: Native) -> None:
        """Remember what was written onto a container of which inspect said this before."""
        self._written[view.id] = _Written(limits=limits, over=libpod_wire.native_of(view), started_at=view.started_at)
        self._keep(view)

    def view(self, container: str) -> ContainerView | None:
        """Return what was last seen or heard of a container, in Podman's words."""
        return self._seen.get(container)

    def ids(self) -> tuple[str, ...]:
        """Return all containers that are there, as far as is remembered."""
        return tuple({**self._listed, **dict.fromkeys(self._seen)})

    def retain(self, containers: Collection[str]) -> None:
        """These are there, and no others."""
        self._listed = dict.fromkeys(containers)
        for gone in set(self._seen) - set(containers):
            self.forget(gone)

    def forget(self, container: str) -> None:
        """It is gone."""
        self._listed.pop(container, None)
        self._seen.pop(container, None)
        self._written.pop(container, None)

    def _keep(self, view: ContainerView) -> None:
        self._seen.pop(view.id, None)
        self._seen[view.id] = view
        if len(self._seen) > LIMIT:
            self.forget(next(iter(self._seen)))
