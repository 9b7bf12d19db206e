"""Whatever people, workloads and crashes do to a simulated host: the laws hold, and it comes to rest."""

from __future__ import annotations

from itertools import islice
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.simulation.virtual_host import Simulation
from state.cpuset import CPUSet
from tests.simulation.hosts import host
from tests.support.churn import Act, Mix, Scene, Verb, acts
from tests.support.kinds import ELASTIC, PLAIN
from tests.support.long_examples import UNSHRUNK

NAMES = ("a", "b", "c", "d")

MIX = Mix(
    kinds=(PLAIN, ELASTIC),
    verbs={
        Verb.CREATE: 4,
        Verb.START: 1,
        Verb.STOP: 1,
        Verb.REMOVE: 1,
        Verb.LOAD: 2,
        Verb.RESIZE: 1,
        Verb.DEFRAGMENT: 1,
        Verb.SWITCH: 1,
    },
)


def scene_of(sim: Simulation) -> Scene:
    """Return the present containers, and all CPUs but the first."""
    there = [name for name in NAMES if sim.is_there(name)]
    online = sim.world.topology.online
    return Scene(
        containers=there, has_room=len(there) < len(NAMES), online=online, present=sim.machine.online - CPUSet.of(0)
    )


def do(sim: Simulation, act: Act, chance: Random) -> None:
    """Carry out one action."""
    match act.verb:
        case Verb.CREATE:
            name = next(name for name in NAMES if not sim.is_there(name))
            limit = act.wanted.limits.nano_cpus / 1e9 or None
            moves_in = chance.choice((None, 0.05, 3.0))
            labels, follows = act.wanted.labels_of(len(sim.log)), moves_in is not None
            sim.create(name, labels, limit=limit, follows=follows, moves_in=moves_in, demand=act.wanted.load)
            sim.run(name)
        case Verb.START | Verb.STOP | Verb.REMOVE:
            getattr(sim, act.verb)(act.container)
        case Verb.LOAD:
            sim.set_demand(act.container, act.load)
        case Verb.RESIZE:
            sim.resize(act.container, act.size)
        case Verb.DEFRAGMENT:
            sim.defragment()
        case Verb.SWITCH:
            sim.switch_on(act.cpus) if act.cpus <= sim.world.topology.offline else sim.switch_off(act.cpus)
        case _:
            pass


@settings(max_examples=60, deadline=None, phases=UNSHRUNK)
@given(st.integers(0, 10**6), st.integers(1, 25))
def test_no_history_breaks_a_law_and_each_comes_to_rest(seed: int, count: int) -> None:
    """At rest every running container is on its recorded CPUs, and stays."""
    sim, chance = host(10), Random(seed)
    for act in islice(acts(seed, lambda: scene_of(sim), MIX), count):
        sim.advance(sim.now + chance.random() * 4)
        if chance.random() < 0.1:
            sim.crash_sidecar()
            sim.at(sim.now + chance.randint(1, 6), sim.start_sidecar)
        if act is not None:
            do(sim, act, chance)
    sim.advance(sim.now + 400)
    assert sim.broken == []
    for id, grant in sim.world.state.assignments.items():
        assert sim.cpus_of(grant.name) == grant.cpus, id
    before = len(sim.log)
    sim.advance(sim.now + 100)
    assert sim.log[before:] == []
