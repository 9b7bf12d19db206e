"""The law of restarts in unrest: the sidecar may be restarted at any moment, and what people read becomes the same.

A history is played twice up to some moment, often with orders and looks under way, timers running and events missed.
Then one of the two sidecars is restarted, and the other goes on. Both get the same news: the machine is read, the
outstanding orders take effect or fail, stops fail, held starts are given up, and everything is looked at. At rest,
timers end in the same order for both. The promise is:

1. **At once**, as soon as everything was looked at: what each container is, the CPUs that it is granted, its refusal,
   its place in the queue, and what the machine can give. The rest depends on what is still under way: after a restart
   a place was seen that was in doubt before.
2. **At rest**: everything that the law of restarts at rest compares.

A restart changes times, and what depends on them. It may do no more than this:

- A rest or a notice is timed again. The changes on the way (`moves`) and whether a workload was in time (`forced`) are
  not compared.
- Loads are measured again. Until then a container that follows its load keeps its size.
- A sidecar that starts reads the machine before it looks at any container. If CPUs changed meanwhile, it completes
  grants before it knows what is gone or pinned by hand, and undoes what it may not keep (`State.unlooked`).
- A grant that only one of the two made, and which ended soon, is counted there (`since`). The order of the grants is
  compared, and not their numbers.
- Which containers are stuck, because the engine does not answer their orders, is learned again. So an arrival that was
  not seen before may get other CPUs, and as many. For the comparison neither of the two avoids stuck ones any more.
- Where an order that was lost may still put a container is forgotten. If one is pinned by hand, no other container is
  granted CPUs where it may be, so this moment is passed over.
- That a container is gone may be told by the answer to its order: then what waits is asked before its successor is
  known. So such a moment is passed over, too.
- What is recorded of others keeps the name of a container without records of its own that was renamed while the sidecar
  was down. For the comparison it has the new name.
- Of a container whose start is under way only a glance is possible, which shows no cpuset. A pin by hand, and what
  follows from it, is known when the start is over.
- One that has run and ended since the only glance at it, before its start, is still to start for a sidecar that goes
  on, which may grant it what comes free before its first look. After a restart it is one that ended. Such a moment is
  passed over.
- Of one whose lock is held, the first glance shows whether and where it runs, and no other does: a restart takes a new
  first one.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final
from unittest.mock import patch

from sidecar.decide.container.container import Standing
from sidecar.decide.container.line import Ends
from sidecar.decide.facts import Phase, Purpose, StopFailed
from sidecar.decide.world import World, replace
from state.cpuset import EMPTY
from state.demand import Scale
from state.key import ContainerKey
from state.renaming import with_name
from tests.decide.lawbook.restartlaw import differences, told, tries_memory_again
from tests.support.decide import strictstarts
from tests.support.decide.histories import BEGUN_WITH, MACHINES, begun, random_history
from tests.support.decide.reality import Reality
from tests.support.decide.workloads import measure_all

_STEPS: Final = 3000
"""More than any restart takes."""

_ENDS: Final = (Purpose.GRACE, Purpose.LINGER, Purpose.COOLDOWN, Purpose.RECORD)
"""The order in which timers end at rest."""

_OF_A_GLANCE: Final = ("phase", "cpus", "explanation", "is_settled", "projected never_alone")

AT_ONCE: Final = frozenset(
    {
        *("sharing", "granted", "original", "refusal", "turn", "clash", "since", "asked", "ordered"),
        *("floor", "ceiling", "reserved", "exclusive", "shared", "capacity", "free", "waiting"),
    }
)
"""The fields that are the same as soon as everything was looked at."""


def changed_in_unrest(seed: int, length: int = 60) -> list[str]:
    """Restart the sidecar at some moment of the history of this seed, and return what reads differently."""
    going, restarted = _played(seed, length), _played(seed, length)
    known = going.world.topology
    # What is known of offline threads no machine tells.
    is_changed = replace(going.topology(), narrowed=known.narrowed) != known
    if going.world.is_releasing or is_changed or _is_starting(going):
        return []
    if _may_land_on_a_pin(going.world) or _is_ordered_and_gone(going) or _ended_after_a_glance(going):
        return []
    # What was refused earlier is asked once more: a refusal tells of the moment at which it was last asked.
    for each in (going, restarted):
        each.read_topology()
    asked = {key: each.wish.demand for key, each in going.world.containers.items() if key in going.world.loads}
    is_measured = any(demand and demand.scale is Scale.LOAD for demand in asked.values())
    with patch.object(World, "stuck_beside", lambda world, key: EMPTY):
        return _changed(going, restarted, takes_effect=seed % 4 > 0, is_measured=is_measured)


def _changed(going: Reality, restarted: Reality, *, takes_effect: bool, is_measured: bool) -> list[str]:
    """Restart one of the two, and return what reads differently: at once, or else at rest."""
    names = {key: each.view.name for key, each in going.world.containers.items()}
    # What a sidecar decides that has only glanced at a container, because its start is held, another one does not.
    for each in (going, restarted):
        _give_up_starts(each)
    restarted.crash([takes_effect])
    _answer(going, takes_effect=takes_effect)
    # A restart ends the connections over which containers are stopped.
    stops, going.stopping = going.stopping, []
    for each in (going, restarted):
        _look_at_everything(each)
    restarted.world = _with_names(restarted.world, names)
    if stops:
        going.feed(*(StopFailed(order.container, "it cannot be stopped") for order in stops))
    found = {} if is_measured else _differences(going, restarted)
    if at_once := [words for where, words in found.items() if where.rpartition(" ")[2] in AT_ONCE]:
        return [f"at once, {words}" for words in at_once]
    memory = tries_memory_again(going.world)
    for each in (going, restarted):
        _rest(each)
    memory |= _glanced_again(going.world, restarted.world)
    return [f"at rest, {words}" for where, words in _differences(going, restarted).items() if where not in memory]


def _glanced_again(going: World, restarted: World) -> set[str]:
    """Return the fields that tell whether and where containers ran at different first glances, of those that nothing
    else showed: their own, and those of neighbours that differ in nothing else.
    """
    others = restarted.containers
    both = ((each, others[key]) for key, each in going.containers.items() if key in others)
    glanced = {
        each.view.name
        for each, other in both
        if each.view.is_glance and other.view.is_glance
        if (other.place, other.view.phase) != (each.place, each.view.phase)
    }
    was, now = told(going), told(restarted)
    beside = {where for where in was if where.endswith(" neighbours") and glanced}

    def others_beside(value: object) -> list[object]:
        assert isinstance(value, list | tuple)
        return [each for each in value if each["name"] not in glanced]

    same = {where for where in beside if where in now and others_beside(was[where]) == others_beside(now[where])}
    return same | {f"{name} {field}" for name in glanced for field in _OF_A_GLANCE}


def _with_names(world: World, names: Mapping[ContainerKey, str]) -> World:
    """Return the world in which the records have the present names of containers that had these names."""
    state = world.state
    for key, was in names.items():
        if (known := world.containers.get(key)) and known.view.name != was:
            state = with_name(state, was, known.view.name)
    return replace(world, state=state)


def _played(seed: int, length: int) -> Reality:
    """Return the host in the middle of the history of this seed."""
    rng = random.Random(seed)
    machine, settings = rng.choice(MACHINES), rng.choice(BEGUN_WITH)
    ops = random_history(rng, length)
    return begun(machine, settings, ops, rng.randint(1, len(ops)))


def _is_starting(reality: Reality) -> bool:
    """Return whether a start was answered and is under way."""
    return any(real.verdict is not None for real in reality.containers.values())


def _may_land_on_a_pin(world: World) -> bool:
    """Return whether an order that was lost may still put a container elsewhere that is pinned by hand."""
    by_hand = (each for each in world.containers.values() if each.wish.standing is Standing.STRANGER)
    return any(doubt.ends is Ends.ORDER for each in by_hand for doubt in each.doubts)


def _is_ordered_and_gone(reality: Reality) -> bool:
    """Return whether an order is outstanding for a container that does not exist any more."""
    return any(order.container not in reality.containers for order in reality.flight)


def _ended_after_a_glance(reality: Reality) -> bool:
    """Return whether a container ended that only a glance before its start has shown."""
    known = ((reality.world.containers.get(key), real) for key, real in reality.containers.items())
    glanced = ((each.view, real) for each, real in known if each and each.view.is_glance)
    return any(view.phase is Phase.CREATED and real.phase is Phase.EXITED for view, real in glanced)


def _answer(reality: Reality, *, takes_effect: bool) -> None:
    """End the orders that are outstanding or lost as they ended for the sidecar that was restarted."""
    reality.read_topology()
    for order in list(reality.flight):
        if order in reality.flight:
            reality.deliver(reality.flight.index(order), "ok" if takes_effect else "failed")
    while takes_effect and reality.land_late():
        pass
    reality.late.clear()


def _give_up_starts(reality: Reality) -> None:
    for real in list(reality.containers.values()):
        strictstarts.let_go(reality, real)


def _look_at_everything(reality: Reality) -> None:
    reality.list_rests = False
    if not reality.is_reached:
        reality.connect()
    reality.take_inventory()
    while reality.looks or reality.inventories:
        if reality.looks:
            reality.deliver_look(0)
        else:
            reality.deliver_inventory(0)


def _rest(reality: Reality) -> None:
    # A container that follows its load grows into what comes free from now on.
    measure_all(reality)
    for _ in range(_STEPS):
        # In the same order for both, whichever began first.
        reality.timers.sort(key=lambda timer: (_ENDS.index(timer.purpose), timer.container))
        if not strictstarts.one_goes_on(reality) and not reality.go_on() and not measure_all(reality):
            return
    raise AssertionError("it never comes to rest")


def _differences(going: Reality, restarted: Reality) -> dict[str, str]:
    """Return what reads differently, but for times, as a sentence for each field."""
    return differences(_timeless(going.world), _timeless(restarted.world))


def _timeless(world: World) -> World:
    """Return the world without the changes on the way, which are a matter of time, and with its grants numbered anew in
    their order.
    """
    state = world.state
    numbers = {each.container: number for number, each in enumerate(state.by_age)}
    grants = {key: replace(each, since=numbers[key], forced=0, moves=()) for key, each in state.assignments.items()}
    return replace(world, state=replace(state, assignments=grants, forced=0, acknowledged=0))
