"""The laws of containers that are out of the hand's reach: each write is told, and none undone at once.

They are those of the page ("Out of hand"): the container may be anywhere from the news of a write, so no owner is told
that it is settled before a look shows where it is, and none that it is alone beside it until a minute without a write.
That the engine moves it is what the laws of rest say of all containers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sidecar.decide.container.container import Container, Standing
from sidecar.projection.projection_of import projection_of
from state.key import ContainerKey
from tests.support.decide.handreality import HandReality
from tests.support.decide.reality import Reality
from tests.support.laws import Law


def settled_before_a_look(reality: Reality) -> Iterator[str]:
    """Yield owners that are told to be settled while one that the sidecar places, or the owner itself, was written, and
    no look shows where it is since that was told.
    """
    if not isinstance(reality, HandReality):
        return
    slipped = [each.view.key for each in _running(reality, reality.unsure) if _is_placed(reality, each)]
    slipped += _unknown(reality)
    for owner in _owners(reality) if slipped else ():
        if projection_of(reality.world, owner).settled:
            yield f"{owner.view.name} is told to be settled, and {slipped[0].short} may be anywhere"


def alone_before_a_calm(reality: Reality) -> Iterator[str]:
    """Yield owners that are told to be alone while another one runs that was written, and is not calm since."""
    if not isinstance(reality, HandReality):
        return
    for slipped in _running(reality, reality.wrested):
        for owner in _owners(reality):
            if owner is not slipped and projection_of(reality.world, owner).alone:
                yield f"{owner.view.name} is told to be alone, and {slipped.view.name} may write itself there"


def _running(reality: HandReality, told: Mapping[ContainerKey, int]) -> Iterator[Container]:
    """Yield each of these containers that is known to run."""
    known = (reality.world.containers.get(key) for key in told)
    yield from (each for each in known if each is not None and not each.is_idle)


def _unknown(reality: HandReality) -> Iterator[ContainerKey]:
    """Yield those of them that are not known, run, and have an answer of their own. What has none is a newborn."""
    hand = reality.world.hand
    for key in reality.unsure.keys() - reality.world.containers.keys():
        real = reality.containers.get(key)
        if real and real.phase.is_live and hand and hand.is_answering and hand.has_own_answer(key):
            yield key


def _is_placed(reality: Reality, container: Container) -> bool:
    return container.wish.standing is Standing.MANAGED or container.view.key in reality.world.state.assignments


def _owners(reality: Reality) -> Iterator[Container]:
    known = reality.world.containers
    yield from (known[key] for key in reality.world.state.assignments if key in known)


UNSURE = Law("after a write that nothing undoes none is settled before a look", settled_before_a_look)
WRESTED = Law("none is alone beside what is out of hand before it is calm", alone_before_a_calm)

LAWS = (UNSURE, WRESTED)
"""Both."""
