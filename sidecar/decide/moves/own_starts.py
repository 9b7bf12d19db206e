"""Own starts: how each owner would start now, for fronts that get no answer. They find it written down
(`runtime/owner_start`). Pure.

1. It is the answer that the owner would get at once (`starts`, 2): on its whole grant, where no other container may be.
2. The hand holds these CPUs as the owner's only answer. So they are in its footprint whatever becomes of
   its start, seen or not, until newer answers are held; and those are held only when no front holds an older start
   (`apply/owner_orders`). No decision needs to know more of such a start than that.
3. No owner is started on CPUs that are on their way: what is lent, is being left, or may be another's pin. Nor is one
   of whose CPUs one went offline.
4. An engine that is away changes nothing: it starts its containers before it answers.
"""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.decide.books.give_up import refused_now
from sidecar.decide.container.container import Container
from sidecar.decide.covering import is_answered
from sidecar.decide.facts import Phase
from sidecar.decide.moves.starts import bundle_of
from sidecar.decide.orders import AnswerStart
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from state.key import ContainerKey


def own_starts(world: World) -> Mapping[ContainerKey, AnswerStart]:
    """Return the answers to the starts of owners that fronts may take without a question, each with the number 0."""
    hand, state = world.hand, world.state
    if hand is None or not hand.is_answering or world.is_releasing or world.settings.policy is PolicyName.NONE:
        return {}
    found = {}
    # 1. and 3.
    closed = (world.reach.crowded & ~state.reserved.mask) | (state.lent | state.leaving | state.unlooked).mask
    closed |= world.strangers.mask
    for key, grant in state.assignments.items():
        container = world.containers.get(key)
        if container is None or grant.leaving or grant.cpus.mask & closed or not grant.cpus <= state.online:
            continue
        # 2.
        if container.answers == (grant.cpus,) and _is_placed(world, container) and refused_now(world, key) is None:
            found[key] = AnswerStart(key, 0, update=bundle_of(world, container, grant.cpus), exclusive=True)
    return found


def _is_placed(world: World, container: Container) -> bool:
    """Return whether the sidecar places a container, for all that a look showed. A glance shows no limits."""
    return is_answered(world, container) and not container.view.is_glance and container.view.phase is not Phase.DEAD
