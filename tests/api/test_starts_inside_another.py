"""POST /v1/starts of a container that lies inside another one's cgroup: its bundle shows that, though no look has."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sidecar.decide.facts import ContainerSeen
from sidecar.decide.step import step
from tests.api.startcounter import ID, KEY, Counter
from tests.support.decide.stories import Story

VICTIM = "e" * 64


@pytest.fixture
def counter(tmp_path: Path) -> Counter:
    """Provide eight CPUs, of which one is reserved, without containers."""
    return Counter(tmp_path, Story())


@pytest.mark.parametrize(
    "group",
    [
        f"/docker/{VICTIM}/{ID}",
        f"/docker/{VICTIM}/deeper/{ID}",
        f"system.slice/docker-{VICTIM}.scope/{ID}",
        f"/machine.slice/libpod-{VICTIM}.scope/container/libpod-{ID}",
        f"/docker/{VICTIM}/a:b:c/{ID}",
        f"/docker/{VICTIM}/libpod-{ID}",
    ],
)
@pytest.mark.parametrize("labels", [{}, {"cpuset_exclusive": "2"}], ids=["plain", "exclusive"])
@pytest.mark.trio
async def test_one_inside_another_is_refused_though_nothing_but_a_glance_showed_it(
    counter: Counter, group: str, labels: dict[str, str]
) -> None:
    """Its bundle has its cgroup: on that container's CPUs it would be, whatever it was told. With the cure. Whether it
    was glanced at before, or is asked for first.
    """
    counter.glance(VICTIM)
    counter.board.post(step(counter.board.latest, [ContainerSeen(counter.glances[VICTIM], 90)])[0])
    counter.glance(**labels)
    async with counter.serving():
        status, answer = await counter.ask(cgroup=group)
        known = await counter.ask(cgroup=group)
    assert known == (status, answer)
    assert status == 409
    assert "recreate it with another cgroup_parent" in answer["error"]
    assert KEY not in counter.board.latest.state.assignments


@pytest.mark.parametrize(
    "group",
    [
        "",
        ID,
        f"/docker/{ID}",
        f"/team/{ID}",
        f"system.slice:docker:{ID}",
        f"machine-libpod_pod_{VICTIM}.slice:libpod:{ID}",
        f"/libpod_parent/{VICTIM}/libpod-{ID}",
    ],
)
@pytest.mark.trio
async def test_one_that_is_inside_no_other_has_its_cpus(counter: Counter, group: str) -> None:
    """Under either driver. A pod of Podman is no container, and an earlier runtime tells no cgroup."""
    counter.glance(cpuset_exclusive="2")
    async with counter.serving():
        status, answer = await counter.ask(cgroup=group)
    assert (status, answer["exclusive"]) == (200, True)


@pytest.mark.trio
async def test_a_look_is_believed_before_a_bundle(counter: Counter) -> None:
    """The parent that a look showed never changes."""
    counter.glance(cpuset_exclusive="2")
    view = msgspec.structs.replace(counter.glances[ID], is_glance=False, cgroup_parent=f"/docker/{VICTIM}")
    counter.board.post(step(counter.board.latest, [ContainerSeen(view, 90)])[0])
    async with counter.serving():
        assert (await counter.ask(cgroup=f"/docker/{ID}"))[0] == 409
