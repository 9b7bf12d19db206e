"""Whatever people, workloads and crashes do to an imagined host: the laws hold, and it comes to rest."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.simulation.virtual_host import Simulation
from state.cpuset import CPUSet
from tests.simulation.hosts import host, runs

NAMES = ("a", "b", "c", "d")
ACTS = st.tuples(
    st.floats(0.0, 4.0),
    st.sampled_from(("run", "run", "plain", "stop", "start", "remove", "demand", "defragment", "cpu", "sidecar")),
    st.sampled_from(NAMES),
    st.integers(1, 6),
    st.sampled_from((None, 0.05, 3.0)),
)


def act(sim: Simulation, what: str, name: str, number: int, moves_in: float | None) -> None:
    """One thing that happens, if it can."""
    there = sim.is_there(name)
    match what:
        case "run" if not there:
            scale = "load" if number % 2 else ""
            runs(sim, name, number, most=number + 3, scale=scale, follows=moves_in is not None, moves_in=moves_in)
        case "plain" if not there:
            sim.create(name)
            sim.run(name)
        case "stop" if there:
            sim.stop(name)
        case "start" if there:
            sim.start(name)
        case "remove" if there:
            sim.remove(name)
        case "demand" if there:
            sim.set_demand(name, number * 1.3)
        case "defragment":
            sim.defragment()
        case "cpu":
            cpu = CPUSet.of(number)
            sim.switch_on(cpu) if cpu <= sim.world.topology.offline else sim.switch_off(cpu)
        case "sidecar":
            sim.crash_sidecar()
            sim.at(sim.now + number, sim.start_sidecar)
        case _:
            pass


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTS, max_size=25))
def test_no_history_breaks_a_law_and_each_comes_to_rest(acts: list[tuple[float, str, str, int, float | None]]) -> None:
    """At rest everybody who runs is where the books say, and stays."""
    sim = host(10)
    for pause, what, name, number, moves_in in acts:
        sim.advance(sim.now + pause)
        act(sim, what, name, number, moves_in)
    sim.advance(sim.now + 400)
    assert sim.broken == []
    for id, grant in sim.world.state.assignments.items():
        assert sim.cpus_of(grant.name) == grant.cpus, id
    before = len(sim.log)
    sim.advance(sim.now + 100)
    assert sim.log[before:] == []
