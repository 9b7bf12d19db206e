"""The fast algorithms against the kubelet's order written literally, on random machines."""

from __future__ import annotations

import random

import pytest

from sidecar.decide.placement.order.along_caches import along_caches
from sidecar.decide.placement.order.packed import packed
from sidecar.decide.placement.order.spread import spread
from state.cpuset import CPUSet, union
from state.topology import Topology, topology
from tests.support.decide.literal import literal

MACHINES = 150
CALLS = 5


def random_machine(rng: random.Random) -> Topology:
    """Return sockets in nodes or nodes in sockets, caches in nodes, cores of 1 to 4 threads; even or not, numbered
    anyhow, and with ids that have holes and are in no order.
    """
    wide, deep, caches, cores = (rng.randint(1, 3) for _ in range(4))
    threads, is_even = rng.choice([1, 2, 2, 4]), rng.random() < 0.7
    shape = []
    for cache in range(wide * deep * caches):
        for _ in range(cores if is_even else rng.randint(1, 4)):
            width = threads if is_even or rng.random() < 0.7 else 1
            shape.append((cache // (deep * caches), cache // caches, cache, width))
    total = sum(width for *_, width in shape)
    if rng.random() < 0.4:
        numbers = iter(range(total))
        held = [CPUSet(next(numbers) for _ in range(width)) for *_, width in shape]
    else:
        in_turn = [core for thread in range(4) for core, (*_, width) in enumerate(shape) if width > thread]
        if rng.random() < 0.5:
            rng.shuffle(in_turn)
        held = [CPUSet(cpu for cpu, owner in enumerate(in_turn) if owner == core) for core in range(len(shape))]

    def level(column: int) -> dict[int, CPUSet]:
        groups = sorted({row[column] for row in shape})
        ids = rng.sample(range(40), len(groups)) if rng.random() < 0.3 else groups
        return {
            id: union(cpus for cpus, row in zip(held, shape, strict=True) if row[column] == group)
            for id, group in zip(ids, groups, strict=True)
        }

    outer, inner = level(0), level(1)
    packages, nodes = rng.choice([(outer, inner), (inner, outer), (outer, outer)])
    return topology(cores=held, caches=level(2), nodes=nodes, packages=packages)


def random_free(rng: random.Random, machine: Topology) -> CPUSet:
    """Return some CPUs, or some cores."""
    density = rng.choice([1.0, 0.9, 0.7, 0.5, 0.3])
    if rng.random() < 0.4:
        return union(core.cpus for core in machine.cores if rng.random() < density)
    return CPUSet(cpu for cpu in machine.online if rng.random() < density)


def cores_of(machine: Topology, cpus: CPUSet) -> int:
    return sum(1 for core in machine.cores if not core.cpus.isdisjoint(cpus))


@pytest.mark.slow
def test_the_order_is_the_literal_one_on_random_machines() -> None:
    """Packed and along caches always; spread unless it has more different cores."""
    rng, compared, wider = random.Random(20), 0, 0
    for _ in range(MACHINES):
        machine = random_machine(rng)
        for _ in range(CALLS):
            free = random_free(rng, machine)
            count = rng.randint(1, len(free) + 1)
            for name, place in (("packed", packed), ("along caches", along_caches), ("spread", spread)):
                expected = literal(machine, set(free), count, name)
                found = place(machine, free, count)
                compared += 1
                if name == "spread" and found is not None and found != CPUSet(expected or ()):
                    assert cores_of(machine, found) > cores_of(machine, CPUSet(expected or ()))
                    wider += 1
                    continue
                assert found == (None if expected is None else CPUSet(expected)), (name, machine, free, count)
    assert compared == 3 * MACHINES * CALLS
    assert 0 < wider < compared / 10
