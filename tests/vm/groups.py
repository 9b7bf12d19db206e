"""The groups: which tests run on which machine with which engine. Data; `running` runs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from tests.vm.machine import Machine

DOCKER: Final = "Docker 26.1.5"
PODMAN: Final = "Podman 5.4.2"
ROOTLESS: Final = "Podman 5.4.2, a user's"
NO_ENGINE: Final = "no engine"
"""The versions of the machines' Debian; tests/live/test_ground.py shows the true ones in its report."""

_ASK: Final[Mapping[str, str]] = {DOCKER: "docker", PODMAN: "podman", ROOTLESS: "rootless"}


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Tests on a machine. `tests` are pytest's arguments, below the project; missing ones are left out.

    `seconds` is the time limit for all of it, on the host's clock: twice what it took there alone, since other work on
    the host doubles every time.
    """

    name: str
    about: str
    engine: str
    machine: Machine
    tests: tuple[str, ...]
    environment: Mapping[str, str] = {}
    seconds: float = 1500.0

    def settings(self) -> dict[str, str]:
        """Return the environment of its tests."""
        machine = self.machine
        shape = f"{machine.sockets},{machine.cores},{machine.threads},{machine.nodes}"
        asked = {"CPUSET_TESTS_ENGINE": _ASK[self.engine]} if self.engine in _ASK else {}
        return {"CPUSET_TESTS_SHAPE": shape, **asked, **self.environment}


SYSTEMD: Final = Machine()
PLAIN: Final = Machine(sockets=1, cores=4, threads=1, nodes=1)
"""For what does not depend on the shape: it is faster."""
PLAIN_TINY: Final = msgspec.structs.replace(PLAIN, init="tiny")
TINY: Final = Machine(init="tiny")

CONTRACT: Final = ("tests/contract", "tests/live/test_ground.py", "tests/live/test_cgroups.py")
LIFE: Final = (
    "tests/live/test_lifecycle.py",
    "tests/live/test_placing.py",
    "tests/live/test_redeploys.py",
    "tests/live/test_shortage.py",
    "tests/live/test_daemon.py",
)
HAND: Final = (
    "tests/live/test_hand_births.py",
    "tests/live/test_hand_stops.py",
    "tests/live/test_hand_writes.py",
    "tests/live/test_shut_cgroups.py",
)
OFFLINE: Final = {"CPUSET_TESTS_OFFLINE": "1"}
"""The right to take CPUs of this machine offline: never asked for where anybody else is."""

AWAY: Final = {"CPUSET_TESTS_AWAY": "60"}
"""How many seconds a service is away."""

UNITS: Final = {"CPUSET_TESTS_UNITS": "1"}
"""The right to install units on this machine, and to restart its own engine."""

GROUPS: Final = (
    Group(
        name="topology",
        about="the machine as the kernel tells it, against lscpu and lstopo",
        engine=NO_ENGINE,
        machine=Machine(cores=4, order="interleave", init="tiny"),
        tests=("tests/live/test_topology.py",),
        environment=OFFLINE,
        seconds=300,
    ),
    Group(
        name="docker-contract",
        about="contract",
        engine=DOCKER,
        machine=SYSTEMD,
        tests=CONTRACT,
    ),
    Group(
        name="docker-systemd",
        about="life of exclusive containers",
        engine=DOCKER,
        machine=SYSTEMD,
        tests=LIFE,
        seconds=2700.0,
    ),
    Group(
        name="docker-cgroupfs",
        about="contract",
        engine=DOCKER,
        machine=TINY,
        tests=("tests/contract", "tests/live/test_ground.py", "tests/live/test_placing.py"),
    ),
    Group(
        name="podman-contract",
        about="contract",
        engine=PODMAN,
        machine=SYSTEMD,
        tests=CONTRACT,
    ),
    Group(
        name="podman-systemd",
        about="life of exclusive containers",
        engine=PODMAN,
        machine=SYSTEMD,
        tests=LIFE,
        seconds=2700.0,
    ),
    Group(
        name="podman-cgroupfs",
        about="contract",
        engine=PODMAN,
        machine=TINY,
        tests=("tests/contract", "tests/live/test_ground.py", "tests/live/test_placing.py"),
    ),
    Group(
        name="docker-dynamic",
        about="the dynamic policy, with workloads that follow",
        engine=DOCKER,
        machine=SYSTEMD,
        tests=("tests/live/test_dynamic.py",),
        seconds=1200,
    ),
    Group(
        name="docker-faults",
        about="the engine is killed, hangs, or lies",
        engine=DOCKER,
        machine=SYSTEMD,
        tests=("tests/live/test_crash.py", "tests/live/test_giant_label.py"),
    ),
    Group(
        name="docker-strict",
        about="strict start",
        engine=DOCKER,
        machine=SYSTEMD,
        tests=("tests/live/test_strict*.py",),
    ),
    Group(
        name="podman-strict",
        about="strict start",
        engine=PODMAN,
        machine=SYSTEMD,
        tests=("tests/live/test_strict*.py",),
    ),
    Group(
        name="docker-default",
        about="everything that starts asks, through fronts before the engine's own runtimes",
        engine=DOCKER,
        machine=PLAIN,
        tests=(
            *(f"tests/live/test_default_{each}.py" for each in ("wrapped", "runtime", "recovered")),
            "tests/live/test_ways_around.py",
        ),
        seconds=2400,
    ),
    Group(
        name="podman-default",
        about="the same",
        engine=PODMAN,
        machine=PLAIN,
        tests=("tests/live/test_default_podman.py", "tests/live/test_podman_installed.py"),
    ),
    Group(
        name="docker-hotplug",
        about="CPUs that go and come",
        engine=DOCKER,
        machine=SYSTEMD,
        tests=("tests/live/test_hotplug.py", "tests/live/test_hotplug_rules.py"),
        environment=OFFLINE,
    ),
    Group(
        name="podman-hotplug",
        about="CPUs that go and come",
        engine=PODMAN,
        machine=SYSTEMD,
        tests=("tests/live/test_hotplug.py", "tests/live/test_hotplug_rules.py"),
        environment=OFFLINE,
    ),
    Group(
        name="docker-late-cpus",
        about="CPUs that come after the engine started",
        engine=DOCKER,
        machine=Machine(init="tiny", append="maxcpus=4"),
        tests=("tests/live/test_late_cpus.py",),
        environment=OFFLINE,
        seconds=400,
    ),
    Group(
        name="docker-units",
        about="daemon-reload, and the engine's restart with live-restore",
        engine=DOCKER,
        machine=SYSTEMD,
        tests=("tests/live/test_systemd.py",),
    ),
    Group(
        name="docker-host",
        about="the host's own services are kept off owners' CPUs, and put back",
        engine=DOCKER,
        machine=SYSTEMD,
        tests=("tests/live/test_host_processes.py",),
        seconds=1500,
    ),
    Group(
        name="docker-busy-host",
        about="the same on a host that is busy in every way",
        engine=DOCKER,
        machine=PLAIN,
        tests=("tests/live/test_busy_host.py",),
        seconds=1500,
    ),
    Group(
        name="podman-units",
        about="daemon-reload",
        engine=PODMAN,
        machine=SYSTEMD,
        tests=("tests/live/test_systemd.py",),
    ),
    Group(
        name="docker-boot",
        about="units and drop-ins of the pages; what exists after the engine's restart and a boot with ten containers",
        engine=DOCKER,
        machine=PLAIN,
        tests=("tests/docs/test_units.py", "tests/live/test_units.py"),
        environment=UNITS,
    ),
    Group(
        name="docker-restarts",
        about="the same with an engine of the tests' own, without units",
        engine=DOCKER,
        machine=PLAIN,
        tests=("tests/live/test_boot.py",),
    ),
    Group(
        name="podman-boot",
        about="quadlets as they are shipped, judged and run",
        engine=PODMAN,
        machine=PLAIN,
        tests=("tests/docs/test_quadlets.py", "tests/live/test_quadlets.py"),
        environment=UNITS,
    ),
    Group(
        name="docker-compose",
        about="services that are recreated and restarted by Compose, on whole cores",
        engine=DOCKER,
        machine=SYSTEMD,
        tests=("tests/live/test_compose.py",),
        seconds=900,
    ),
    Group(
        name="docker-hand",
        about="births, builds, and writes of others, with the hand",
        engine=DOCKER,
        machine=PLAIN,
        tests=HAND,
    ),
    Group(
        name="docker-hand-cgroupfs",
        about="the same",
        engine=DOCKER,
        machine=PLAIN_TINY,
        tests=HAND,
    ),
    Group(
        name="podman-hand",
        about="the same, pods, and containers without a service",
        engine=PODMAN,
        machine=PLAIN,
        tests=HAND,
    ),
    Group(
        name="podman-hand-cgroupfs",
        about="the same",
        engine=PODMAN,
        machine=PLAIN_TINY,
        tests=HAND,
    ),
    Group(
        name="podman-rootless",
        about="the same with a user's own Podman and sidecar",
        engine=ROOTLESS,
        machine=PLAIN,
        tests=HAND,
        environment={"CPUSET_TESTS_USERS": "1"},
    ),
    Group(
        name="podman-own",
        about="containers without a service for a minute, pods, and what only Podman does",
        engine=PODMAN,
        machine=PLAIN,
        tests=("tests/live/test_without_service.py", "tests/live/test_pods.py", "tests/live/test_podman.py"),
        environment=AWAY,
        seconds=2400,
    ),
    Group(
        name="podman-rootless-own",
        about="containers without a service for a minute, with a user's own Podman and sidecar",
        engine=ROOTLESS,
        machine=PLAIN,
        tests=("tests/live/test_without_service.py",),
        environment={"CPUSET_TESTS_USERS": "1", **AWAY},
    ),
    Group(
        name="docker-isolated",
        about="CPUs that the kernel keeps free",
        engine=DOCKER,
        machine=Machine(init="tiny", append="isolcpus=6-7"),
        tests=("tests/live/test_isolated.py",),
        seconds=400,
    ),
    Group(
        name="docker-slice",
        about="the shared slice",
        engine=DOCKER,
        machine=SYSTEMD,
        tests=("tests/live/test_slice*.py",),
        seconds=1200,
    ),
    Group(
        name="docker-slice-cgroupfs",
        about="the shared group, a path",
        engine=DOCKER,
        machine=TINY,
        tests=("tests/live/test_slice*.py",),
    ),
)
