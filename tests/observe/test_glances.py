"""Glances: while the engine holds a container's lock, the kernel shows whether it runs, and where."""

from __future__ import annotations

import msgspec
import pytest
from trio.testing import MockClock

from sidecar.crashes import Crashes
from sidecar.decide.facts import ContainerRemoved, ContainerSeen, ContainerView, InventoryTaken, Phase
from sidecar.decide.hand_state import HandState
from sidecar.decide.step import step
from sidecar.decide.world import replace
from sidecar.observe.births import parent_of
from sidecar.observe.glances import Glances
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.model import Originals
from tests.observe.bench import Bench
from tests.support.keys import docker

pytestmark = pytest.mark.trio

ONE, POD = "a" * 64, "b" * 64

POOL = CPUSet.of(0, 1)


async def _glanced_at(bench: Bench, id: str) -> ContainerView:
    """Return what an inventory shows of a container whose lock is held."""
    async with bench.docker.container(id).lock:
        await bench.looker.take_inventory()
        fact = await bench.next()
    assert isinstance(fact, InventoryTaken)
    [seen] = [view for view in fact.seen if view.id == id]
    assert seen.is_glance
    return seen


async def test_a_container_whose_start_is_under_way_runs_where_the_kernel_has_it(
    autojump_clock: MockClock, bench: Bench
) -> None:
    """The engine still calls it created. Its program runs already."""
    one = await bench.docker.create("one")
    bench.docker.kernel.enter(one, POOL)
    seen = await _glanced_at(bench, one)
    assert (seen.phase, seen.effective, seen.found_below) == (Phase.RUNNING, POOL, "/docker")
    known = bench.board.latest.containers[docker(one)]
    assert known.sure == POOL


async def test_a_container_that_rests_while_its_lock_is_held_rests(autojump_clock: MockClock, bench: Bench) -> None:
    """Somebody copies its files."""
    seen = await _glanced_at(bench, await bench.docker.create("one"))
    assert (seen.phase, seen.effective, seen.found_below) == (Phase.CREATED, None, "")


async def _asked_for(bench: Bench, parent: str, found_at: str) -> tuple[list[str], ContainerView]:
    """Return below which parents the kernel is asked for a container of which the books have this parent, and the
    glance; it has a group below that one.
    """
    one = await bench.docker.create("one")
    world = bench.board.latest
    state = world.state.remembering(docker(one), Originals(cgroup_parent=parent))
    hand = HandState(parents=("/a/b", "/docker", "/user/docker"), home=("/user/docker",))
    bench.board.post(replace(world, state=state, hand=hand))
    asked: list[str] = []

    def complete(view: ContainerView) -> ContainerView:
        asked.append(view.cgroup_parent)
        return msgspec.structs.replace(view, effective=POOL) if view.cgroup_parent == found_at else view

    glances = Glances(bench.board, bench.engine, Crashes(bench.board, bench.log), complete)
    return asked, await glances.at(ContainerKey("docker", one))


@pytest.mark.parametrize("parent", ["a/b", ""])
async def test_it_is_looked_for_first_where_the_hand_would_have_answered_its_birth(
    autojump_clock: MockClock, bench: Bench, parent: str
) -> None:
    """A glance does not show the parent that it names, and the books do. That is no part of what a glance shows."""
    found_at = {"a/b": "/a/b", "": "/user/docker"}[parent]
    asked, glance = await _asked_for(bench, parent, found_at)
    assert asked[-1] == found_at
    assert "" not in asked
    assert (glance.effective, glance.cgroup_parent) == (POOL, "")


async def test_then_it_is_looked_for_where_engines_put_containers(autojump_clock: MockClock, bench: Bench) -> None:
    asked, glance = await _asked_for(bench, "a/b", "")
    assert asked == ["/a/b", ""]
    assert glance.effective == POOL


async def test_what_is_born_while_the_engine_is_away_is_there_under_its_id(
    autojump_clock: MockClock, bench: Bench
) -> None:
    """As long as it runs; it may be anywhere. What the engine had shown before stays what it was."""
    known, born, at_rest = await bench.docker.run("known"), *[await bench.docker.create(each) for each in ("a", "b")]
    bench.looker.look(docker(known))
    await bench.next()
    bench.docker.kernel.enter(born, POOL)
    await bench.docker.go_down()
    for each in (known, at_rest, born):
        bench.looker.look(docker(each))
    seen = await bench.next()
    assert isinstance(seen, ContainerSeen)
    assert (seen.view.id, seen.view.name, seen.view.phase) == (born, docker(born).short, Phase.RUNNING)
    assert seen.view.is_glance
    assert await bench.silence(1)
    bench.docker.kernel.leave(born)
    for each in (known, born):
        bench.looker.look(docker(each))
    gone = await bench.next()
    assert isinstance(gone, ContainerRemoved)
    assert gone.container == docker(born)
    assert docker(born) not in bench.board.latest.containers
    assert await bench.silence(1)


async def test_what_is_born_in_a_pod_while_the_engine_is_away_is_looked_for_where_it_was_born(
    autojump_clock: MockClock, bench: Bench
) -> None:
    """Nothing else leads into a pod's cgroup. Where it was is forgotten when it is gone, or once a look shows it."""
    born, another = docker("1" * 64), docker("2" * 64)
    pod = f"/libpod_parent/{'f' * 64}"
    groups = {born: pod}
    asked: list[str] = []

    def complete(view: ContainerView) -> ContainerView:
        asked.append(view.cgroup_parent)
        is_there = view.cgroup_parent == groups.get(view.key)
        return msgspec.structs.replace(view, effective=POOL, phase=Phase.RUNNING) if is_there else view

    glances = Glances(bench.board, bench.engine, Crashes(bench.board, bench.log), complete)
    assert glances.by_the_kernel(born, 1) is None
    glances.born(born, pod)
    seen = glances.by_the_kernel(born, 2)
    assert isinstance(seen, ContainerSeen)
    assert (seen.view.effective, seen.view.cgroup_parent) == (POOL, "")
    bench.board.post(step(bench.board.latest, [seen])[0])
    glances.born(another, pod)
    del groups[born]
    assert glances.by_the_kernel(born, 3) == ContainerRemoved(born, 3)
    asked.clear()
    glances.unread(born)
    assert asked == [""]


async def test_what_has_records_is_not_gone_because_it_has_ended(autojump_clock: MockClock, bench: Bench) -> None:
    """The engine may have it still: without it what is to be put back would be forgotten."""
    one = await bench.docker.create("one")
    bench.docker.kernel.enter(one, POOL)
    world = bench.board.latest
    state = world.state.remembering(docker(one), Originals())
    bench.board.post(replace(world, state=state))
    await bench.docker.go_down()
    bench.looker.look(docker(one))
    assert isinstance(await bench.next(), ContainerSeen)
    bench.docker.kernel.leave(one)
    bench.looker.look(docker(one))
    assert await bench.silence(1)


@pytest.mark.parametrize(
    "path",
    [
        f"/machine.slice/machine-libpod_pod_{POD}.slice/libpod-{ONE}.scope",
        f"/machine.slice/machine-libpod_pod_{POD}.slice/libpod-{ONE}.scope/container",
    ],
)
async def test_a_group_within_a_containers_own_is_born_below_the_same_parent(path: str) -> None:
    """A runtime that makes one: the container is looked for beside its like, not within itself."""
    assert parent_of(path, ONE) == f"/machine.slice/machine-libpod_pod_{POD}.slice"
    assert parent_of("/docker/step", "") == "/docker"
