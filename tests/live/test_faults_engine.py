"""An engine that is killed: what ended, started and came back by itself while it could not be asked. More is in
`test_crash`, also under churn.
"""

from __future__ import annotations

import pytest

from tests.live.containers import Containers
from tests.live.kernelview import KernelView
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import eventually
from tests.live.watching import NANO, ONE, WAITING, given_back, problems, until_alone, until_shared, watched
from tests.support.keys import by_id

pytestmark = [pytest.mark.live, pytest.mark.slow]

ALWAYS = {"RestartPolicy": {"Name": "always"}}
LIMITED = {"NanoCpus": NANO}


def until_back(engine: PrivateEngine, sidecar: SidecarProcess, *, live_restore: bool) -> None:
    """Kill and start it, and check that this is reported meanwhile."""
    engine.kill()
    eventually(lambda: not sidecar.status().is_ready, "the sidecar knows")
    eventually(lambda: problems(sidecar), "said")
    engine.start(live_restore=live_restore)
    eventually(lambda: sidecar.status().is_ready and not problems(sidecar), "the sidecar is back")


def test_a_container_that_died_while_the_engine_was_dead_is_succeeded(
    own_engine: PrivateEngine, sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """With live-restore: the others lived on, and there was no event. The successor has the CPU; no other container was
    moved.
    """
    own_engine.stop()
    own_engine.start(live_restore=True)
    sidecar.start()
    neighbour, owner = workloads.run("neighbour"), workloads.run("owner", labels=ONE, **LIMITED)
    until_alone(sidecar, owner)
    heir = workloads.run("heir", labels=WAITING, **LIMITED)
    until_shared(sidecar, heir)
    before = kernel.processes(neighbour)[0].pid
    with watched(sidecar, neighbour, heir):
        own_engine.kill()
        eventually(lambda: "the engine at" in problems(sidecar), "said")
        kernel.end(owner)
        own_engine.start(live_restore=True)
        until_alone(sidecar, heir)
        until_shared(sidecar, neighbour)
    assert (kernel.allowed(heir), kernel.allowed(neighbour)) == (LAST, REST)
    assert kernel.processes(neighbour)[0].pid == before
    assert set(by_id(sidecar.books().assignments)) == {heir}
    given_back(sidecar, workloads, {owner: LIMITED, heir: LIMITED, neighbour: {}})


@pytest.mark.parametrize("live_restore", [False, True], ids=["restarted", "live-restore"])
def test_a_container_that_comes_back_with_the_engine_is_where_it_was(
    own_engine: PrivateEngine, sidecar: SidecarProcess, workloads: Containers, kernel: KernelView, live_restore: bool
) -> None:
    """By its restart policy, or because it lived on. A start without a preceding end is a start like any other."""
    if own_engine.api.is_podman and not live_restore:
        pytest.skip("containers of Podman always outlive its service")
    own_engine.stop()
    own_engine.start(live_restore=live_restore)
    sidecar.configure(linger="1m")
    sidecar.start()
    neighbour, owner = workloads.run("neighbour", **ALWAYS), workloads.run("owner", labels=ONE, **ALWAYS, **LIMITED)
    until_alone(sidecar, owner)
    until_shared(sidecar, neighbour)
    before = {id: kernel.processes(id)[0].pid for id in (owner, neighbour)}
    until_back(own_engine, sidecar, live_restore=live_restore)
    for id in (owner, neighbour):
        eventually(lambda id=id: workloads.api.inspect(id)["State"]["Running"], "it runs")  # type: ignore[misc]
    assert (kernel.once_running(owner), kernel.once_running(neighbour)) == (LAST, REST)
    until_alone(sidecar, owner)
    until_shared(sidecar, neighbour)
    same = {id: kernel.processes(id)[0].pid for id in (owner, neighbour)} == before
    assert same is live_restore
    given_back(sidecar, workloads, {owner: LIMITED, neighbour: {}})


def test_a_container_removed_before_the_sidecar_is_back_is_forgotten(
    own_engine: PrivateEngine, sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """The sidecar is killed with its engine, and finds other containers."""
    if own_engine.api.is_podman:
        pytest.skip("containers of Podman always outlive its service")
    sidecar.start()
    neighbour, owner = workloads.run("neighbour"), workloads.run("owner", labels=ONE, **LIMITED)
    until_alone(sidecar, owner)
    sidecar.kill()
    own_engine.kill()
    own_engine.start()
    workloads.api.remove(owner)
    workloads.api.act(neighbour, "start")
    newcomer = workloads.run("newcomer", labels=ONE, **LIMITED)
    sidecar.start()
    until_alone(sidecar, newcomer)
    until_shared(sidecar, neighbour)
    assert (kernel.allowed(newcomer), kernel.allowed(neighbour)) == (LAST, REST)
    assert set(by_id(sidecar.books().assignments)) == {newcomer}
    eventually(lambda: sidecar.projection(owner) is None, "its directory is removed")
    given_back(sidecar, workloads, {newcomer: LIMITED, neighbour: {}})
