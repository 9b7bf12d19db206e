"""Random values of `state`, for properties."""

from __future__ import annotations

from hypothesis import strategies as st

from state.cpuset import MAX_CPU, CPUSet
from state.demand import Demand, QuotaRule, Shortage
from state.key import ContainerKey
from state.model import Originals, Refused, State
from state.refusal import Lost, Neighbours, Part, Refusal, RefusalCode, Said, TooFew
from state.topology import Topology, topology

cpu_numbers = st.one_of(st.integers(0, 15), st.integers(0, MAX_CPU))
"""CPU numbers, small ones often, so that sets touch."""

cpu_sets = st.one_of(
    st.frozensets(cpu_numbers, max_size=40).map(CPUSet),
    st.tuples(cpu_numbers, cpu_numbers).map(lambda pair: CPUSet(range(min(pair), max(pair) + 1))),
)

names = st.text("abcdefghijklmnopqrstuvwxyz-_.é", min_size=1, max_size=12)
ENGINES = ("docker", "podman")

keys = st.integers(0, 40).map(lambda number: ContainerKey(ENGINES[number % 2], f"{number:064x}"))


GROUP_COUNTS = st.integers(1, 4)
"""In how many groups a machine's CPUs are, on each level."""

ONLINE = st.frozensets(st.integers(0, 40), min_size=1, max_size=24).map(CPUSet)
"""The CPUs of a machine, with gaps."""


@st.composite
def partitions(draw: st.DrawFn, cpus: CPUSet) -> list[CPUSet]:
    """Draw the CPUs in groups, each CPU in one."""
    count = draw(GROUP_COUNTS)
    groups: list[list[int]] = [[] for _ in range(count)]
    # One draw for all CPUs, a byte for each: a draw for each CPU took most of the time of these tests.
    for cpu, byte in zip(cpus, draw(st.binary(min_size=len(cpus), max_size=len(cpus))), strict=True):
        groups[byte % count].append(cpu)
    return [CPUSet(group) for group in groups if group]


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Draw machines that need not be regular; any level above the cores may be missing."""
    online = draw(ONLINE)
    cores = draw(partitions(online))
    has_caches, has_nodes, has_packages = (draw(st.booleans()) for _ in range(3))
    return topology(
        cores=cores,
        caches=draw(partitions(online)) if has_caches else None,
        nodes=dict(enumerate(draw(partitions(online)), 1)) if has_nodes else None,
        packages=dict(enumerate(draw(partitions(online)))) if has_packages else None,
        isolated=draw(cpu_sets),
    )


demands = st.builds(
    Demand,
    container=keys,
    name=names,
    cpus=st.integers(1, 64),
    shortage=st.sampled_from(Shortage),
    quota=st.sampled_from(QuotaRule),
    options=st.none() | st.lists(names, max_size=3).map(tuple),
)

details = st.one_of(
    st.none(),
    st.builds(Said, names),
    st.builds(Lost, cpu_sets, st.integers(1, 64)),
    st.builds(
        TooFew,
        count=st.integers(1, 64),
        free=st.lists(st.builds(Part, cpu_sets, st.none() | st.integers(0, 3)), max_size=3).map(tuple),
        neighbours=st.none() | st.builds(Neighbours, reserved=cpu_sets, holder_names=st.lists(names).map(tuple)),
    ),
)

originals = st.builds(
    Originals,
    cpuset=cpu_sets.map(str),
    mems=st.sampled_from(["", "0", "0-1"]),
    nano_cpus=st.integers(0, 64_000_000_000),
    cpu_quota=st.integers(-1, 1_000_000),
    cpu_period=st.integers(0, 1_000_000),
)


@st.composite
def states(draw: st.DrawFn) -> State:
    """Draw a State after a random history of grants, refusals, releases and memories; lawful by construction."""
    online = draw(cpu_sets.filter(bool))
    reserved = draw(st.sets(st.sampled_from(sorted(online)), min_size=1, max_size=2).map(CPUSet))
    state = State(policy=draw(st.sampled_from(["static", "dynamic"])), online=online, reserved=reserved, strict=False)
    for demand in draw(st.lists(demands, max_size=8)):
        free = sorted(state.assignable)
        match draw(st.sampled_from(["grant", "refuse", "release", "remember", "forget"])):
            case "grant" if len(free) >= demand.cpus and demand.container not in state.assignments:
                state = state.granted(demand, CPUSet(free[: demand.cpus]))
            case "refuse":
                code, detail = draw(st.sampled_from(RefusalCode)), draw(details)
                state = state.refused(
                    Refused(container=demand.container, name=demand.name, refusal=Refusal(code, detail), demand=demand)
                )
            case "release":
                state = state.released(demand.container)
            case "remember":
                state = state.remembering(demand.container, draw(originals))
            case _:
                state = state.forgetting(demand.container)
    return state
