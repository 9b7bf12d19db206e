"""Engines whose answers cannot be trusted: a proxy that fails, cuts, delays and garbles them, before a real engine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.churn import Churn
from tests.live.containers import Containers
from tests.live.faultproxy import Fault, FaultProxy, at_random, nothing
from tests.live.kernelview import KernelView
from tests.live.sidecarfixtures import Ground
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import PATIENCE, eventually
from tests.live.watching import (
    NANO,
    ONE,
    given_back,
    problems,
    reasons,
    until_alone,
    until_gone,
    until_shared,
    watched,
)
from tests.support.keys import by_id

pytestmark = pytest.mark.live

CHURN_SECONDS = 8.0


@pytest.fixture
def proxy(ground: Ground, tmp_path: Path) -> Iterator[FaultProxy]:
    """Provide a proxy in front of the engine under test; the tests' own requests bypass it."""
    made = FaultProxy(ground.api.socket_path, tmp_path / "proxy.sock")
    yield made
    made.close()


@pytest.fixture
def behind(sidecar: SidecarProcess, proxy: FaultProxy) -> SidecarProcess:
    """Provide a sidecar that reaches the engine through the proxy alone."""
    sidecar.configure(engine=f"unix://{proxy.path}")
    return sidecar


@pytest.mark.slow
def test_answers_go_wrong_in_every_way_under_churn(ground: Ground, proxy: FaultProxy, tmp_path: Path) -> None:
    """A third of all requests and nearly every stream go wrong. Afterwards State, files and kernel agree, no container
    was ever called alone wrongly, and everything can be released.
    """
    churn = Churn(ground.api, tmp_path / "churn", seed=22, is_private=ground.is_private)
    churn.sidecar.configure(engine=f"unix://{proxy.path}")

    def go_wrong() -> None:
        churn.sidecar.until_ready()
        proxy.choose = at_random(seed=22, rate=0.3)
        proxy.cut_streams()
        time.sleep(CHURN_SECONDS * PATIENCE)
        proxy.choose = nothing

    report = churn.run(meanwhile=go_wrong)
    assert report.violations == []
    assert report.containers > 5
    assert len(proxy.done) > 5


@pytest.mark.parametrize("fault", [Fault.HALF_FAIL, Fault.CUT, Fault.GARBAGE, Fault.PAGE], ids=lambda each: each.name)
def test_an_order_that_goes_wrong_is_made_good(
    behind: SidecarProcess, proxy: FaultProxy, workloads: Containers, kernel: KernelView, fault: Fault
) -> None:
    """The first two orders, whether the engine carried them out or not: reported with the reason, looked at,
    repeated.
    """
    wrong = {"left": 2}

    def choose(_method: str, path: str) -> Fault | None:
        if not path.endswith("/update") or path.startswith("/containers/0000") or not wrong["left"]:
            return None
        wrong["left"] -= 1
        return fault

    behind.start()
    proxy.choose = choose
    neighbour, owner = workloads.run("neighbour"), workloads.run("owner", labels=ONE, NanoCpus=NANO)
    with watched(behind, neighbour, owner):
        until_alone(behind, owner)
        until_shared(behind, neighbour)
    eventually(lambda: behind.has_logged("an order failed"), "said")
    assert wrong["left"] == 0
    assert all(reasons(behind, "an order failed"))
    assert (kernel.once_running(owner), kernel.once_running(neighbour)) == (LAST, REST)
    given_back(behind, workloads, {owner: {"NanoCpus": NANO}, neighbour: {}})


@pytest.mark.parametrize("fault", [Fault.TORN, Fault.SHORT], ids=lambda each: each.name)
def test_a_stream_that_goes_wrong_hides_nothing(
    behind: SidecarProcess, proxy: FaultProxy, workloads: Containers, fault: Fault
) -> None:
    """Every stream, for as long as it lasts: all containers that come and go meanwhile are found."""
    behind.configure(reconcile_period="1m")
    behind.start()
    proxy.choose = lambda _, path: fault if path.startswith("/events") else None
    proxy.cut_streams()
    noisy = workloads.create("noisy")

    def again(times: int) -> bool:
        """Cause more events, without which no stream ends in the middle of one."""
        workloads.api.update(noisy, CpuShares=1024)
        time.sleep(0.1 * PATIENCE)
        return proxy.done[fault] >= times

    eventually(lambda: again(2), "it goes wrong again and again")
    first = workloads.run("first", labels=ONE)
    neighbour = workloads.run("neighbour")
    eventually(lambda: again(4), "and again")
    workloads.api.remove(first)
    second = workloads.run("second", labels=ONE)
    proxy.choose = nothing
    # After so many streams that told of nothing the next try may be ten seconds away.
    eventually(lambda: behind.status().is_ready, "it follows the engine again", seconds=30)
    until_alone(behind, second)
    until_shared(behind, neighbour)
    assert set(by_id(behind.books().assignments)) == {second}
    assert all(reasons(behind, "the engine cannot be reached"))
    eventually(lambda: not problems(behind), "all is well again")


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.GARBAGE], ids=lambda each: each.name)
def test_a_list_that_cannot_be_had_is_said(
    behind: SidecarProcess, proxy: FaultProxy, workloads: Containers, fault: Fault
) -> None:
    """No container is taken for gone. Events are followed all the same."""
    behind.start()
    first = workloads.run("first", labels=ONE)
    until_alone(behind, first)
    proxy.choose = lambda _, path: fault if path.startswith("/containers/json") else None
    eventually(lambda: "containers cannot be listed" in problems(behind), "said")
    workloads.api.remove(first)
    until_gone(behind, first)
    second = workloads.run("second", labels=ONE)
    until_alone(behind, second)
    proxy.choose = nothing
    eventually(lambda: not problems(behind), "all is well again")
