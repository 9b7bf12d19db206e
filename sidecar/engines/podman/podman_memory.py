"""What is remembered of Podman's containers, because Podman does not report it: the last limits, and identities.

Podman before 5.1 shows no update in its inspect, and forgets it at the container's next start. Later versions show it,
but for a stopped container only from its next start on. So what was written overrides inspect as long as inspect shows
the same as at that time:

1. Anything else in inspect is a real change, by Podman or another tool, and wins.
2. If updates are not kept, another start wins, too: the container runs with the old limits again.
3. What was written to a container that does not run is remembered only if Podman could not take it.

While Podman starts a container it answers nothing that needs the container's lock: no inspect, no list, and no request
for its info. So ids, names and labels are remembered, too, from looks and events. Entries are forgotten with the
container, and bounded: the oldest is dropped first.
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
    """Limits that were written, what inspect showed then, and the start that they belong to."""

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
        """Remember what inspect shows, in Podman's terms. Return the limits that the container really has."""
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
        """Remember what an event reports; an unknown container counts as created."""
        if action == "destroy":
            self.forget(container)
            return
        view = self._seen.get(container) or ContainerView(id=container, name=name, phase=Phase.CREATED, labels=labels)
        phase = _PHASES.get(action, view.phase)
        self._keep(msgspec.structs.replace(view, name=name or view.name, phase=phase))

    def wrote(self, view: ContainerView, limits: Native) -> None:
        """Remember what was written to a container, of which inspect showed this before."""
        self._written[view.id] = _Written(limits=limits, over=libpod_wire.native_of(view), started_at=view.started_at)
        self._keep(view)

    def view(self, container: str) -> ContainerView | None:
        """Return the last view of a container, from a look or an event, in Podman's terms; None if it is unknown."""
        return self._seen.get(container)

    def ids(self) -> tuple[str, ...]:
        """Return all known containers."""
        return tuple({**self._listed, **dict.fromkeys(self._seen)})

    def retain(self, containers: Collection[str]) -> None:
        """Forget all containers but these."""
        self._listed = dict.fromkeys(containers)
        for gone in set(self._seen) - set(containers):
            self.forget(gone)

    def forget(self, container: str) -> None:
        """Forget a container that is gone."""
        self._listed.pop(container, None)
        self._seen.pop(container, None)
        self._written.pop(container, None)

    def _keep(self, view: ContainerView) -> None:
        self._seen.pop(view.id, None)
        self._seen[view.id] = view
        if len(self._seen) > LIMIT:
            self.forget(next(iter(self._seen)))
