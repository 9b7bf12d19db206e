"""Docker and Podman on one host, and one sidecar for both: an owner of one is alone among all."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Final

import pytest

from sidecar.host.install.dockerd_parent import parents_given
from sidecar.status.document import SharingStatus
from state.cpuset import CPUSet
from state.projection import Projection
from tests.live.containers import Containers
from tests.live.engineapi import ApiError
from tests.live.image import ensure_image
from tests.live.kernelview import KernelView, online
from tests.live.privateengine import PrivateEngine, opened
from tests.live.privatepodman import PrivatePodman
from tests.live.sidecarprocess import LAST, SidecarProcess
from tests.live.stage import ask
from tests.live.users import User
from tests.live.waiting import PATIENCE, eventually
from tests.live.watcher import Watcher
from tests.live.watching import ONE

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(150 * PATIENCE)]


KILLS: Final = 8
SEED: Final = 31


@pytest.fixture
def podman() -> Iterator[PrivatePodman]:
    """Yield a Podman of the test's own; skip with the reason if there is none."""
    with opened(PrivatePodman) as engine:
        if isinstance(engine, str):
            pytest.skip(engine)
        yield engine


@pytest.fixture
def others(podman: PrivatePodman) -> Iterator[Containers]:
    """Yield a maker of containers on it."""
    made = Containers(podman.api, ensure_image(podman.api))
    yield made
    made.remove_all()


@pytest.fixture
def serving(own_engine: PrivateEngine, podman: PrivatePodman, sidecar: SidecarProcess) -> SidecarProcess:
    """Return a sidecar that serves both; without a hand, which would watch parents of other engines of this machine."""
    if own_engine.api.is_podman:
        pytest.skip("it is about Docker and Podman: one of them is enough as the first")
    engines: dict[str, Any] = {"engine": "auto", "hand": "off"}
    engines["engines"] = [f"docker=unix://{own_engine.api.socket_path}", f"podman=unix://{podman.api.socket_path}"]
    sidecar.configure(**engines)
    sidecar.start()
    return sidecar


def is_off(kernel: KernelView, id: str) -> bool:
    """Return whether a container may not run on the owner's CPU."""
    return kernel.allowed(id).isdisjoint(LAST)


def test_the_default_parent_of_a_docker_is_found_by_its_process(own_engine: PrivateEngine) -> None:
    """It has one of its own, in its file, and the API does not tell it."""
    if own_engine.api.is_podman:
        pytest.skip("Podman's default parent is a fixed one")
    assert parents_given([f"unix://{own_engine.api.socket_path}"]) == (own_engine.cgroup_parent,)
    assert parents_given(["unix:///none.sock"]) == ()


def test_an_owner_of_one_engine_is_alone_among_both(
    serving: SidecarProcess, workloads: Containers, others: Containers, kernel: KernelView
) -> None:
    """Containers of both leave its CPU, and the other engine's request for it waits in the shared pool."""
    plain, foreign = workloads.run("plain"), others.run("foreign")
    owner = workloads.run("owner", labels=ONE)
    serving.until(owner, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_alone, "alone")
    assert kernel.once_running(owner) == LAST
    # Without a hand, what starts beside it is moved once its engine has told of it, and Podman tells late.
    for each in (plain, foreign):
        eventually(partial(is_off, kernel, each), "it is off the owner's CPU")
    late = others.run("late", labels={**ONE, "cpuset.on-shortage": "wait"})
    serving.until(late, lambda it: it.turn == 1, "it waits")
    eventually(lambda: kernel.allowed(late).isdisjoint(LAST), "it waits in the shared pool")
    status = serving.status()
    assert {each.name for each in status.engines} == {"docker", "podman"}
    assert {each.engine for each in status.containers} == {"docker", "podman"}
    workloads.api.remove(owner)
    serving.until(late, lambda it: it.is_alone, "it is next, whichever engine it is of")
    assert kernel.allowed(plain).isdisjoint(LAST)


def test_the_death_of_one_engine_holds_up_nothing_of_the_other(
    serving: SidecarProcess, own_engine: PrivateEngine, workloads: Containers, others: Containers, kernel: KernelView
) -> None:
    """Podman's owner keeps its CPU while Docker is dead, and Podman's containers come and go; then Docker is back."""
    owner, plain = others.run("owner", labels=ONE), workloads.run("plain")
    serving.until(owner, lambda it: it.is_alone, "alone")
    own_engine.kill()
    eventually(lambda: [each.name for each in serving.status().engines if not each.is_ready] == ["docker"], "lost")
    newcomer = others.run("newcomer")
    eventually(lambda: kernel.allowed(newcomer).isdisjoint(LAST), "the newcomer is off the owner's CPU")
    assert kernel.allowed(owner) == LAST
    own_engine.start(live_restore=False)
    serving.until(owner, lambda it: it.is_alone, "alone again")
    if workloads.api.inspect(plain)["State"]["Running"]:
        assert kernel.allowed(plain).isdisjoint(LAST)


def test_a_release_gives_containers_of_both_all_cpus_again(
    serving: SidecarProcess, workloads: Containers, others: Containers, kernel: KernelView
) -> None:
    plain, foreign = workloads.run("plain"), others.run("foreign")
    owner = others.run("owner", labels=ONE)
    serving.until(owner, lambda it: it.is_alone, "alone")
    serving.terminate()
    released = serving.command("release")
    assert released.returncode == 0, released.stderr
    assert [kernel.allowed(each) for each in (plain, foreign, owner)] == [online()] * 3
    assert CPUSet() != online()


def test_a_users_own_podman_is_an_engine_of_its_own_name(
    own_engine: PrivateEngine,
    podman: PrivatePodman,
    sidecar: SidecarProcess,
    workloads: Containers,
    others: Containers,
    kernel: KernelView,
) -> None:
    """Here the test's Podman stands for it. What the sidecar tells has that name: status, books, readiness, metrics."""
    if own_engine.api.is_podman:
        pytest.skip("it is about Docker and Podman: one of them is enough as the first")
    places = [f"docker=unix://{own_engine.api.socket_path}", f"podman:1000=unix://{podman.api.socket_path}"]
    sidecar.configure(engine="auto", hand="off", engines=places)
    sidecar.start()
    plain, owner = workloads.run("plain"), others.run("owner", labels=ONE)
    sidecar.until(owner, lambda it: it.is_alone, "alone")
    assert kernel.once_running(owner) == LAST
    eventually(partial(is_off, kernel, plain), "it is off the owner's CPU")
    assert {each.name: each.is_ready for each in sidecar.status().engines} == {"docker": True, "podman:1000": True}
    assert [each.engine for each in sidecar.status().containers if each.id == owner] == ["podman:1000"]
    assert {str(key) for key in sidecar.books().assignments} == {f"podman:1000:{owner}"}
    assert json.loads(ask(sidecar.state_dir, "GET", "/readyz")) == {"status": "ready"}
    figures = ask(sidecar.state_dir, "GET", "/metrics")
    assert 'cpuset_sidecar_engine_ready{engine="podman:1000"} 1.0' in figures
    for words in (("top", "--once"), ("explain", owner), ("status",)):
        shown = sidecar.command(*words)
        assert shown.returncode == 0, shown.stderr
        assert "owner" in shown.stdout
    podman.kill()
    eventually(
        lambda: json.loads(ask(sidecar.state_dir, "GET", "/readyz")).get("waits_for") == ["podman:1000"], "it is lost"
    )
    assert 'cpuset_sidecar_engine_ready{engine="podman:1000"} 0.0' in ask(sidecar.state_dir, "GET", "/metrics")
    refused = sidecar.command("release", owner)
    assert refused.returncode != 0
    assert "podman:1000 is not reached" in refused.stderr
    podman.start()
    sidecar.until(owner, lambda it: it.is_alone, "alone again")


class OwnersAlone(Watcher):
    """Watches for two owners on one CPU, and for nothing else."""

    def _found(self, what: str, *who: Projection | CPUSet | None) -> None:
        if what == "two owners share CPUs":
            super()._found(what, *who)


@pytest.mark.intrudes("without a hand, what restarts runs where its engine has it until it is seen")
def test_no_two_owners_share_a_cpu_while_containers_of_both_come_and_go(
    serving: SidecarProcess, workloads: Containers, others: Containers, kernel: KernelView
) -> None:
    """Two users of each engine ask for the one CPU in every way, and the sidecar is killed again and again."""
    both, over = (workloads, others), threading.Event()
    watcher = OwnersAlone(serving.projections)
    users = [
        User(
            made,
            seed=SEED * 100 + number,
            over=over,
            made=lambda id, _: watcher.watch(id),
            gone=watcher.forget,
            touched=lambda _: None,
        )
        for number, made in enumerate((*both, *both))
    ]
    chance = Random(SEED)
    watcher.start()
    try:
        for user in users:
            user.start()
        for _ in range(KILLS):
            time.sleep(chance.uniform(1, 4) * PATIENCE)
            with watcher.pause:
                # One of them may restart as soon as it is killed, where its engine has it.
                serving.kill()
                excuse_the_unrecorded(serving, both, watcher)
            time.sleep(chance.uniform(0, 0.5))
            serving.start()
            eventually(lambda: all(each.is_ready for each in serving.status().engines), "both engines are there")
        eventually(lambda: engines_of(watcher.owners, both) == 2, "each had an owner", seconds=60)
    finally:
        over.set()
        for user in users:
            user.join(60 * PATIENCE)
        watcher.stop()
    assert watcher.violations == []
    print(f"{watcher.samples} samples, {watcher.judged} with an owner, {len(watcher.owners)} owners")
    for made in both:
        made.remove_all()
    eventually(lambda: serving.status().shared == online(), "no CPU is lost")


def engines_of(owners: Iterable[str], both: Iterable[Containers]) -> int:
    """Return of how many engines these owners are."""
    there = set(owners)
    return sum(not there.isdisjoint(made.made) for made in both)


def excuse_the_unrecorded(sidecar: SidecarProcess, both: Iterable[Containers], watcher: Watcher) -> None:
    """Excuse containers that the kernel has elsewhere than their engine: the sidecar was killed before the record."""
    for made in both:
        for id in tuple(made.made):
            told = sidecar.projection(id)
            with suppress(ApiError):
                configured = made.api.inspect(id)["HostConfig"]["CpusetCpus"]
                if told is not None and told.settled and told.cpus != CPUSet.parse(configured or str(online())):
                    watcher.excuse(id)
