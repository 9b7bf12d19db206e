"""What the status says about a container: why it has its CPUs, what it waits for, why CPUs moved. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Final, assert_never

from sidecar.decide.books.clashes import clashes_of
from sidecar.decide.books.load_wish import wished
from sidecar.decide.books.queue import overtakers, turn_of
from sidecar.decide.container.askers import is_coming, is_hopeful
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.line import FaultKind, Paused
from sidecar.decide.container.originals import cpu_limit
from sidecar.decide.facts import Phase, ViewKind
from sidecar.decide.moves.alone import is_alone
from sidecar.decide.moves.settled import awaits_answer, is_quota_lifted, is_where_it_should_be
from sidecar.decide.moves.timers import longest_notice
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from sidecar.natural_order import natural
from sidecar.words.causes import why, why_leaving
from sidecar.words.counts import agree, cpus, exclusive_cpus, named, ordinal, some
from sidecar.words.exec_text import exec_told
from sidecar.words.hands import leg_told, taken_around
from sidecar.words.neighbours import clash_text, company, pin_text, pinned_text
from sidecar.words.pod_names import named_none
from sidecar.words.reasons import LEFT_ALONE
from sidecar.words.refusals import harmless, sentence, warnings
from sidecar.words.refused_text import why_refused
from sidecar.words.sizes_text import about_size
from sidecar.words.units import noun
from sidecar.words.where import without_offline
from state.cpuset import EMPTY, CPUSet
from state.demand import MemsRule, Scale, Shortage
from state.leaving import Leaving
from state.model import Assignment, Move, Refused
from state.refusal import RefusalCode

_SHOWN_NAMES: Final = 5
"""Names in one sentence; of more, their number."""

_HELD_BACK: Final = "a cgroup between the two has fewer"


def trouble(world: World, container: Container) -> str:
    """Return the last fault of a container, as a clause, with what is known of its cause; "" without one. A look that
    shows a fault has no text.
    """
    fault = container.fault
    if fault is None:
        return ""
    if fault.kind is FaultKind.INEFFECTIVE and fault.text and (cause := taken_around(world, container)):
        return f"{fault.text}: {cause}"
    return fault.text or f"it has fewer CPUs than its group: {_HELD_BACK}"


def waits_for(world: World, container: Container, assignment: Assignment | None, wanted: CPUSet | None) -> str:
    """Return what keeps a container off its CPUs, as the end of "it waits for"; "" if nothing does."""
    if wanted is None or not world.is_ready:
        return "" if wanted is None else "the connection to the engine"
    if before_it := _starts_before_it(world, assignment):
        return before_it
    if container.order:
        return f"the engine to move it to {container.order.update.cpus}"
    if isinstance(container.line, Paused):
        return "the next retry"
    if container.is_idle:
        return ""
    if is_where_it_should_be(world, container, assignment, wanted):
        return _own_notice(world, assignment)
    # An exclusive container waits for every other one on its CPUs; one in the shared pool for exclusive ones only.
    missing = wanted if assignment else wanted - container.place.seen
    # What the shared pool keeps as yet comes free when what replaces it there is left.
    kept = wanted & world.state.lent if assignment else EMPTY
    missing = missing - kept | (world.state.leaving & world.state.shared if kept else EMPTY)
    candidates = world.containers if assignment else world.state.assignments
    others = [
        other
        for key in (candidates if missing else ())
        if (other := world.containers.get(key))
        and key != container.view.key
        and other.wish.standing is Standing.MANAGED
        and other.footprint & missing.mask
    ]
    if not others:
        return _own_notice(world, assignment)
    notices = [
        longest_notice(world, theirs, missing)
        for other in others
        if (theirs := world.state.assignments.get(other.view.key))
        and theirs.leaving
        and not theirs.leaving.is_due
        and theirs.leaving.cpus.mask & missing.mask
    ]
    after = f", after {max(notices):g} s of notice" if notices else ""
    names = sorted((other.view.name for other in others), key=natural)
    reached = CPUSet.from_mask(reduce(or_, (other.footprint for other in others)) & missing.mask)
    until_then = f": until then the shared pool needs {kept}" if kept else ""
    return f"{some(names[:_SHOWN_NAMES], of=len(names))} to leave {reached}{after}{until_then}"


def _starts_before_it(world: World, assignment: Assignment | None) -> str:
    """Return what may still start on CPUs of a grant by what was told before it, as the end of "it waits for"; "" if
    nothing may. What hangs there is named among the problems.
    """
    if assignment is None or world.hand is None or world.hand.sent is None:
        return ""
    cpus = CPUSet.from_mask(assignment.cpus.mask & world.newborns)
    return f"what starts by an older order to leave {cpus}" if cpus else ""


def _own_notice(world: World, assignment: Assignment | None) -> str:
    leaving = assignment.leaving if assignment else None
    if assignment is None or leaving is None or leaving.is_due:
        return ""
    longest = longest_notice(world, assignment, leaving.cpus)
    return f"its acknowledgement of take {leaving.number} ({leaving.cpus}), for {longest:g} s at most"


def explanation(
    world: World, container: Container, assignment: Assignment | None, refused: Refused | None, wanted: CPUSet | None
) -> tuple[str, ...]:
    """Return all sentences about a container, the most important first."""
    said = [*_why(world, container, assignment, refused)]
    if rule := container.wish.rule:
        said.append(f"Its labels are completed by a rule of the configuration: {rule}.")
    if assignment and _is_elastic(world, assignment):
        said.append(_size(world, container, assignment))
    if wanted is not None:
        said += _where(world, container, assignment, wanted)
    if assignment:
        said += _changes(assignment)
    if assignment and is_quota_lifted(world, container, assignment):
        limit = cpu_limit(world.state.originals[container.view.key])
        said.append(
            f"Its limit of {cpus(limit)} is lifted while it has exclusive CPUs, and restored when it gives them up."
        )
    if leg := leg_told(world, container):
        said.append(leg)
    if begin := exec_told(world, container):
        said.append(begin)
    if container.keeps_mems and container.wish.mems is MemsRule.FOLLOW:
        said.append("Its memory nodes stay as they are: an order that changed them failed.")
    if container.fault:
        failed = f"The last order failed: {trouble(world, container)}"
        said.append(failed if container.fault.text else f"It has fewer CPUs than its group: {_HELD_BACK}.")
    refusal = container.wish.refusal
    is_said = refused is not None and refusal is not None and refused.refusal.code is refusal.code
    found = (harmless if is_said else warnings)(container.wish)
    said += (f"Warning: {each}" for each in (*found, *named_none(world, container)))
    return tuple(said)


def _why(world: World, container: Container, assignment: Assignment | None, refused: Refused | None) -> list[str]:
    wish = container.wish
    if world.is_releasing:
        whose = "unit of the host" if container.view.kind is ViewKind.UNIT else "container"
        return [f"The sidecar is releasing every {whose}: its original settings are being restored."]
    if wish.standing is Standing.STRANGER:
        return [f"It is {pinned_text(world, container)}."]
    if wish.standing is Standing.UNMANAGED:
        return [f"It is not managed: {LEFT_ALONE if wish.refusal is None else sentence(wish.refusal)}."]
    if world.settings.policy is PolicyName.NONE:
        return [f"The policy is none: no {noun(container.view.key)} is changed."]
    if assignment:
        if _is_elastic(world, assignment) and len(assignment.cpus) != assignment.demand.cpus:
            asked = exclusive_cpus(assignment.demand.cpus)
            return [f"It asked for {asked} and has {len(assignment.cpus)} now: {assignment.cpus}."]
        return [f"It asked for {exclusive_cpus(assignment.demand.cpus)} and was granted {assignment.cpus}."]
    if refused:
        return [f"It was refused: {why_refused(world, refused)}.", *_prospect(world, container, refused)]
    if wish.demand:
        return [f"It will ask for {exclusive_cpus(wish.demand.cpus)} when it starts."]
    if wish.is_kept_out:
        return ["It was managed before, and is kept out from its next stop: until then it runs in the shared pool."]
    if wish.pin:
        return [f"It is {pin_text(world, container)}."]
    if container.view.kind is ViewKind.UNIT:
        return [f"It is a unit of the host, which is confined to the shared pool, {world.state.shared}."]
    if container.is_unread:
        return [f"Its labels are not known yet, so it runs in the shared pool, {world.state.shared}."]
    return [f"It asks for no exclusive CPUs, so it runs in the shared pool, {world.state.shared}."]


def _prospect(world: World, container: Container, refused: Refused) -> Iterator[str]:
    """Yield what becomes of a refused container, and when it is granted CPUs after all."""
    demand, turn = refused.demand, turn_of(world, container.view.key)
    is_waiting = demand is not None and demand.shortage is Shortage.WAIT
    if demand is None:
        yield "It runs in the shared pool." if not container.is_idle else "It would run in the shared pool."
    elif refused.refusal.code is RefusalCode.AWAITS_PLACE:
        yield "It runs in the shared pool until then." if not container.is_idle else "It has not started yet."
    elif demand.shortage is Shortage.STOP and not container.is_idle:
        yield "It is being stopped, as its label asks."
    elif demand.shortage is Shortage.STOP and not is_coming(container):
        yield "It was stopped, as its label asks. The engine restarts no container that was stopped, by any policy."
        yield "It asks again when it is next started."
    elif not is_coming(container):
        yield "It asks again when it is next started."
    elif not is_hopeful(refused):
        head = "It runs in the shared pool and does not wait" if is_waiting else "It runs in the shared pool"
        yield f"{head}: no release of CPUs makes room for it."
    elif container.is_idle:
        yield "It gets them if they come free before it starts, and asks again when it does."
    elif turn:
        yield "It runs in the shared pool until they are available."
    else:
        yield "It runs in the shared pool, and asks again when it is next started."
    if turn:
        yield f"It is {ordinal(turn)} of {len(world.queue)} waiting."
        if passed := sorted((each.name for each in overtakers(world.state, refused)), key=natural):
            yield f"Granted meanwhile, because their requests fit: {some(passed[:_SHOWN_NAMES], of=len(passed))}."


def _where(world: World, container: Container, assignment: Assignment | None, wanted: CPUSet) -> list[str]:
    seen = without_offline(world, container.place.seen)
    configured = without_offline(world, container.place.configured)
    if container.is_idle:
        if assignment and container.view.phase not in (Phase.CREATED, Phase.RESTARTING):
            return [f"It is not running ({container.view.phase}); its CPUs are held for a while in case it restarts."]
        if before_it := _starts_before_it(world, assignment):
            return [f"It is not running ({container.view.phase}); it waits for {before_it}."]
        if awaits_answer(world, container):
            return [f"It is not running ({container.view.phase}); its runtime asks the sidecar before it starts."]
        return [f"It is not running ({container.view.phase}); it would start on {configured}."]
    if assignment and assignment.leaving:
        return [f"It runs on {seen} now.", _leaving(world, assignment, assignment.leaving)]
    if is_where_it_should_be(world, container, assignment, wanted):
        if not assignment:
            return ["It runs on exactly these."]
        if is_alone(world, container):
            is_unit = container.view.key.is_unit
            others = "no container and no other unit" if is_unit else "no other container of the engine"
            return [f"It runs on exactly these, and {others} does."]
        found, beside = clashes_of(world, assignment), company(world, container)
        sentences = ["It runs on exactly these.", f"{beside}." if beside else "", _capital(clash_text(found))]
        return [each for each in sentences if each]
    waits = waits_for(world, container, assignment, wanted)
    return [f"It runs on {seen} now and should run on {wanted}" + (f"; it waits for {waits}." if waits else ".")]


def _capital(clause: str) -> str:
    """Return a clause as a sentence; "" for ""."""
    return f"{clause[:1].upper()}{clause[1:]}." if clause else ""


def _is_elastic(world: World, assignment: Assignment) -> bool:
    return world.settings.policy is PolicyName.DYNAMIC and assignment.demand.floor < assignment.demand.ceiling


def _size(world: World, container: Container, assignment: Assignment) -> str:
    """Return what decides its size, and what that amounts to now."""
    demand = assignment.demand
    head = f"It may have {demand.floor} to {cpus(demand.ceiling)}"
    match demand.scale:
        case Scale.FILL:
            return f"{head}: it gets a share of the spare CPUs, by its weight of {demand.weight}."
        case Scale.LOAD:
            load = world.loads.get(container.view.key)
            if load is None:
                return f"{head}: its load decides, and no measurement has called for a change yet."
            wish = wished(assignment, load, world.settings.band)
            used = f"it used {load.use:.1f} when last measured out of range, which calls for {wish}"
            return f"{head}: its load decides; {used}; its weight is {demand.weight}."
        case Scale.MANUAL:
            ordered = assignment.ordered
            said = "it has not been used yet" if ordered is None else f"the last order was {cpus(ordered)}"
            about = "; ".join(filter(None, (said, *about_size(world, container, assignment))))
            return f"{head}: `cpuset-sidecar resize` decides; {about}."
    assert_never(demand.scale)


def _leaving(world: World, assignment: Assignment, leaving: Leaving) -> str:
    if leaving.is_due:
        return f"It is losing {named(leaving.cpus)} now (take {leaving.number}): {why_leaving(assignment)}."
    until = f"until it acknowledges, for {longest_notice(world, assignment, leaving.cpus):g} s at most"
    return f"It keeps {named(leaving.cpus)} (take {leaving.number}) {until}: {why_leaving(assignment)}."


def _changes(assignment: Assignment) -> Iterator[str]:
    """Yield why CPUs moved, the last change first."""
    yield from (change(move) for move in reversed(assignment.moves))
    if assignment.forced:
        times = agree(assignment.forced, "once", f"{assignment.forced} times")
        yield f"CPUs were taken from it {times} before it acknowledged."


def change(move: Move) -> str:
    """Return a change of a grant, as a sentence."""
    if move.gained and move.lost:
        return f"It exchanged {named(move.lost)} for {move.gained}: {why(move.cause)}."
    what = f"gained {named(move.gained)}" if move.gained else f"gave up {named(move.lost)}"
    return f"It {what}: {why(move.cause)}."
