"""Two engines with a container of the same id: two containers, in the World, in the State and in orders."""

from __future__ import annotations

from functools import cached_property

import pytest

from sidecar.decide.contacts import Connected, Contact, starting_unseen
from sidecar.decide.facts import (
    ContainerRemoved,
    ContainerSeen,
    ContainerView,
    CpusetApplied,
    EngineConnected,
    EngineInfo,
    InventoryTaken,
    Phase,
)
from sidecar.decide.moves.settled import is_settled
from sidecar.decide.orders import ApplyCpuset
from sidecar.decide.reconcile import begin
from sidecar.decide.step import step
from sidecar.decide.world import World
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.model import State
from state.topology import uniform
from tests.support.decide.stories import static

ID = "a" * 64
DOCKERS, PODMANS = ContainerKey("docker", ID), ContainerKey("podman", ID)
INFO = EngineInfo(name="docker", version="26.1.5", api_version="1.45", ncpu=8)


def view(key: ContainerKey, count: int) -> ContainerView:
    return ContainerView(
        engine=key.engine,
        id=key.id,
        name=f"{key.engine}s",
        phase=Phase.RUNNING,
        labels={"cpuset.exclusive": str(count)},
        effective=CPUSet(range(8)),
        started_at="1",
    )


def both() -> World:
    """Return a World where both run, and hold what they asked for: one CPU and two."""
    world = begin(State(), uniform(cores=8), static())
    seen = (view(DOCKERS, 1), view(PODMANS, 2))
    world, orders = step(world, [EngineConnected(INFO, 0), InventoryTaken(seen, (), 1)])
    for ticket in range(2, 20):
        order = next((each for each in orders if isinstance(each, ApplyCpuset)), None)
        if order is None:
            continue
        rest = [each for each in orders if each is not order]
        answer = CpusetApplied(order.container, order.number, order.update.cpus, ticket)
        world, more = step(world, [answer])
        orders = (*rest, *more)
    return world


def merged(world: World) -> list[str]:
    """Return what is one of the two that should be two."""
    found = []
    if world.containers.keys() != {DOCKERS, PODMANS}:
        found.append("one of them is not known")
    sizes = {key: len(each.cpus) for key, each in world.state.assignments.items()}
    if sizes != {DOCKERS: 1, PODMANS: 2}:
        found.append(f"they do not hold what each asked for: {sizes}")
    if world.state.originals.keys() != {DOCKERS, PODMANS}:
        found.append("what one of them had before is not in the books")
    return found


def test_each_is_known_and_has_a_grant_of_its_own() -> None:
    world = both()
    assert merged(world) == []
    assert all(is_settled(world, each) for each in world.containers.values())


def test_an_order_names_the_right_one() -> None:
    """Another tool changes one of them: that one is put back."""
    world = both()
    moved = view(PODMANS, 2)
    world, orders = step(world, [ContainerSeen(moved, 30)])
    assert [(each.container, each.update.cpus) for each in orders if isinstance(each, ApplyCpuset)] == [
        (PODMANS, world.state.assignments[PODMANS].cpus)
    ]


def test_one_goes_and_the_other_stays() -> None:
    """With its records."""
    before = both()
    world, _ = step(before, [ContainerRemoved(DOCKERS, 30)])
    assert world.containers.keys() == world.state.assignments.keys() == world.state.originals.keys() == {PODMANS}
    assert world.state.assignments[PODMANS] == before.state.assignments[PODMANS]


def test_a_container_that_is_known_by_its_id_alone_is_the_known_one() -> None:
    """As an OCI runtime names it; an unknown one belongs to the connected engine."""
    world, _ = step(both(), [ContainerRemoved(DOCKERS, 30)])
    assert world.key_of(ID) == PODMANS
    assert world.key_of("b" * 64) == ContainerKey("docker", "b" * 64)
    assert begin(State(), uniform(cores=8), static()).key_of(ID) == ContainerKey("", ID)


def test_a_key_that_forgets_its_engine_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two would be one, with one grant."""
    planted = cached_property(lambda view: ContainerKey("docker", view.id))
    planted.__set_name__(ContainerView, "key")
    monkeypatch.setattr(ContainerView, "key", planted)
    assert merged(both()) == [
        "one of them is not known",
        f"they do not hold what each asked for: {{{DOCKERS!r}: 1}}",
        "what one of them had before is not in the books",
    ]


def test_an_engine_that_is_away_may_be_started_again_once_another_is_reached() -> None:
    """Not only once that is ready. One by itself, that needs its service, starts nothing unseen."""
    reached, away = Contact(info=INFO, readiness=Connected(since=1)), Contact(info=INFO)
    assert starting_unseen({"docker": reached, "podman": away}) == ("podman",)
    assert starting_unseen({"docker": away, "podman": away}) == ()
    assert starting_unseen({"docker": reached}) == ()
    assert starting_unseen({"docker": reached, "podman": reached}) == ("docker", "podman")
