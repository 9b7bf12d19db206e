"""A start that is held while the engine cannot be reached: it goes on from the recorded State, or has to wait.

An engine that is starting up first starts its containers, and answers no request until then. To wait for it would be a
deadlock. Meanwhile it creates no container, and starts containers only where the State has them. So:

1. A container with a recorded grant starts on it.
2. A container without a demand starts in the shared pool of the State.
3. The start of a container that the sidecar does not place goes on unchanged.
4. A container with a demand but no grant waits: its CPUs could not be vacated while the engine is not reached.
5. A container whose labels are wrong does not start, as it would not with the engine.
6. A container that did not choose the runtime that asks (`is_usual`) starts in the shared pool in these two cases, but
   for one that asks to be stopped on a shortage.
7. One that lies inside another container does not start either, also with a grant from before that was known: the
   runtime's bundle tells where its cgroup will be. One that did not choose the runtime starts there unchanged.
"""

from __future__ import annotations

from sidecar.decide.container.container import Standing
from sidecar.decide.facts import ContainerView, StartHeld
from sidecar.decide.moves.starts import after_hold, may_share
from sidecar.decide.orders import AnswerStart, Update
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from state.cpuset import CPUSet
from state.demand import QuotaRule


def from_books(world: World, view: ContainerView, began: int, *, is_usual: bool = False) -> AnswerStart | None:
    """Return the answer, with number 0, to a start that `step` has not decided; None if it has to wait."""
    key, settings = view.key, world.settings
    looked_at = world.containers.get(key)
    # What nothing but glances showed may lie inside another container, and the bundle shows that.
    is_shown = looked_at is not None and not looked_at.view.is_glance
    known = world if is_shown else after_hold(world, StartHeld(view, 0, began))
    wish = known.containers[key].wish
    is_ours = wish.standing is Standing.MANAGED and settings.policy is not PolicyName.NONE
    if world.is_releasing or (not is_ours and wish.refusal is None):
        return AnswerStart(key, 0)  # 3.
    may_go_on = is_usual and may_share(wish.demand)  # 6.
    if wish.standing is Standing.UNMANAGED:
        return AnswerStart(key, 0, refusal=None if may_go_on else wish.refusal)  # 7.
    if assignment := world.state.assignments.get(key):
        lifts = assignment.demand.quota is QuotaRule.LIFT and view.cpu_quota > 0
        return AnswerStart(key, 0, update=_update(assignment.cpus, -1 if lifts else None), exclusive=True)  # 1.
    if wish.refusal is not None and not may_go_on:
        return AnswerStart(key, 0, refusal=wish.refusal)  # 5.
    if wish.demand is None or may_go_on:
        pool = world.pool_for(known.containers[key], world.state.shared)
        return AnswerStart(key, 0, update=_update(pool))  # 2.
    return None  # 4.


def _update(cpus: CPUSet, quota: int | None = None) -> Update:
    return Update(cpus=cpus, cpu_quota=quota)
