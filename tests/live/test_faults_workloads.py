"""Malicious workloads with their projection, or all of them, mounted writable: floods, links, huge files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.live.containers import Containers
from tests.live.crowd import footprint
from tests.live.kernelview import KernelView, online
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import eventually
from tests.live.watching import ONE, WAITING, given_back, told_in, until_alone, until_gone, until_shared
from tests.support.keys import by_id

pytestmark = pytest.mark.live

FLOOD: Final = "while :; do i=$((i+1)); echo $i > /told/ack; echo x > /told/status.json; rm -f /told/cpuset; done"
"""Acknowledges everything, all the time, and spoils what it is told."""

PLANT: Final = """
cd /told
for name in ack cpuset status.json .cpuset.new .status.json.new; do rm -rf $name; done
case $1 in
    links) ln -s /secret cpuset; ln -s /secret status.json; ln -s /secret ack ;;
    directories) mkdir -p cpuset/x status.json/x ack/x ;;
    pipes) mkfifo cpuset status.json ack ;;
    huge) for name in status.json ack; do dd if=/dev/zero of=$name bs=1M count=0 seek=4096; done ;;
    crowd) i=0; while [ $i -lt 3000 ]; do : > f$i; i=$((i+1)); done ;;
esac
exec sleep 3600
"""


def harmful(sidecar: SidecarProcess, workloads: Containers, name: str, *command: str) -> tuple[str, Path]:
    """Run a container that may write to its projection, with this program; return its id and its directory."""
    told = sidecar.projections / "by-name" / f"{workloads.prefix}-{name}"
    told.mkdir(parents=True)
    labels = {"cpuset.projection": told.name}
    id = workloads.run(name, "busybox", "sh", "-c", *command, labels=labels, Binds=[f"{told}:/told"])
    return id, told


def test_a_flood_of_words_costs_little_and_moves_nobody(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """Others are served throughout; a workload that spoils its own files gets new ones with its next change."""
    flood, told = harmful(running, workloads, "flood", FLOOD)
    eventually(lambda: (told / "ack").exists(), "it floods")
    until_shared(running, flood)
    before = footprint(running.pid)
    for number in range(3):
        owner = workloads.run(f"owner-{number}", labels=ONE)
        until_alone(running, owner)
        assert (kernel.once_running(owner), kernel.allowed(flood)) == (LAST, REST)
        eventually(lambda id=owner: running.projection(id), "it is told")  # type: ignore[misc]
        workloads.api.remove(owner)
        until_gone(running, owner)
    until_shared(running, flood)
    # A connection that answers at this instant is none that is kept.
    eventually(lambda: footprint(running.pid).descriptors <= before.descriptors + 8, "no descriptor is kept")
    workloads.api.act(flood, "kill")
    eventually(lambda: not running.status().exclusive, "nobody is exclusive")
    assert running.is_running
    assert told.is_dir()


@pytest.mark.parametrize("what", ["links", "directories", "pipes", "huge", "crowd"])
def test_what_is_planted_is_not_followed_and_stops_nobody(
    running: SidecarProcess, workloads: Containers, kernel: KernelView, tmp_path: Path, what: str
) -> None:
    """In the place of its files. It harms only itself, which is reported; the host's files are unchanged."""
    secret = Path("/secret")
    if secret.exists():
        pytest.skip(f"{secret} exists here, and would be written by a daemon that follows links")
    planted, told = harmful(running, workloads, "planted", PLANT, "plant", what)
    last = told / ("f2999" if what == "crowd" else "ack")
    eventually(lambda: os.path.lexists(last), "it has planted it")
    owner, heir = workloads.run("owner", labels=ONE), workloads.run("heir", labels=WAITING)
    until_alone(running, owner)
    until_shared(running, heir)
    until_shared(running, planted)
    workloads.api.remove(owner)
    until_alone(running, heir)
    assert (kernel.allowed(heir), kernel.once_running(planted)) == (LAST, REST)
    assert not secret.exists()
    if what in ("links", "pipes", "directories"):
        eventually(lambda: told_in(told / "cpuset") == str(REST), "its files are files again")
    by_id = running.projections / "by-id" / planted[:12] / "cpuset"
    eventually(lambda: told_in(by_id) == str(REST), "by id it is told as ever")
    workloads.api.remove(planted)
    eventually(lambda: not by_id.exists(), "it is forgotten")
    assert kernel.allowed(heir) == LAST
    given_back(running, workloads, {heir: {}})


def test_a_workload_that_may_write_everything_spoils_no_books(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """The whole root is mounted writable. The projections are then worthless; but the State does not depend on them."""
    owner, neighbour = workloads.run("owner", labels=ONE), workloads.run("neighbour")
    until_alone(running, owner)
    root = running.projections
    wreck = "busybox rm -rf /all/by-id /all/by-name /all/.staging; : > /all/wrecked; exec sleep 3600"
    wrecker = workloads.run("wrecker", "sh", "-c", wreck, Binds=[f"{root}:/all"])
    eventually(lambda: (root / "wrecked").exists(), "it did")
    until_shared(running, wrecker)
    for id, cpus in ((owner, LAST), (neighbour, REST)):
        eventually(lambda id=id, cpus=cpus: (t := running.projection(id)) and t.cpus == cpus, "told again")  # type: ignore[misc]
        assert kernel.allowed(id) == cpus
    assert (root / ".staging").stat().st_mode & 0o777 == 0o700
    assert set(by_id(running.books().assignments)) == {owner}
    workloads.api.remove(owner)
    eventually(lambda: kernel.allowed(neighbour) == online(), "the pool is whole again")
