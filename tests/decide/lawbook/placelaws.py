"""The laws of the two places: what the kernel has and what the engine has recorded are each read for themselves."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.decide.container.container import Container
from sidecar.decide.container.grip import Guarded
from sidecar.decide.moves.settled import desired
from state.cpuset import EMPTY, CPUSet
from tests.decide.lawbook.alonelaws import is_unseen
from tests.support.decide.real import Real
from tests.support.decide.reality import Reality
from tests.support.laws import Law, When


def _known_runs(reality: Reality) -> Iterator[tuple[Container, Real]]:
    """Yield each container whose present run the daemon knows, on the machine as it was read."""
    if reality.online != reality.world.state.online:
        return
    for key, container in reality.world.containers.items():
        real = reality.containers.get(key)
        if (
            real
            and real.phase.is_live
            and real.started_at == container.view.started_at
            and container.view.phase.is_live
        ):
            yield container, real


def not_where_guarded(reality: Reality) -> Iterator[str]:
    """Yield containers that are guarded, and that the kernel has elsewhere than they were written or are believed. What
    a group above gives back to them shows in no news.
    """
    for container, real in _known_runs(reality):
        if not isinstance(container.grip, Guarded) or is_unseen(reality, real):
            continue
        if (own := reality.kernel.own(real.id)) != container.grip.cpus:
            yield f"{real.name} is guarded on {container.grip.cpus}, and the kernel has {own}"
        is_gain = container.place.seen <= (real.effective or EMPTY) <= container.grip.cpus
        if real.effective != container.place.seen and not is_gain:
            yield f"{real.name} is guarded, runs on {real.effective}, and is believed on {container.place.seen}"


def stranded_unnoticed(reality: Reality) -> Iterator[str]:
    """Yield containers whose CPUs are all offline, and that run outside their footprint: before any look tells of it.
    The hand puts back what it guards.
    """
    online = reality.world.topology.online
    for container, real in _known_runs(reality):
        if container.present & online or container.is_guarded or real.is_tampered:
            continue
        if outside := (real.effective or EMPTY) - CPUSet.from_mask(container.footprint):
            yield f"{real.name} lost its last CPU, and runs on {outside}, outside its footprint"


def disagreeing(reality: Reality) -> Iterator[str]:
    """Yield live containers that the sidecar places, and for which decision, kernel and engine differ."""
    for container, real in _known_runs(reality):
        wanted = desired(reality.world, container)
        if wanted is None or container.barred:
            continue
        if not real.effective == wanted == real.configured(reality.online):
            yield f"{real.name} should be on {wanted}, runs on {real.effective}, and is recorded on {real.cpuset}"


GUARDED = Law("what is guarded is where it was written", not_where_guarded)
STRANDED = Law("what lost its last CPU may be anywhere", stranded_unnoticed)
AGREED = Law("at rest decision, kernel and engine agree", disagreeing, When.REST)

LAWS = (GUARDED, STRANDED, AGREED)
"""All of them."""
