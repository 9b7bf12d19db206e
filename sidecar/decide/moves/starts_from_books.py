"""A start that is held while the engine cannot be reached: it goes on by the books, or has to wait.

An engine that starts itself starts its containers first, and answers nobody before: it would wait for the answer, and
the answer for it. Meanwhile it makes no container, and starts none but where the books have them. So:

1. Who holds CPUs in the books starts on them.
2. Who asks for none starts in the shared pool of the books.
3. Who is not the sidecar's to place is let go as it is.
4. Who asks for CPUs and holds none waits: they would have to be taken from somebody who cannot be asked.
"""

from __future__ import annotations

from sidecar.decide.container.container import Standing
from sidecar.decide.facts import ContainerView
from sidecar.decide.orders import AnswerStart, Update
from sidecar.decide.settings import PolicyName
from sidecar.decide.sightings import believed
from sidecar.decide.world import World
from state.cpuset import CPUSet
from state.model import QuotaRule


def from_books(world: World, view: ContainerView, began: int) -> AnswerStart | None:
    """The answer to a start that nothing decided, of number 0; None where it has to wait. Changes nothing."""
    key, settings = view.key, world.settings
    known = world if key in world.containers else believed(world, view, began)
    wish = known.containers[key].wish
    is_ours = wish.standing is Standing.MANAGED and settings.policy is not PolicyName.NONE
    if world.is_releasing or (not is_ours and wish.refusal is None):
        return AnswerStart(key, 0)  # 3.
    if assignment := world.state.assignments.get(key):
        lifts = assignment.demand.quota is QuotaRule.LIFT and view.cpu_quota > 0
        return AnswerStart(key, 0, update=_update(assignment.cpus, -1 if lifts else None), exclusive=True)  # 1.
    if wish.demand is None:
        return AnswerStart(key, 0, update=_update(world.state.shared))  # 2.
    return None  # 4.


def _update(cpus: CPUSet, quota: int | None = None) -> Update:
    return Update(cpus=cpus, cpu_quota=quota)
