"""Redeploys as the tools do them, in virtual time: the service keeps its CPUs."""

from __future__ import annotations

import msgspec
import pytest

from sidecar.decide.settings import PolicyName
from sidecar.simulation.happenings import What
from sidecar.simulation.virtual_host import Simulation
from state.cpuset import CPUSet
from state.topology import uniform
from tests.simulation.hosts import CONFIG, host, said

ROLE = {
    "com.docker.compose.project": "shop",
    "com.docker.compose.service": "app",
    "com.docker.compose.container-number": "1",
}


def recreated(policy: PolicyName, labels: dict[str, str]) -> Simulation:
    """Create a container for all CPUs, then as `docker compose up --force-recreate` does a new one, for the old one."""
    sim = host(4, msgspec.structs.replace(CONFIG, policy=policy))
    wanted = {"cpuset.exclusive": "3", **labels}
    sim.advance(1)
    sim.create("old", wanted)
    sim.run("old")
    sim.advance(10)
    sim.create("new", wanted)
    sim.advance(10.3)
    sim.stop("old")
    sim.advance(10.5)
    sim.remove("old")
    sim.advance(10.7)
    sim.start("new")
    sim.advance(12)
    return sim


@pytest.mark.parametrize("policy", [PolicyName.STATIC, PolicyName.DYNAMIC])
@pytest.mark.parametrize("labels", [ROLE, {}], ids=["compose", "by hand"])
def test_a_recreated_container_starts_on_the_cpus_of_the_old_one(policy: PolicyName, labels: dict[str, str]) -> None:
    """Though none was free when it was created: those of the old one come free before it starts."""
    sim = recreated(policy, labels)
    [started] = [each for each in sim.log if each.what is What.STARTED and each.container == "new"]
    assert started.cpus == sim.cpus_of("new") == CPUSet.of(1, 2, 3)
    assert sim.broken == []


def test_without_linger_a_created_container_starts_on_its_cpus_all_the_same() -> None:
    """Linger is for what stopped."""
    sim = host(8, msgspec.structs.replace(CONFIG, linger_seconds=0.0))
    sim.create("own", {"cpuset.exclusive": "2"})
    sim.run("own")
    sim.advance(2)
    assert said(sim, "own", What.RUNS_ON) == []
    [started] = [each for each in sim.log if each.what is What.STARTED]
    assert started.cpus == sim.cpus_of("own") == CPUSet.of(1, 2)
    sim.stop("own")
    sim.advance(3)
    assert sim.world.state.assignments == {}


def test_a_successor_whose_number_is_not_one_of_whole_cores_is_refused() -> None:
    """As any other container is, though its predecessor left a whole core."""
    sim = host(config=msgspec.structs.replace(CONFIG, linger_seconds=10.0), machine=uniform(cores=4, threads=2))
    sim.create("old", {"cpuset.exclusive": "2", **ROLE})
    sim.run("old")
    sim.advance(2)
    sim.remove("old")
    sim.create("new", {"cpuset.exclusive": "1", "cpuset.max": "4", "cpuset.options": "full-pcpus-only", **ROLE})
    sim.run("new")
    sim.advance(5)
    [refused] = [each.why for each in sim.log if each.what == "refused"]
    assert "not a multiple of the 2 threads per core" in refused
    assert sim.world.state.assignments == {}


def test_a_successor_that_lost_its_cpus_is_granted_some_again_without_its_predecessor() -> None:
    """It waited for the place of the other one in between."""
    sim = host(6, msgspec.structs.replace(CONFIG, linger_seconds=10.0))
    for name, labels in (("one", {}), ("two", {}), ("old", ROLE)):
        sim.create(name, {"cpuset.exclusive": "1", **labels})
        if name != "old":
            sim.run(name)
            sim.advance(sim.now + 1)
    sim.create("new", {"cpuset.exclusive": "2", **ROLE})
    sim.run("new")
    sim.advance(sim.now + 1)
    assert sim.cpus_of("new") == CPUSet.of(4, 5)
    sim.switch_off(CPUSet.of(2))
    sim.advance(sim.now + 2)
    sim.create("late", {"cpuset.exclusive": "1"})
    sim.run("late")
    sim.advance(sim.now + 15)
    assert {each.name for each in sim.world.state.assignments.values()} == {"one", "two", "late"}
    sim.remove("late")
    sim.advance(sim.now + 1)
    assert sim.cpus_of("new") == CPUSet.of(3, 5)
