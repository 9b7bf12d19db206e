"""The map shows every CPU once, with its owner, and fits the page."""

from __future__ import annotations

import re

import msgspec
import pytest

from sidecar.cli.machine_drawing import coloured, draw, legend, letters_of, marks_of
from sidecar.decide.settings import IsolatedRule, PolicyName, Settings
from sidecar.status.describe import status_of
from sidecar.status.machine_map import machine_of
from state.cpuset import CPUSet
from state.topology import Topology, topology, uniform
from tests.cli.worlds import container, world

MACHINES = {
    "two": uniform(cores=2),
    "two sockets": uniform(packages=2, cores=8, threads=2),
    "four nodes": uniform(nodes=4, cores=4),
    "large": uniform(packages=2, nodes=4, cores=16, threads=2),
}


def test_a_machine_of_two_cpus_is_one_line() -> None:
    """A level that divides nothing is not drawn."""
    status = status_of(world(MACHINES["two"], container("web", exclusive=1), container("noisy")))
    assert draw(status.machine, marks_of(status)) == ["socket 0   [0r] [1A]"]
    assert legend(status) == ["A web   r reserved, shared"]


def test_two_sockets_with_siblings() -> None:
    """Siblings are drawn together in one core."""
    pinned = container("pin", cpuset="30", effective=CPUSet.of(30))
    status = status_of(
        world(MACHINES["two sockets"], container("web", exclusive=4), container("db", exclusive=1), pinned)
    )
    assert draw(status.machine, marks_of(status)) == [
        "socket 0   [ 0r 16B] [ 1A 17A] [ 2A 18A] [ 3. 19.] [ 4. 20.] [ 5. 21.] [ 6. 22.] [ 7. 23.]",
        "socket 1   [ 8. 24.] [ 9. 25.] [10. 26.] [11. 27.] [12. 28.] [13. 29.] [14. 30#] [15. 31.]",
    ]
    assert legend(status) == ["A web   B db   . shared   r reserved, shared   # pinned by hand"]


def test_isolated_cpus_that_are_free_are_not_drawn_as_shared() -> None:
    """The shared pool never has them; under `isolated = ignore` it does."""
    machine = msgspec.structs.replace(uniform(cores=4), isolated=CPUSet.of(2, 3))
    apart = Settings(policy=PolicyName.STATIC, reserved_count=1, isolated=IsolatedRule.ONLY)
    status = status_of(world(machine, container("web", exclusive=1), settings=apart))
    assert draw(status.machine, marks_of(status))[0] == "socket 0   [0r] [1.] [2A] [3-]"
    assert legend(status) == ["A web   . shared   - isolated, free   r reserved, shared"]
    shared = status_of(world(machine, container("web", exclusive=1)))
    assert draw(shared.machine, marks_of(shared))[0] == "socket 0   [0r] [1A] [2.] [3.]"


def test_four_nodes_stand_below_each_other() -> None:
    """One socket needs no name where its nodes have them."""
    assert draw(machine_of(MACHINES["four nodes"]), {}) == [
        "node 0     [ 0] [ 1] [ 2] [ 3]",
        "node 1     [ 4] [ 5] [ 6] [ 7]",
        "node 2     [ 8] [ 9] [10] [11]",
        "node 3     [12] [13] [14] [15]",
    ]


def test_caches_divide_a_node_only_if_cores_share_them() -> None:
    """A chiplet machine shows its caches; private caches are not drawn."""
    cores = [CPUSet.of(n) for n in range(4)]
    chiplets = topology(
        cores=cores, caches=[CPUSet.of(0, 1), CPUSet.of(2, 3)], offline=CPUSet.of(4), isolated=CPUSet.of(3)
    )
    assert draw(machine_of(chiplets), {}) == [
        "cache 0    [0] [1]",
        "cache 2    [2] [3]",
        "offline   4",
        "isolated by the kernel   3",
    ]
    assert draw(machine_of(topology(cores=cores, caches=cores)), {}) == ["socket 0   [0] [1] [2] [3]"]


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_the_map_fits_the_page_and_loses_nothing(name: str) -> None:
    """At most 100 columns, each CPU once, with colours as without."""
    machine = MACHINES[name]
    names = [container(f"c{n:02}", exclusive=4) for n in range((len(machine.online) - 1) // 8)]
    status = status_of(world(machine, *names))
    marks = marks_of(status)
    lines = draw(status.machine, marks)
    assert max(map(len, lines)) <= 100
    drawn = re.findall(r"(\d+)([A-Za-z.#*])(?=[ \]])", " ".join(lines))
    assert sorted((int(cpu), mark) for cpu, mark in drawn) == sorted(marks.items())
    assert max(map(len, legend(status))) <= 100
    painted = draw(status.machine, marks, coloured)
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in painted] == lines
    assert any("\x1b[" in line for line in painted)


def test_letters_stay_while_others_come() -> None:
    """They follow the order of grants, not of names."""
    machine = uniform(cores=8)
    before = letters_of(status_of(world(machine, container("web", exclusive=1))))
    after = letters_of(status_of(world(machine, container("web", exclusive=1), container("aaa", exclusive=1))))
    assert before.items() <= after.items()


def test_more_containers_than_letters() -> None:
    """They share a star, and the legend says so."""
    machine: Topology = uniform(cores=60)
    status = status_of(world(machine, *(container(f"c{n:02}", exclusive=1) for n in range(55))))
    marks = list(marks_of(status).values())
    assert marks.count("*") == 55 - 51
    assert "* others" in legend(status)[-1]


def test_strict_reservation_is_no_part_of_the_pool() -> None:
    """The legend says whether reserved CPUs are shared."""
    strict = Settings(policy=PolicyName.STATIC, reserved_cpus=CPUSet.of(0), options=("strict-cpu-reservation",))
    assert legend(status_of(world(MACHINES["two"], settings=strict))) == [". shared   r reserved"]
    assert legend(status_of(world(MACHINES["two"]))) == [". shared   r reserved, shared"]


def test_without_a_policy_nothing_is_called_shared() -> None:
    """There is no shared pool then."""
    assert legend(status_of(world(MACHINES["two"], settings=Settings()))) == [". not managed"]
