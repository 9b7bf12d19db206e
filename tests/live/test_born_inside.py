"""A container is created inside an owner's cgroup: the owner is not told to be alone when its program begins."""

from __future__ import annotations

import json
import posixpath
import time
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from sidecar.status.document import ContainerStatus
from state.cpuset import CPUSet
from state.projection import Projection
from tests.live.containers import Containers
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import LAST, SidecarProcess
from tests.live.test_tenants_inside import remove_groups
from tests.live.toldfiles import ToldFiles
from tests.live.waiting import eventually
from tests.live.watching import ONE, until_alone

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.usefixtures("dockers_nesting"),
    pytest.mark.intrudes("a container is born inside the owner"),
]

TURNS: Final = 4
"""Containers of each way."""

_NOTES: Final = """
cd /told/by-id
cat {owner}/status.json > /seen/owner
cat $HOSTNAME/cpuset > /seen/own
grep Cpus_allowed_list /proc/self/status > /seen/runs
echo > /seen/done
exec sleep 3600
"""
"""What a newcomer does at first: it notes what the owner and it are told, and where it runs."""


class Noted:
    """What a newcomer noted as its program began."""

    def __init__(self, folder: Path) -> None:
        self.owner_is_alone = bool(json.loads((folder / "owner").read_text())["alone"])
        own = (folder / "own").read_text() if (folder / "own").exists() else ""
        self.own = CPUSet.parse(own.strip())
        self.runs = CPUSet.parse((folder / "runs").read_text().split()[-1])


def is_beside(name: str, owner: ContainerStatus) -> bool:
    """Return whether this one is told to run beside an owner."""
    return not owner.is_alone and [each.name for each in owner.neighbours] == [name]


@pytest.fixture(
    params=["{above}/{owner}", "{above}/{owner}/deep/er", "/x/..{above}//{owner}/../{owner}/./deep"],
    ids=["in its group", "deeper", "written otherwise"],
)
def written(request: pytest.FixtureRequest) -> str:
    """Return how the newcomer's author writes a parent in the owner's group."""
    return str(request.param)


@pytest.mark.parametrize("way", ["at once", "after a look", "in a crowd"])
def test_an_owner_is_not_alone_from_a_birth_inside_it_on(
    way: str,
    written: str,
    request: pytest.FixtureRequest,
    running: SidecarProcess,
    own_engine: PrivateEngine,
    workloads: Containers,
    tmp_path: Path,
) -> None:
    """Its first instruction reads what the owner is told, and what it is told itself: no CPU that it has not."""
    owner = workloads.run("owner", labels=ONE)
    until_alone(running, owner)
    parent = written.format(above=own_engine.cgroup_parent, owner=owner)
    request.addfinalizer(partial(remove_groups, posixpath.normpath(parent)))
    found = []
    for number in range(TURNS):
        eventually(lambda: (told := running.projection(owner)) and told.alone, "alone")
        seen = tmp_path / f"seen-{number}"
        seen.mkdir()
        others = [workloads.create(f"other-{number}-{each}") for each in range(6 if way == "in a crowd" else 0)]
        newcomer = workloads.create(
            f"inside-{number}",
            "sh",
            "-c",
            _NOTES.format(owner=owner[:12]),
            CgroupParent=parent,
            Binds=[f"{running.projections}:/told:ro", f"{seen}:/seen"],
        )
        if way == "after a look":
            running.until(newcomer, lambda it: it.warnings, "what to do")
        workloads.api.act(newcomer, "start")
        eventually((seen / "done").exists, "it noted")
        found.append(Noted(seen))
        beside = partial(is_beside, f"{workloads.prefix}-inside-{number}")
        running.until(owner, beside, "a look has shown it")
        for each in (newcomer, *others):
            workloads.api.remove(each)
    running.until(owner, lambda it: it.is_alone, "alone again")
    print([(each.owner_is_alone, str(each.own), str(each.runs)) for each in found])
    assert [each.runs for each in found] == [LAST] * TURNS
    assert not any(each.owner_is_alone for each in found)
    assert all(each.own <= each.runs for each in found), [str(each.own) for each in found]


def test_what_an_owner_makes_itself_takes_alone_from_nobody(
    request: pytest.FixtureRequest, running: SidecarProcess, own_engine: PrivateEngine, workloads: Containers
) -> None:
    """Groups of a system, containers of an engine inside it, and a group that is called like one which is elsewhere:
    whose file goes on telling where that one is.
    """
    owner, plain = workloads.run("owner", labels=ONE), workloads.run("plain")
    until_alone(running, owner)
    eventually(lambda: (told := running.projection(owner)) and told.alone, "alone")
    before = eventually(lambda: (told := running.projection(plain)) and told.settled and told, "it is told")
    group = f"{own_engine.cgroup_parent}/{owner}"
    made = [f"{group}/init.scope", f"{group}/docker", f"{group}/{plain}"]
    made += [f"{group}/docker/{number:064x}" for number in range(1, 20)]
    files = ToldFiles(running.projections)
    seen = list[Projection | None]()
    for path in made:
        request.addfinalizer(partial(remove_groups, path))
        for each in hierarchies_of(group):
            Path(f"{each}{path}").mkdir()
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            seen.append(files.read(owner))
            time.sleep(0.001)
    assert {each.generation for each in seen if each} == {seen[0].generation if seen[0] else -1}
    assert all(each and each.alone for each in seen)
    assert running.projection(plain) == before


def hierarchies_of(path: str) -> list[Path]:
    """Return the hierarchies in which there is this group, those with cpusets among them."""
    found = [each for each in Path("/sys/fs/cgroup").glob("*/") if Path(f"{each}{path}").is_dir()]
    return [each for each in found if not each.is_symlink() and "cpuset" in each.name] or found[:1]
