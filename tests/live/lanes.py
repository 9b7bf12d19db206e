"""Lanes: which live tests run one after another, and which may run beside each other in another process.

pytest-xdist gives all tests of a lane to one worker. The lanes of one worker use its own private engine, so that two
lanes never share an engine which one of them kills. The lane `host` needs the whole machine, or changes it: while one
of its tests runs, no other live test does. Without root there is one engine for all live tests, and so one lane.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

HOST: Final = "host"

LANES: Final[Mapping[str, tuple[str, ...]]] = {
    # These stop, kill or freeze the engine, or install a runtime in it.
    "engine": (
        *("test_crash", "test_dynamic", "test_faults_engine", "test_faults_hang", "test_faults_socket"),
        *(
            "test_boot",
            "test_hand_stops",
            "test_slow_starts",
            "test_strict",
            "test_strict_boot",
            "test_default_runtime",
            "test_default_recovered",
            "test_default_wrapped",
            "test_ways_around",
        ),
        "test_dead_sidecar",
        "test_standing_order",
        "test_exec",
    ),
    # These share an engine that stays up.
    "stories": (
        *("test_astray", "test_daemon", "test_disturbed", "test_doctor", "test_dynamic_small", "test_faults_answers"),
        *("test_faults_crowd", "test_faults_names", "test_faults_projections", "test_faults_sidecars"),
        *(
            "test_faults_state",
            "test_faults_unexpected",
            "test_faults_workloads",
            "test_lifecycle",
            "test_placing",
            "test_redeploys",
        ),
        *("test_compose", "test_page", "test_hooks", "test_prometheus", "test_shortage"),
        *("test_top", "test_unprivileged"),
    ),
    # Contract tests on Podman have this lane too.
    "podman": (
        "test_podman",
        "test_pods",
        "test_strict_podman",
        "test_default_podman",
        "test_podman_installed",
        "test_faults_podman_disk",
        "test_two_engines",
    ),
    "swarm": ("test_swarm",),
    "tenants": ("test_tenants", "test_hostile_tenant", "test_tenants_inside", "test_tenants_deep", "test_born_inside"),
    # The host's engine, without a sidecar; contract tests on Docker have this lane too.
    "contract": ("test_alonejudge", "test_cgroups", "test_giant_label", "test_ground", "test_proxied"),
    HOST: (
        *("test_faults_clock", "test_hotplug", "test_hotplug_rules", "test_isolated", "test_late_cpus"),
        *("test_busy_host", "test_hand_births", "test_hand_writes", "test_host_processes", "test_quadlets"),
        *("test_renamed_cgroups", "test_shut_cgroups"),
        *("test_root_parent", "test_slice", "test_systemd", "test_topology", "test_units", "test_without_service"),
    ),
}
"""The modules of each lane. The longest lane first: it starts first. Only `host` comes later (conftest)."""

ONLY: Final = "live"
"""The one lane where there is one engine for all."""


def lane_of(module: str) -> str:
    """Return the lane of a module of live tests, by its name without packages. KeyError: it has none."""
    return _LANE_OF[module]


def lanes_here() -> tuple[str, ...]:
    """Return the lanes in which tests run on this host, the longest first."""
    return tuple(LANES) if os.geteuid() == 0 and shutil.which("dockerd") else (ONLY,)


@contextmanager
def room_on_host(folder: Path, *, is_alone: bool) -> Iterator[None]:
    """Run a block beside others, or alone; `folder` is shared by all workers.

    A block that waits to be alone is next: the others queue behind it.
    """
    with open(folder / "queue.lock", "a") as queue, open(folder / "host.lock", "a") as host:
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(host, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield


_LANE_OF: Final = {module: lane for lane, modules in LANES.items() for module in modules}
