"""Starts that a runtime holds until the sidecar answers, on the modelled host; they hold the engine's lock."""

from __future__ import annotations

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.line import Ends
from sidecar.decide.container.start import Answered, Held
from sidecar.decide.facts import StartHeld, StartLetGo
from sidecar.decide.orders import AnswerStart, ApplyCpuset
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from sidecar.simulation.model_host import STARTABLE
from sidecar.systemd_names import is_inside_a_container
from state.cpuset import EMPTY, CPUSet
from state.demand import Shortage
from tests.support.decide.glances import may_start_unanswered, waited_for
from tests.support.decide.real import Real
from tests.support.decide.reality import Reality


def hold(reality: Reality, real: Real) -> None:
    """Start it through the engine, whose runtime asks."""
    if real.is_locked or real.phase not in STARTABLE:
        return
    reality.given_up.pop(real.key, None)
    _ask(reality, real)


def ask_again(reality: Reality) -> bool:
    """Let the runtimes that hold a start since an earlier life of the daemon ask this one; return whether any did."""
    waiting = [real for real in reality.containers.values() if real.held is not None and not _has_asked(reality, real)]
    for real in waiting:
        _ask(reality, real)
    return bool(waiting)


def _has_asked(reality: Reality, real: Real) -> bool:
    known = reality.world.containers.get(real.key)
    return known is not None and isinstance(known.start, Held) and known.start.number == real.held


def _ask(reality: Reality, real: Real) -> None:
    known = reality.world.containers.get(real.key)
    in_bundle = real.had.cpu_quota or real.had.nano_cpus // 10_000
    parent = real.parent if is_inside_a_container(real.parent) else ""
    bundle = replace(real.glance(), cpuset=real.cpuset, mems=real.mems, cpu_quota=in_bundle, cgroup_parent=parent)
    is_known = known is not None and not known.view.is_glance
    view = replace(known.view, cpuset=real.cpuset, mems=real.mems) if known and is_known else bundle
    real.told = EMPTY
    real.held = number = reality.ticket()
    reality.feed(StartHeld(view, number, reality.ticket(), is_usual=not real.asks))


def let_go(reality: Reality, real: Real) -> None:
    """Time out without an answer: it does not start."""
    if real.held is not None:
        number, real.held = real.held, None
        reality.feed(StartLetGo(real.key, number))
        reality.unlock(real)


def go_on(reality: Reality, real: Real, *, fails: bool) -> None:
    """Let an answered start happen, or fail for a reason of its own."""
    verdict, real.verdict = real.verdict, None
    if verdict is None:
        return
    limits = replace(real.limits, cpuset=str(verdict.update.cpus)) if verdict.update else real.limits
    wanted = CPUSet.parse(limits.cpuset)
    if not fails and not verdict.refusal and wanted <= reality.online:
        reality.enter(real, limits)
        reality.note(real, wanted or reality.online)
        if verdict.update and (verdict.number not in reality.answered or verdict.number in reality.overtaken):
            real.told_before = real.started_at
    is_awaited = any(look.container == real.key and look.began > verdict.number for look in reality.blocked)
    real.told = verdict.update.cpus if verdict.update and not is_awaited else EMPTY
    reality.unlock(real)


def one_goes_on(reality: Reality) -> bool:
    """Let one answered start happen; return whether there was any."""
    for real in reality.containers.values():
        if real.verdict is not None:
            go_on(reality, real, fails=False)
            reality.begin_look(real.key)
            return True
    return False


def ordered_while_held(reality: Reality) -> list[str]:
    """Return orders of the last burst to containers with a held start, which the engine would not obey."""
    return [
        f"{real.name} was ordered onto {order.update.cpus}, and its start is held"
        for order in reality.new_orders
        if (real := reality.containers.get(order.container)) and real.held is not None
    ]


def answered_wrongly(reality: Reality) -> list[str]:
    """Return the answers of the last burst that break the rules, as sentences."""
    found: list[str] = []
    for answer in reality.new_answers:
        if answer.refusal is None and _is_inside_another(reality, answer):
            found.append(f"{reality.containers[answer.container].name} was started inside another container")
        if answer.update is not None:
            found += _entered(reality, answer, answer.update.cpus)
    return found


def _is_inside_another(reality: Reality, answer: AnswerStart) -> bool:
    """Return whether the sidecar decides where this container runs, which chose to ask, and has the cgroup of another
    one. One that did not choose it is left alone there.
    """
    world, real = reality.world, reality.containers.get(answer.container)
    decides = world.settings.policy is not PolicyName.NONE and not world.is_releasing
    return decides and real is not None and real.asks and is_inside_a_container(real.parent)


def let_in_while_it_starts(reality: Reality) -> list[str]:
    """Return the orders and answers of the last burst that let others onto CPUs on which a container was told to start
    alone by this run of the daemon, and has not started yet, whatever became of its grant.
    """
    world, found = reality.world, []
    told = [(order.container, order.update.cpus - _left_behind(world, order)) for order in _moves(reality)]
    told += [(answer.container, answer.update.cpus) for answer in reality.new_answers if answer.update]
    for real in reality.containers.values():
        if real.verdict is None or real.verdict.update is None or not real.verdict.exclusive:
            continue
        if real.verdict.number not in reality.answered:
            continue
        # Where a hand has another answer for its birth by now, it starts there instead.
        own = real.verdict.update.cpus & real.reaches(reality.online) - world.state.reserved
        found += [
            f"{world.containers[key].view.name} is let in on {both}, where {real.name} was told to start alone"
            for key, cpus in told
            if key != real.key and (both := cpus & own)
        ]
    return found


def _moves(reality: Reality) -> list[ApplyCpuset]:
    return [*reality.new_orders, *(each for each in reality.new_moves if each not in reality.new_orders)]


def _left_behind(world: World, order: ApplyCpuset) -> CPUSet:
    """Return where the container of an order runs, or would start, already."""
    container = world.containers[order.container]
    place, start = container.place, container.start
    if isinstance(start, Answered):
        return start.cpus
    return place.seen if order.live else place.configured


def is_later(container: Container, other: Container, *, was_held: bool = False) -> bool:
    """Return whether orders may wait in the engine behind the starts of both, and that of the other one is held, or was
    when this one was answered: what can happen only after its own answer keeps no start waiting of which the same is
    true.
    """
    return (other.is_held or was_held) and _is_followed(other) and _is_followed(container)


def _is_followed(known: Container) -> bool:
    """Return whether an order may wait in the engine behind a start that is held, or was answered."""
    may_wait = known.order is not None or any(each.ends in (Ends.ENGINE, Ends.ORDER) for each in known.doubts)
    return may_wait and not known.is_covered


def _shares(reality: Reality, answer: AnswerStart) -> bool:
    """Return whether a start may be answered with the shared pool though its container asks for CPUs: it did not choose
    a runtime that asks, and it was refused or a stranger is on its CPUs.
    """
    real, world = reality.containers.get(answer.container), reality.world
    # What was removed while its start was held is not there any more, and what it chose is known from that alone.
    start = world.containers[answer.container].start
    is_usual = not real.asks if real else isinstance(start, Answered) and start.is_usual
    if not is_usual:
        return False
    refused, granted = world.state.refusals.get(answer.container), world.state.assignments.get(answer.container)
    if refused is not None:
        return refused.demand is None or refused.demand.shortage is not Shortage.STOP
    return granted is not None and bool(granted.cpus & world.strangers)


def _entered(reality: Reality, answer: AnswerStart, cpus: CPUSet) -> list[str]:
    world, found = reality.world, []
    refused = {each.container for each in reality.new_answers if each.refusal is not None}
    after = reality.new_answers[reality.new_answers.index(answer) + 1 :]
    later = {each.container for each in after}
    # An owner that starts in the shared pool has none of its own there: others that start in the same burst share it.
    shared = {each.container: each.update.cpus for each in after if each.update and not each.exclusive}
    name = world.containers[answer.container].view.name
    granted = world.state.assignments.get(answer.container)
    if not cpus:
        found.append(f"{name} was started on no CPU")
    is_shared = _shares(reality, answer)
    if granted is None and world.containers[answer.container].wish.demand is not None and not is_shared:
        found.append(f"{name} was started on {cpus}, though it asks for CPUs of its own and has none")
    if is_shared and answer.exclusive:
        found.append(f"{name} was started on {cpus} as if these were its own")
    elif not is_shared and (answer.exclusive != (granted is not None) or (granted and granted.cpus != cpus)):
        found.append(f"{name} was started on {cpus}, and its grant is {granted and granted.cpus}")
    for id, other in world.containers.items():
        # One whose pin is offline runs on all others, as one that is not managed: nobody waits for it.
        is_adrift = other.wish.standing is Standing.STRANGER and not other.place.configured & world.topology.online
        is_apart = is_adrift or other.wish.standing in (Standing.UNMANAGED, Standing.MEMBER)
        if id == answer.container or is_apart or not (answer.exclusive or id in world.state.assignments):
            continue
        # What was refused with this burst was held until now, and starts nothing.
        is_nowhere = id in refused or is_later(world.containers[answer.container], other, was_held=id in later)
        may_be = EMPTY if is_nowhere else CPUSet.from_mask(waited_for(reality, id, by_owner=answer.exclusive))
        if id in shared and id in world.state.assignments and not answer.exclusive:
            may_be -= shared[id] - world.state.assignments[id].cpus
        if both := (cpus - world.state.reserved) & may_be:
            found.append(f"{name} was started on {both}, where {other.view.name} may be")
        real = reality.containers.get(id)
        # What the hand could not write at its birth is reported after the answer.
        if real is None or real.is_unseen or reality.is_blind or reality.is_unheard(id):
            continue
        if reality.is_being_looked_at(id):
            continue
        if may_start_unanswered(reality, real):
            continue
        # What was born unseen and is stuck is a newborn as yet: owners wait for it, and the pool does not.
        is_newborn = other.is_idle and not answer.exclusive
        stuck = world.hand.stuck if world.hand and is_newborn else EMPTY
        if both := (cpus - world.state.reserved - stuck) & (real.effective or EMPTY):
            found.append(f"{name} was started on {both}, where {real.name} is")
    return found
