"""One CPU: its purpose, its owner, and every container that may run there."""

from __future__ import annotations

import pytest

from sidecar.decide.settings import PolicyName, Settings
from sidecar.status.cpu_view import CPUKind, CPUView, cpu_view
from sidecar.status.describe import status_of
from state.cpuset import CPUSet
from state.topology import uniform
from tests.cli.worlds import container, world
from tests.support.decide.rights import EVERY_RIGHT
from tests.support.decide.stories import Story

STATUS = status_of(
    world(
        uniform(cores=4, threads=2),
        container("web", exclusive=2),
        container("log"),
        container("hand", cpuset="3"),
        container("off", labels={"cpuset.manage": "off"}),
    )
)
"""`web` has a core, `hand` is pinned to CPU 3, `off` may run anywhere."""


def view(cpu: int) -> CPUView:
    found = cpu_view(STATUS, cpu)
    assert found is not None
    return found


def names(found: CPUView) -> list[str]:
    return [each.name for each in found.residents]


def test_an_exclusive_cpu_has_its_owner_first_and_everything_else_that_may_run_there() -> None:
    """What is left alone runs on every CPU."""
    [web] = [each for each in STATUS.containers if each.name == "web"]
    found = view(web.granted.lowest())
    assert (found.kind, found.owner, names(found)) == (CPUKind.EXCLUSIVE, "web", ["web", "off"])
    assert "It is granted to web." in found.explanation
    assert "Containers that may run there: web, off (unmanaged)." in found.explanation
    assert found.siblings == web.granted - CPUSet.of(found.cpu)
    assert f"CPU {found.siblings} is on the same core: granted to web." in found.explanation


@pytest.mark.parametrize(("cpu", "kind", "resident"), [(0, CPUKind.RESERVED, "log"), (3, CPUKind.STRANGER, "hand")])
def test_a_cpu_that_is_not_granted_has_its_purpose(cpu: int, kind: CPUKind, resident: str) -> None:
    found = view(cpu)
    assert (found.kind, found.owner) == (kind, "")
    assert resident in names(found)


def test_shared_cpus_are_what_is_left() -> None:
    """Each CPU has exactly one purpose, and together they are the machine."""
    kinds = {cpu: view(cpu).kind for cpu in STATUS.machine.online}
    free = {cpu for cpu, kind in kinds.items() if kind is CPUKind.SHARED}
    assert len(free) == 8 - 2 - 1 - 1
    assert free < set(STATUS.shared)


def test_there_is_no_such_cpu() -> None:
    """None, so that the name of a container is looked for."""
    assert cpu_view(STATUS, 8) is None


def test_without_a_policy_a_cpu_has_no_purpose() -> None:
    """The sidecar changes no container then."""
    status = status_of(
        world(uniform(cores=2), container("web"), settings=Settings(may=EVERY_RIGHT, policy=PolicyName.NONE))
    )
    found = cpu_view(status, 1)
    assert found is not None
    assert found.kind is CPUKind.UNMANAGED


def test_a_cpu_that_is_being_taken_says_so() -> None:
    """With the reason."""
    story = Story(policy=PolicyName.DYNAMIC)
    story.arrive("batch", 2, labels={"cpuset.max": "7"})
    story.settle()
    story.arrive("late", 3)
    story.settle()
    [leaving] = [each.leaving for each in story.world.state.assignments.values() if each.leaving]
    found = cpu_view(status_of(story.world), leaving.cpus.lowest())
    assert found is not None
    assert found.is_leaving
    assert any(said.startswith("It is being taken from batch (take ") for said in found.explanation)
