"""Podman's service is away, and its command line goes on starting containers: nothing is told to be alone beside them.

CPUSET_TESTS_AWAY says for how many seconds; rootless with CPUSET_TESTS_ENGINE=rootless.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.live.alonejudge import AloneJudge, judged_alone
from tests.live.containers import SLEEP, Containers
from tests.live.image import ensure_image
from tests.live.kernelview import KernelView, online
from tests.live.privateengine import opened
from tests.live.privatepodman import PrivatePodman, asked_engine
from tests.live.rootlesspodman import RootlessPodman
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(180 * PATIENCE)]

AWAY_SECONDS: Final = float(os.environ.get("CPUSET_TESTS_AWAY", "10"))
STARTS: Final = 10


@pytest.fixture(scope="module")
def engine() -> Iterator[PrivatePodman]:
    """Provide a Podman for these tests: a user's own if that is asked for."""
    if len(online()) < 2:
        pytest.skip("a machine with one CPU has none to give")
    with opened(RootlessPodman if asked_engine() == "rootless" else PrivatePodman) as made:
        if isinstance(made, str):
            pytest.skip(made)
        yield made


@pytest.fixture
def made(engine: PrivatePodman) -> Iterator[Containers]:
    """Yield a maker of containers, and remove them at the end of the test."""
    containers = Containers(engine.api, ensure_image(engine.api))
    yield containers
    # All at once, without the time that each has to stop.
    if containers.made:
        engine.run("rm", "-f", "-t0", "--ignore", *containers.made)


@pytest.fixture
def sidecar(engine: PrivatePodman, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SidecarProcess]:
    """Yield a daemon that is not started."""
    process = SidecarProcess(engine.sidecar_folder(tmp_path), engine.socket_path)
    process.wrapper = engine.sidecar_wrapper
    with judged_alone(process, intrudes=request.node.get_closest_marker("intrudes") is not None):
        yield process
        process.kill()


def is_told_alone(sidecar: SidecarProcess, owner: str) -> bool:
    """Return whether a container's files say that it is alone, vouched or not."""
    told = sidecar.projection(owner)
    return told is not None and told.alone


@pytest.mark.parametrize("hand", ["off", "auto"])
def test_ten_starts_without_the_service(
    hand: str, engine: PrivatePodman, made: Containers, sidecar: SidecarProcess, kernel: KernelView
) -> None:
    """Without a hand the owner is not alone until the service is back, and all was looked at. With one it stays alone,
    and the newcomers begin elsewhere, and are shown under their ids. The judge bears with no newcomer, hand or not.
    """
    sidecar.configure(hand=hand)
    sidecar.start()
    owner = made.run("owner", labels={"cpuset.exclusive": "1"})

    is_alone = partial(is_told_alone, sidecar, owner)
    eventually(is_alone, "alone")
    judge = AloneJudge(sidecar.projections, lambda: sidecar.is_awake, lambda: True)
    judge.start()
    engine.kill()
    began = time.monotonic()
    alone, newcomers = 0, list[str]()
    try:
        if hand == "off":
            eventually(lambda: not is_alone(), "others may be there", seconds=2.0)
        for number in range(STARTS):
            name = f"{made.prefix}-new-{number}"
            newcomers.append(engine.run("run", "-d", "--name", name, made.image, *SLEEP).strip())
            made.made.append(newcomers[-1])
            alone += is_alone()
            time.sleep(max(0.0, began + (number + 1) * AWAY_SECONDS / STARTS - time.monotonic()))
        if hand == "auto":
            eventually(lambda: set(newcomers) <= {each.id for each in sidecar.status().containers}, "they are shown")
            engine.run("rm", "-f", "-t0", newcomers[0])
            eventually(lambda: sidecar.container(newcomers[0]) is None, "one that is gone is shown no more")
            del newcomers[0]
        seconds = time.monotonic() - began
        where = kernel.all_allowed(newcomers)
    finally:
        engine.start()
    eventually(is_alone, "alone again", seconds=30.0)
    judge.stop()
    print(
        f"{hand}: away for {seconds:.1f} s, told alone after {alone} of {STARTS} starts, {judge.judged} samples judged"
    )
    assert judge.contradictions == []
    assert kernel.allowed(owner) == LAST
    assert set(kernel.all_allowed(newcomers).values()) == {REST}
    assert alone == (STARTS if hand == "auto" else 0)
    assert set(where.values()) == {REST if hand == "auto" else online()}


def test_a_pods_container_that_starts_without_the_service_is_shown(
    engine: PrivatePodman, made: Containers, sidecar: SidecarProcess, kernel: KernelView
) -> None:
    """It is in its pod's cgroup, where only the hand's news leads. When it is gone it is shown no more."""
    sidecar.configure(hand="auto")
    sidecar.start()
    owner = made.run("owner", labels={"cpuset.exclusive": "1"})
    pod = f"{made.prefix}-pod"
    engine.run("pod", "create", "--infra=false", "--name", pod)

    def run() -> str:
        made.made.append(engine.run("run", "-d", "--pod", pod, "--network", "none", made.image, *SLEEP).strip())
        return made.made[-1]

    is_alone = partial(is_told_alone, sidecar, owner)
    try:
        first = run()
        eventually(lambda: (shown := sidecar.container(first)) and shown.is_settled, "the pod's first is settled")
        eventually(is_alone, "alone")
        engine.kill()
        try:
            newcomer = run()
            eventually(lambda: sidecar.container(newcomer) is not None, "it is shown")
            assert kernel.once_running(newcomer) == REST
            engine.run("rm", "-f", "-t0", newcomer)
            eventually(lambda: sidecar.container(newcomer) is None, "one that is gone is shown no more")
            made.made.remove(newcomer)
            # The pod itself is no container, whatever its cgroup is called.
            assert {each.id for each in sidecar.status().containers} == {owner, first}
        finally:
            engine.start()
        eventually(is_alone, "alone again", seconds=30.0)
    finally:
        engine.run("pod", "rm", "-f", "-t0", pod)
        del made.made[1:]


@pytest.mark.skipif(not Path("/sys/fs/cgroup/cpuset").exists(), reason="systemd takes no path as a parent")
@pytest.mark.intrudes("a container is put inside the owner's cgroup, on its CPU")
def test_an_owner_is_told_of_what_is_born_inside_it_without_the_service(
    engine: PrivatePodman, made: Containers, sidecar: SidecarProcess, kernel: KernelView
) -> None:
    """The kernel tells of it. Its engine cannot, and what was told last does not stay."""
    sidecar.configure(hand="auto")
    sidecar.start()
    owner = made.run("owner", labels={"cpuset.exclusive": "1"})

    is_alone = partial(is_told_alone, sidecar, owner)
    eventually(is_alone, "alone")
    engine.kill()
    try:
        inside = f"/libpod_parent/libpod-{owner}"
        evil = engine.run("run", "-d", "--network", "none", "--cgroup-parent", inside, made.image, *SLEEP).strip()
        made.made.append(evil)
        assert kernel.once_running(evil) == LAST
        eventually(lambda: not is_alone(), "it is not alone", seconds=2.0)
        engine.run("rm", "-f", "-t0", evil)
        made.made.remove(evil)
    finally:
        engine.start()
    eventually(is_alone, "alone again", seconds=30.0)
