"""A tenant that does everything hostile at once, at random, beside honest owners and arrivals on a real engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

import pytest

from tests.bench.beside.arrivals import Arrival, arrival
from tests.bench.beside.tenant import VICTIM, hostile_tenant
from tests.bench.beside.weighed import weighed
from tests.live.births import judged
from tests.live.containers import Containers
from tests.live.crowd import footprint
from tests.live.kernelview import KernelView
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import SidecarProcess
from tests.live.test_tenants import LOOP_SECONDS, MOST_MEMORY, UNDISTURBED
from tests.live.waiting import PATIENCE
from tests.live.watching import WAITING, until_alone
from tests.support.attacks import UNMANAGED, Attack

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.usefixtures("dockers_routes")]

ARRIVALS: Final = 8

WEIGHT: Final = 1000
"""Of the daemon, as the shipped files give it."""

MOST_TIMES: Final = 2
"""How much longer than beside nobody an arrival may wait for the daemon: the median of some."""

LEAST_SECONDS: Final = 0.03 * PATIENCE
"""Less than that is not compared. It is 6 to 10 ms, on a host that is busy otherwise as well (docs/performance.md)."""

BUSY_SECONDS: Final = 0.1 * PATIENCE
"""What a busy engine takes for anything. From its start on, an arrival is compared with those beside one as busy."""


@pytest.mark.intrudes("neighbours are updated onto the CPU of the owner")
def test_acts_of_all_kinds_at_random_delay_no_arrival_and_disturb_no_owner(
    sidecar: SidecarProcess, own_engine: PrivateEngine, workloads: Containers, kernel: KernelView, tmp_path: Path
) -> None:
    """Beside a tenant that does all of this at once: arrivals one after the other, then an owner that stays. What it
    costs an arrival is printed, beside nobody, beside a tenant that only starts plain containers, and beside this one.

    The engine is busy with the tenant's requests as well. So what is compared is how long an arrival waits from when
    anybody can know of its start: when a client has the engine's description of it.
    """
    sidecar.configure(unmanaged=[f"*-{UNMANAGED}"], reconcile_period="10s")
    with weighed(WEIGHT) as before:
        sidecar.wrapper = (*before, *sidecar.wrapper)
        try:
            sidecar.start()
            held(sidecar, own_engine, workloads, kernel, tmp_path)
        finally:
            sidecar.kill()


def held(
    sidecar: SidecarProcess, own_engine: PrivateEngine, workloads: Containers, kernel: KernelView, tmp_path: Path
) -> None:
    """Check what the test promises."""
    parent = "" if own_engine.cgroup_parent.endswith(".slice") else own_engine.cgroup_parent
    undisturbed = several(sidecar, workloads, "before")
    with hostile_tenant(own_engine.socket_path, parent, 1, [Attack.CROWD]):
        busy = several(sidecar, workloads, "busy")
    with hostile_tenant(own_engine.socket_path, parent, 1, tuple(Attack)) as acts:
        beside = several(sidecar, workloads, "beside")
        owner = workloads.run("owner", labels={**WAITING, "cpuset.projection": VICTIM})
        until_alone(sidecar, owner)
        with judged(kernel, owner, tmp_path) as seen:
            time.sleep(LOOP_SECONDS)
    assert {each for each, times in acts.items() if times} >= set(Attack) - ({Attack.NEST} if not parent else set())
    stays = sorted(each.state / 1e6 for each in seen.notes.stays(but=(owner,))) if seen.notes else []
    print(seen.exposure, "longest stays in ms", stays[-3:], acts)
    for name, each in (("before", undisturbed), ("busy", busy), ("beside", beside)):
        print(name, "told after the start", *(round(one.until_told, 3) for one in each))
        print(name, "told after it was described", *(round(one.daemons_part, 3) for one in each))
    assert seen.exposure.percent <= 5.0, seen.exposure
    least = max(LEAST_SECONDS, median(each.daemons_part for each in undisturbed))
    assert median(each.daemons_part for each in beside) <= MOST_TIMES * least
    slowest = max(BUSY_SECONDS, *(each.until_told for each in busy))
    assert median(each.until_told for each in beside) <= MOST_TIMES * slowest
    assert max(each.until_told for each in beside) <= 3 * UNDISTURBED
    assert footprint(sidecar.pid).resident_kib <= MOST_MEMORY
    until_alone(sidecar, owner)


def several(sidecar: SidecarProcess, workloads: Containers, name: str) -> Sequence[Arrival]:
    """Let some arrive, one after the other."""
    return [arrival(workloads.api, sidecar, f"{workloads.prefix}-{name}-{number}") for number in range(ARRIVALS)]
