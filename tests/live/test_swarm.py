"""A swarm of three nodes on this machine: the scheduler places what fits, and the sidecar on each node pins it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from sidecar.status.document import SharingStatus
from tests.live.alonejudge import judged_alone
from tests.live.kernelview import KernelView, online
from tests.live.privateengine import NoPrivateEngine
from tests.live.sidecarprocess import LAST, SidecarProcess
from tests.live.swarmnodes import Node, Swarm, a_swarm
from tests.live.waiting import eventually, stays
from tests.support.keys import by_id

pytestmark = pytest.mark.live

PENDING = "insufficient resources"
"""What the scheduler says of a task that no node has enough for."""


class Fleet:
    """The swarm, and a sidecar on each node: each has one CPU to grant. A stopped container keeps its CPU for a
    minute.
    """

    def __init__(self, swarm: Swarm, sidecars: dict[str, SidecarProcess]) -> None:
        self.swarm = swarm
        self.sidecars = sidecars
        self.kernel = KernelView()

    def placed(self, count: int) -> dict[str, str]:
        """Wait until this many nodes have one task each, pinned alone; return its container, by the node's name."""

        def look() -> dict[str, str] | None:
            running = {name: tasks[0] for name, tasks in self.swarm.running().items() if len(tasks) == 1}
            if len(running) != count or sum(map(len, self.swarm.running().values())) != count:
                return None
            return running if all(self.is_alone(name, id) for name, id in running.items()) else None

        return eventually(look, f"{count} nodes have a task each, pinned alone", seconds=45)

    def replaced(self, before: dict[str, str], name: str) -> dict[str, str]:
        """End the task of a node, and wait until another one is pinned alone; return all tasks then."""
        self.kernel.end(before[name])
        eventually(lambda: before[name] not in self.swarm.running()[name], "the engine noticed")
        return self.placed(len(before))

    def is_alone(self, name: str, id: str) -> bool:
        """Return whether it is alone, by the kernel and by the sidecar's status."""
        said = self.sidecars[name].container(id)
        is_said = said is not None and said.sharing is SharingStatus.EXCLUSIVE and said.is_settled
        return is_said and self.kernel.allowed(id) == LAST == self.kernel.cpuset(id)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Provide three nodes that advertise what their sidecars can grant."""
    if len(online()) < 2:
        pytest.skip("a machine with one CPU has none to give")
    with ExitStack() as stack:
        try:
            swarm = stack.enter_context(a_swarm(3))
        except NoPrivateEngine as error:
            pytest.skip(str(error))
        sidecars = {}
        for node in swarm.nodes:
            sidecar = SidecarProcess(tmp_path_factory.mktemp(node.name), node.socket_path)
            stack.callback(sidecar.kill)
            sidecar.configure(linger="1m")
            stack.enter_context(judged_alone(sidecar, intrudes=False))
            sidecar.start()
            sidecars[node.name] = sidecar
        made = Fleet(swarm, sidecars)
        assert set(swarm.resources().values()) == {0}
        for node in swarm.nodes:
            advertise(node, sidecars[node.name])
        eventually(lambda: set(swarm.resources().values()) == {1}, "the scheduler knows", seconds=60)
        yield made


def advertise(node: Node, sidecar: SidecarProcess) -> None:
    """Advertise as an administrator would; SIGHUP is not enough, and the command says so."""
    before = {"log-level": "warn", "cgroup-parent": node.cgroup_parent}
    node.daemon_json.write_text(json.dumps(before))
    done = sidecar.command("swarm", "advertise", "--daemon-json", str(node.daemon_json), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["cpus"], told["changed"], told["needs_restart"]) == (1, True, True)
    assert told["source"].startswith("the daemon on ")
    assert json.loads(node.daemon_json.read_text()) == {**before, "node-generic-resources": ["exclusive-cpu=1"]}
    node.stop()
    node.start()
    assert node.advertised() == [{"DiscreteResourceSpec": {"Kind": "exclusive-cpu", "Value": 1}}]


@pytest.fixture
def service(fleet: Fleet) -> Iterator[str]:
    """Run a service with one task, which reserves one exclusive CPU and asks for it."""
    made = fleet.swarm.create("web")
    yield made
    fleet.swarm.remove(made)


def test_each_node_gets_as_much_as_it_has_and_the_rest_waits(fleet: Fleet, service: str) -> None:
    """Four tasks on three nodes with one CPU each: three are alone on theirs, the fourth is not placed."""
    for count in (1, 2):
        fleet.swarm.scale(service, count)
        fleet.placed(count)
    fleet.swarm.scale(service, 3)
    placed = fleet.placed(3)
    fleet.swarm.scale(service, 4)
    [why] = eventually(lambda: [each for each in fleet.swarm.waiting(service) if each], "the fourth waits")
    assert PENDING in why
    stays(lambda: sum(map(len, fleet.swarm.running().values())) == 3, "the fourth is nowhere", seconds=1)
    assert fleet.placed(3) == placed


def test_a_task_that_fails_is_replaced_and_its_replacement_is_alone(fleet: Fleet, service: str) -> None:
    """Its dead container still exists, and would keep its CPU for a minute if it were not a task."""
    fleet.swarm.scale(service, 3)
    before = fleet.placed(3)
    after = before
    for _ in range(3):
        after = fleet.replaced(after, "node1")
    assert {name: id for name, id in after.items() if name != "node1"} == {
        name: id for name, id in before.items() if name != "node1"
    }
    node = fleet.swarm.nodes[0]
    dead = [id for id in node.tasks(running_only=False) if id != after["node1"]]
    assert before["node1"] in dead
    eventually(lambda: [*by_id(fleet.sidecars["node1"].books().assignments)] == [after["node1"]], "the books say so")


def test_a_drained_node_loses_its_task_to_one_that_has_a_cpu(fleet: Fleet, service: str) -> None:
    """And takes none until it is active again."""
    fleet.swarm.scale(service, 2)
    before = fleet.placed(2)
    gone = min(before)
    fleet.swarm.set_availability(gone, "drain")
    try:
        eventually(lambda: not fleet.swarm.running()[gone], "it left")
        assert set(fleet.placed(2)) == {"node1", "node2", "node3"} - {gone}
        fleet.swarm.scale(service, 3)
        eventually(lambda: any(PENDING in each for each in fleet.swarm.waiting(service)), "the third waits")
    finally:
        fleet.swarm.set_availability(gone, "active")
    assert gone in fleet.placed(3)


def test_an_engine_that_is_killed_and_comes_back_gets_its_task_again(fleet: Fleet, service: str) -> None:
    """No node can have live-restore: its containers die with it. The others are not touched."""
    fleet.swarm.scale(service, 3)
    before = fleet.placed(3)
    node = fleet.swarm.nodes[2]
    node.kill()
    node.start()
    eventually(lambda: before["node3"] not in node.tasks(), "its task died with it")
    after = fleet.placed(3)
    assert {name for name in after if after[name] != before[name]} == {"node3"}


def test_a_reservation_that_is_not_the_label_is_said(fleet: Fleet) -> None:
    """The scheduler counted one, and the container asks for two, which this node lacks."""
    service = fleet.swarm.create("greedy", reserve=1, labels={"cpuset.exclusive": "2"})
    try:
        placed = eventually(
            lambda: [(name, tasks[0]) for name, tasks in fleet.swarm.running().items() if tasks], "it is placed"
        )
        [(name, id)] = placed
        told = fleet.sidecars[name].until(id, lambda it: it.warnings and it.refusal, "warned and refused")
        assert told.warnings == ("Swarm set exclusive-cpu=1 aside for it, and it asks for 2: make them equal",)
        eventually(lambda: fleet.kernel.allowed(id) == online(), "it is in the pool, where no CPU is granted")
    finally:
        fleet.swarm.remove(service)


def test_doctor_says_whether_the_scheduler_counts_rightly(fleet: Fleet) -> None:
    """One is advertised and one can be granted; with isolated CPUs only, there would be none."""
    sidecar = fleet.sidecars["node3"]

    def finding(*flags: str) -> tuple[str, str]:
        told = json.loads(sidecar.command("doctor", "--json", *flags).stdout)
        return next((each["verdict"], each["says"]) for each in told if each["question"] == "swarm")

    assert finding() == ("ok", "exclusive-cpu=1 is advertised, and can be granted")
    said = "dockerd advertises exclusive-cpu=1 to Swarm's scheduler, but this node can grant 0"
    assert finding("--isolated", "only") == ("warn", said)
