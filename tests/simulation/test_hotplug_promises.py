"""Promises of the page about hotplug, each by a scenario in which it was once broken."""

from __future__ import annotations

import msgspec
import pytest

from sidecar.decide.placement.options import STRICT_CPU_RESERVATION
from sidecar.decide.settings import IsolatedRule, PolicyName
from sidecar.simulation.happenings import What
from sidecar.simulation.virtual_host import Simulation
from state.cpuset import CPUSet
from state.topology import Topology, uniform
from tests.simulation.hosts import CONFIG, host, said
from tests.support.decide.rights import EVERY_RIGHT

replace = msgspec.structs.replace

STATIC = replace(CONFIG, policy=PolicyName.STATIC)

ADAPTED = "the recorded grants were adapted to this machine and configuration"


def starts(sim: Simulation, name: str, cpus: int, **labels: str) -> None:
    """Create and start a container with these labels, and let it settle."""
    sim.create(name, {"cpuset.exclusive": str(cpus)} | {f"cpuset.{key}": said for key, said in labels.items()})
    sim.run(name)
    sim.advance(sim.now + 5)


def goes(sim: Simulation, cpus: str, *, waits: float = 3) -> None:
    """Take CPUs offline, and wait."""
    sim.switch_off(CPUSet.parse(cpus))
    sim.advance(sim.now + waits)


def comes_back(sim: Simulation, cpus: str) -> None:
    sim.switch_on(CPUSet.parse(cpus))
    sim.advance(sim.now + 3)


def has(sim: Simulation, name: str) -> str:
    return str(sim.cpus_of(name))


def test_a_floor_is_completed_from_what_an_elder_has_above_its_own() -> None:
    """With notice: the fixed container waits for the CPU, and keeps it when its own is back."""
    sim = host(6)
    starts(sim, "elastic", 1, max="3")
    starts(sim, "fixed", 2)
    assert (has(sim, "elastic"), has(sim, "fixed")) == ("1-3", "4-5")
    goes(sim, "5", waits=1)
    assert (has(sim, "elastic"), has(sim, "fixed")) == ("1-3", "4")
    sim.advance(sim.now + 2)
    assert (has(sim, "elastic"), has(sim, "fixed")) == ("1-2", "3-4")
    comes_back(sim, "5")
    assert (has(sim, "elastic"), has(sim, "fixed")) == ("1-2,5", "3-4")


def test_a_neighbour_keeps_its_original_cpu_and_has_its_notice() -> None:
    sim = host(4)
    starts(sim, "fixed", 1)
    starts(sim, "elastic", 1, max="2", grace="20s")
    goes(sim, "1", waits=19)
    assert (has(sim, "fixed"), has(sim, "elastic")) == ("0", "2-3")
    sim.advance(sim.now + 2)
    assert (has(sim, "fixed"), has(sim, "elastic")) == ("3", "2")


def test_a_container_that_lost_no_cpu_shrinks_before_it_loses_all() -> None:
    """Four of the six CPUs that are left must be shared."""
    sim = host(8, replace(CONFIG, shared_min=4))
    starts(sim, "a", 1, max="4")
    assert has(sim, "a") == "1-4"
    goes(sim, "6-7")
    assert has(sim, "a") == "1-2"


def test_isolated_cpus_are_kept_when_giving_them_up_would_not_help_the_pool() -> None:
    """The pool has three CPUs, and would have three without the grant."""
    machine = replace(uniform(cores=8), isolated=CPUSet.of(4, 5, 6, 7))
    sim = host(config=replace(STATIC, isolated=IsolatedRule.PREFER, shared_min=4), machine=machine)
    starts(sim, "a", 4)
    goes(sim, "3")
    assert has(sim, "a") == "4-7"


@pytest.mark.parametrize(
    ("machine", "rule", "count", "gone", "expected"),
    [
        (uniform(packages=2, nodes=1, cores=4), "single", 3, "1-2", "4-6"),
        (uniform(packages=2, nodes=1, cores=2, threads=2), "restricted", 2, "1-2", "3,6"),
    ],
    ids=["single", "restricted"],
)
def test_a_numa_rule_holds_when_cpus_go(machine: Topology, rule: str, count: int, gone: str, expected: str) -> None:
    """Beside the CPU that is left there are too few: it is placed as a new request would be."""
    reserved = CPUSet.of(0, 4) if rule == "restricted" else CPUSet.of(0)
    sim = host(config=replace(STATIC, reserved=reserved), machine=machine)
    starts(sim, "a", count, numa=rule)
    goes(sim, gone)
    assert has(sim, "a") == expected


def test_an_elastic_container_shrinks_to_its_floor_before_it_leaves_its_node() -> None:
    sim = host(machine=uniform(packages=2, nodes=1, cores=3))
    starts(sim, "a", 1, max="2", numa="single")
    assert has(sim, "a") == "1-2"
    goes(sim, "2")
    assert has(sim, "a") == "1"


def test_a_whole_core_is_replaced_by_a_whole_core() -> None:
    """No other container gets the second thread of its core."""
    sim = host(config=replace(STATIC, reserved=CPUSet.of(0, 8)), machine=uniform(cores=8, threads=2))
    starts(sim, "b", 2, options="full-pcpus-only")
    assert has(sim, "b") == "1,9"
    goes(sim, "9")
    assert has(sim, "b") == "2,10"
    starts(sim, "neighbour", 1)
    assert has(sim, "neighbour") == "1"


def test_a_core_with_one_thread_online_is_no_whole_core() -> None:
    """One CPU is not a multiple of the threads of a core, however many CPUs are online."""
    machine = uniform(cores=4, threads=2, adjacent=True)
    sim = host(config=replace(STATIC, reserved=CPUSet.of(0, 1)), machine=machine)
    goes(sim, "7")
    starts(sim, "c", 1, options="full-pcpus-only")
    assert said(sim, "c", "granted") == []


def test_half_cores_are_made_whole_when_their_threads_are_back() -> None:
    """They stay with it meanwhile: no other container can run on a thread that is offline."""
    config = replace(CONFIG, reserved=CPUSet.of(0, 8), options=("full-pcpus-only",))
    sim = host(config=config, machine=uniform(cores=8, threads=2))
    starts(sim, "b", 2, max="8")
    starts(sim, "a", 6)
    assert has(sim, "b") == "1-4,9-12"
    goes(sim, "3,10")
    assert has(sim, "b") == "1-2,4,9,11-12"
    comes_back(sim, "3,10")
    assert has(sim, "b") == "1-4,9-12"


def test_what_lost_its_cpus_is_granted_them_again_when_they_are_back() -> None:
    """It chose to share on a shortage, and not to wait: but it had its CPUs."""
    sim = host(4, STATIC)
    starts(sim, "w", 3)
    goes(sim, "3")
    assert has(sim, "w") == "0-2"
    comes_back(sim, "3")
    assert has(sim, "w") == "1-3"


def test_only_the_newest_grant_ends_and_the_others_keep_what_they_have() -> None:
    """The newest one's CPU completes the oldest: the one between them is not moved."""
    sim = host(6)
    starts(sim, "c", 3)
    starts(sim, "a", 1)
    starts(sim, "d", 1)
    goes(sim, "2")
    assert [has(sim, name) for name in "cad"] == ["1,3,5", "4", "0"]


def test_a_container_that_waits_keeps_its_cpu_when_a_neighbour_is_completed() -> None:
    """There is a CPU above a floor."""
    sim = host(8)
    starts(sim, "b", 4, min="1")
    starts(sim, "c", 2)
    sim.create("a", {"cpuset.exclusive": "1", "cpuset.grace": "60s", "cpuset.on-shortage": "wait"})
    sim.run("a")
    sim.advance(sim.now + 5)
    goes(sim, "5")
    assert [has(sim, name) for name in "bca"] == ["1-3", "4,6", "7"]
    assert len(said(sim, "a", "granted")) == 1


def test_a_grant_that_ends_at_a_start_is_in_the_log() -> None:
    sim = host(3, STATIC)
    starts(sim, "e", 2)
    sim.crash_sidecar()
    goes(sim, "2")
    sim.start_sidecar()
    (why,) = [each.why for each in sim.log if each.what == ADAPTED]
    assert why.startswith("e lost its exclusive CPUs: it held CPUs 1-2, and needs 2 exclusive CPUs")
    assert "can give 1 at most while CPU 2 is offline (1 reserved: 0)" in why


def test_a_replacement_at_a_start_leaves_a_hand_pinned_containers_cpu() -> None:
    """It is found to be pinned there when the engine is reached, after the recorded grant was adapted."""
    sim = host(4, replace(STATIC, tenants_may=EVERY_RIGHT))
    starts(sim, "b", 1)
    sim.crash_sidecar()
    sim.create("pinned", {}, cpuset="2")
    sim.run("pinned")
    goes(sim, "1")
    sim.start_sidecar()
    sim.advance(sim.now + 3)
    assert has(sim, "b") == "3"


def test_a_container_keeps_its_floor_when_another_is_pinned_to_a_cpu_that_it_waits_for() -> None:
    """It gets one that the other container has above its floor."""
    sim = host(8, config=replace(CONFIG, tenants_may=EVERY_RIGHT))
    starts(sim, "b", 2, max="7", grace="5s")
    sim.create("a", {"cpuset.exclusive": "2"})
    sim.run("a")
    sim.advance(sim.now + 1)
    sim.create("pinned", {}, cpuset="7")
    sim.run("pinned")
    sim.advance(sim.now + 10)
    assert (has(sim, "a"), has(sim, "b")) == ("3,6", "1-2,4-5")


def test_a_bystander_keeps_its_cores_when_another_container_has_cpus_above_its_floor() -> None:
    """The nearest CPU belongs to a neighbour at its floor; one that an elastic container can spare is taken instead."""
    machine = uniform(packages=2, nodes=1, cores=2, threads=2)
    sim = host(config=replace(CONFIG, reserved=CPUSet.of(0, 4)), machine=machine)
    starts(sim, "aa", 2)
    starts(sim, "bb", 2)
    starts(sim, "fill", 2, min="1")
    assert [has(sim, name) for name in ("aa", "bb", "fill")] == ["1,5", "2,6", "3,7"]
    goes(sim, "5")
    assert [has(sim, name) for name in ("aa", "bb", "fill")] == ["1,7", "2,6", "3"]


def test_whole_cores_of_one_node_are_given_up_together_and_granted_together() -> None:
    """No other place is lawful: it shares until the thread is back, and then lies as before."""
    machine = uniform(packages=2, nodes=1, cores=2, threads=2)
    sim = host(config=replace(CONFIG, reserved=CPUSet.of(0, 4)), machine=machine)
    starts(sim, "sn", 4, numa="single", options="full-pcpus-only")
    assert has(sim, "sn") == "2-3,6-7"
    goes(sim, "3")
    assert has(sim, "sn") == "0-2,4-7"
    comes_back(sim, "3")
    assert has(sim, "sn") == "2-3,6-7"


def test_a_container_that_loses_its_last_cpu_goes_straight_to_the_next() -> None:
    """What does not run may start there, and is no reason to put it on the reserved CPUs first: it is there already."""
    sim = host(4, STATIC)
    sim.create("never-started")
    starts(sim, "own", 1)
    before = len(said(sim, "own", What.RUNS_ON))
    goes(sim, "1")
    assert has(sim, "own") == "2"
    assert len(said(sim, "own", What.RUNS_ON)) == before + 1


def test_a_pin_that_went_offline_is_no_pin_on_all_others() -> None:
    """The kernel runs the pinned one everywhere: no grant ends for that, and none is kept from it."""
    sim = host(6, replace(STATIC, unmanaged=("pinned",)))
    sim.create("pinned", cpuset="5")
    sim.run("pinned")
    starts(sim, "own", 1)
    goes(sim, "1,5")
    assert len(sim.cpus_of("own")) == 1
    assert said(sim, "own", "refused") == []
    starts(sim, "late", 1)
    assert len(sim.cpus_of("late")) == 1


def test_a_pool_that_is_short_gets_cpus_with_notice_where_the_floor_lies_outside_of_it() -> None:
    """The isolated CPU can be the floor: what else it has leaves it with its notice, and its grant does not end."""
    machine = replace(uniform(cores=8), isolated=CPUSet.of(5))
    config = replace(
        CONFIG,
        reserved=CPUSet.of(0, 1),
        shared_min=3,
        options=(STRICT_CPU_RESERVATION,),
        isolated=IsolatedRule.PREFER,
    )
    sim = Simulation(machine, config)
    starts(sim, "own", 2, min="1", max="4", grace="5s")
    before = sim.cpus_of("own")
    assert CPUSet.of(5) <= before
    goes(sim, "4,6", waits=4.5)
    assert sim.cpus_of("own") == before
    sim.advance(sim.now + 2)
    assert sim.cpus_of("own") == CPUSet.of(5)
    assert said(sim, "own", "refused") == []


def test_what_may_lie_on_more_nodes_at_its_number_takes_its_cpu_back_and_stays() -> None:
    """With one CPU less it lay on more nodes than so many need: it is at its number again, and moves nowhere."""
    sim = Simulation(uniform(packages=2, nodes=2, cores=2), CONFIG)
    starts(sim, "own", 5, min="3", numa="restricted")
    before = sim.cpus_of("own")
    goes(sim, str(max(before)), waits=1)
    comes_back(sim, str(max(before)))
    assert sim.cpus_of("own") == before
    assert len(said(sim, "own", What.RUNS_ON)) <= 2
