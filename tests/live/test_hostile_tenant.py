"""A tenant that does everything hostile at once, at random, beside honest owners and arrivals on a real engine."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

import pytest

from tests.live.births import judged
from tests.live.containers import Containers
from tests.live.crowd import footprint
from tests.live.hostile import HostileTenant
from tests.live.kernelview import KernelView
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import SidecarProcess
from tests.live.test_tenants import LOOP_SECONDS, MOST_MEMORY, UNDISTURBED, on_docker
from tests.live.waiting import PATIENCE, eventually
from tests.live.watching import WAITING, until_alone
from tests.support.attacks import UNMANAGED, Attack

__all__ = ["on_docker"]

pytestmark = [pytest.mark.live, pytest.mark.slow]

ARRIVALS: Final = 8

LEAST_SECONDS: Final = 0.1 * PATIENCE
"""What a busy machine takes for anything."""


@pytest.mark.intrudes("neighbours are updated onto the CPU of the owner")
def test_acts_of_all_kinds_at_random_delay_no_arrival_and_disturb_no_owner(
    sidecar: SidecarProcess, own_engine: PrivateEngine, workloads: Containers, kernel: KernelView, tmp_path: Path
) -> None:
    """Beside a tenant that does all of this at once: arrivals one after the other, then an owner that stays. Half of
    them are told that they are settled in at most twice the time of the slowest beside a tenant that keeps the engine
    as busy, and only starts plain containers.
    """
    parent = "" if own_engine.cgroup_parent.endswith(".slice") else own_engine.cgroup_parent
    sidecar.configure(unmanaged=[f"{workloads.prefix}-{UNMANAGED}"])
    sidecar.start()
    named = {"cpuset.projection": "voice"}
    undisturbed = [arrival(sidecar, workloads, f"before-{number}") for number in range(ARRIVALS)]
    busy, took = list[tuple[float, float, float]](), list[tuple[float, float, float]]()
    with HostileTenant(workloads, Random(1), "voice", attacks=[Attack.CROWD]):
        busy += [arrival(sidecar, workloads, f"busy-{number}") for number in range(ARRIVALS)]
    with HostileTenant(workloads, Random(1), "voice", parent) as tenant:
        while len(took) < ARRIVALS or set(tenant.acts) != set(Attack):
            took.append(arrival(sidecar, workloads, f"beside-{len(took)}"))
        owner = workloads.run("owner", labels={**WAITING, **named})
        until_alone(sidecar, owner)
        with judged(kernel, owner, tmp_path) as seen:
            time.sleep(LOOP_SECONDS)
    stays = sorted(each.state / 1e6 for each in seen.notes.stays(but=(owner,))) if seen.notes else []
    print(seen.exposure, "longest stays in ms", stays[-3:], dict(tenant.acts))
    print("started and alone at most after", slowest(undisturbed), slowest(took))
    found = [sorted(told for *_, told in each) for each in (undisturbed, busy, took)]
    print("settled after the start", *([round(told, 3) for told in each] for each in found))
    assert seen.exposure.percent <= 5.0, seen.exposure
    assert median(found[2]) <= 2 * max(*found[1], LEAST_SECONDS)
    # The requests keep the engine busy, too.
    assert max(alone for _, alone, _ in took) <= 3 * UNDISTURBED
    assert footprint(sidecar.pid).resident_kib <= MOST_MEMORY
    until_alone(sidecar, owner)


def arrival(sidecar: SidecarProcess, workloads: Containers, name: str) -> tuple[float, float, float]:
    """Run a container that asks for the CPU, and remove it. Return the seconds until the engine had started it, and
    until it was alone; and those from its start by the engine's clock until it was told that it is settled. These two
    do not count how late this process learns of it, beside the threads of a tenant.
    """
    began = time.monotonic()
    one = workloads.run(name, labels=WAITING)
    started = time.monotonic() - began
    until_alone(sidecar, one)
    alone = time.monotonic() - began
    eventually(lambda: (told := sidecar.projection(one)) and told.settled and told.alone, "it is told")
    told_at = (sidecar.projections / "by-id" / one[:12] / "status.json").stat().st_mtime
    began_at = datetime.fromisoformat(workloads.api.inspect(one)["State"]["StartedAt"][:26] + "+00:00").timestamp()
    workloads.api.remove(one)
    return started, alone, max(0.0, told_at - began_at)


def slowest(took: list[tuple[float, float, float]]) -> tuple[float, ...]:
    """Return the longest times of arrivals, in seconds."""
    return tuple(round(max(each), 2) for each in zip(*took, strict=True))
