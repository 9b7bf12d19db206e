"""Podman's answers as recorded from 4.3.1, and how they are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sidecar.decide.facts import Phase
from sidecar.decide.orders import Update
from sidecar.engines.docker import docker_wire
from sidecar.engines.podman import libpod_wire
from sidecar.engines.podman.libpod_wire import Native, PodLimits
from sidecar.failures import EngineFailed, EngineLacks
from state.cpuset import CPUSet

RECORDED = Path(__file__).parents[1] / "recorded"
INSPECT = (RECORDED / "podman-4.3-inspect.json").read_bytes()
INFO = (RECORDED / "podman-4.3-info.json").read_bytes()
EVENTS = (RECORDED / "podman-4.3-events.jsonl").read_bytes().splitlines()
NANO = 1_000_000_000


def info(**host: Any) -> bytes:
    """Return the recorded answer with other values about the host."""
    said = json.loads(INFO)
    said["host"].update(host)
    return json.dumps(said).encode()


def test_a_container_is_described_in_the_port_s_words() -> None:
    """Its limit as nano CPUs alone, its cgroup and runtime as Podman reports them."""
    view = docker_wire.view_of(INSPECT)
    said = libpod_wire.native_of(view)
    assert said == Native(cpus="0-1", quota=150_000, period=100_000)
    told = libpod_wire.told(view, said, keeps_updates=True)
    assert (told.cpuset, told.nano_cpus, told.cpu_quota) == ("0-1", 1_500_000_000, 0)
    assert (told.name, told.phase, told.runtime) == ("rec2", Phase.RUNNING, "runc")
    assert told.cgroup == f"/libpod_parent/libpod-{told.id}"
    assert told.labels == {"cpuset.exclusive": "2", "cpuset.projection": "web"}
    assert (told.memory, told.memory_reservation) == (64 << 20, 32 << 20)
    assert libpod_wire.told(view, said, keeps_updates=False).forgets_updates
    assert docker_wire.has_restart_policy(INSPECT)


@pytest.mark.parametrize(
    ("said", "limit", "expected"),
    [
        (Native(period=100_000), 500_000_000, Native(quota=50_000, period=100_000)),
        (Native(quota=200_000, period=100_000), 500_000_000, Native(quota=50_000, period=100_000)),
        (Native(), 500_000_000, Native(quota=50_000, period=100_000)),
        (Native(quota=25_000, period=50_000), 0, Native(period=50_000)),
        (Native(quota=33_300, period=100_000), 340_000_000, Native(quota=33_300, period=100_000)),
        (Native(period=100_000), 5_000_000, Native(quota=500, period=100_000)),
        (Native(quota=25_000, period=50_000), None, Native(quota=25_000, period=50_000)),
    ],
    ids=[
        "a new one",
        "a lower one",
        "without a period",
        "none any more",
        "rounded by systemd",
        "a tiny one",
        "unknown",
    ],
)
def test_the_limit_that_the_kernel_enforces_counts(said: Native, limit: int | None, expected: Native) -> None:
    """Not what Podman says of the last start."""
    assert said.in_force(limit) == expected


def test_what_holds_a_pod_together_is_known() -> None:
    said = json.loads(INSPECT)
    assert not docker_wire.view_of(INSPECT).is_infra
    assert docker_wire.view_of(json.dumps(said | {"IsInfra": True}).encode()).is_infra
    assert docker_wire.is_wanted(("IsInfra",))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["podman", "--runtime", "cpuset", "run", "web"], True),
        (["podman", "run", "--cpuset-cpus", "1", "web"], False),
        (["podman", "run", "--cpuset-cpus=1", "web"], False),
        (["podman", "system", "service", "--time=0"], False),
        ([], False),
    ],
)
def test_a_command_that_pins_is_known(command: list[str], expected: bool) -> None:
    """Of a container that was created by the API the command is the service's, or none: it tells nothing."""
    said = json.loads(INSPECT)
    said["Config"]["CreateCommand"] = command
    answer = json.dumps(said).encode()
    assert libpod_wire.completed(docker_wire.view_of(answer), answer).names_no_cpuset == expected


def test_annotations_count_as_labels_and_the_pod_is_known() -> None:
    """In a kube YAML a single container can have no labels. A label counts before an annotation."""
    said = json.loads(INSPECT)
    said["Pod"] = "b" * 64
    said["Config"]["Annotations"] |= {"cpuset.exclusive": "1", "cpuset.numa": "single", "cpuset.exclusive/voice": "2"}
    answer = json.dumps(said).encode()
    view = libpod_wire.completed(docker_wire.view_of(answer), answer)
    assert view.pod == "b" * 64
    expected = {"cpuset.exclusive": "2", "cpuset.numa": "single", "cpuset.exclusive/voice": "2"}
    assert view.labels == {**expected, "cpuset.projection": "web"}
    assert libpod_wire.is_wanted(("Pod",))


def test_a_container_without_a_cgroup_is_known() -> None:
    said = json.loads(INSPECT)
    assert not libpod_wire.completed(docker_wire.view_of(INSPECT), INSPECT).has_no_cgroup
    said["HostConfig"]["Cgroups"] = "disabled"
    answer = json.dumps(said).encode()
    assert libpod_wire.completed(docker_wire.view_of(answer), answer).has_no_cgroup


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"cpuset_cpus": "0-1", "cpu_quota": 150_000, "cpu_period": 100_000}, PodLimits("0-1", 1.5)),
        ({"cpu_quota": 50_000}, PodLimits("", 0.5)),
        ({"cpu_quota": -1, "cpu_period": 100_000}, PodLimits()),
        ({}, PodLimits()),
    ],
)
def test_the_limits_of_a_pod_are_read(said: dict[str, Any], expected: PodLimits) -> None:
    assert libpod_wire.pod_limits_of(json.dumps(said).encode()) == expected


def test_a_glance_has_no_limits() -> None:
    """Its identity, and nothing that a lock guards."""
    glance = libpod_wire.stripped(docker_wire.view_of(INSPECT))
    assert (glance.cpuset, glance.nano_cpus, glance.cpu_quota, glance.memory, glance.pid) == ("", 0, 0, 0, 0)
    assert (glance.name, glance.labels["cpuset.exclusive"]) == ("rec2", "2")


def test_events_come_in_docker_s_words() -> None:
    """`init` has no news; names and labels come with every event."""
    heard = [event for line in EVENTS if (event := libpod_wire.event_of(line))]
    assert [event.action for event in heard] == ["create", "start", "pause", "unpause", "rename", "die", "destroy"]
    assert len({event.container for event in heard}) == 1
    assert all(event.time_nano > 0 for event in heard)
    labels = {"cpuset.exclusive": "2", "cpuset.projection": "web", "team": "db"}
    assert libpod_wire.attributes_of(EVENTS[0], frozenset({"team"})) == ("rec", labels)
    assert libpod_wire.attributes_of(EVENTS[-1], frozenset()) == (
        "rec2",
        {"cpuset.exclusive": "2", "cpuset.projection": "web"},
    )


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b'{"Actor":null}', b'{"Actor":{"Attributes":null}}', b'{"Actor":7}']
)
def test_junk_among_the_events_says_nothing(line: bytes) -> None:
    assert libpod_wire.event_of(line) is None
    assert libpod_wire.attributes_of(line, frozenset()) == ("", {})


def test_an_event_that_is_too_long_is_still_understood() -> None:
    """From its beginning and its end, in Docker's words, too."""
    event = libpod_wire.torn_event_of(EVENTS[-1][:250], EVENTS[-1][-100:])
    assert event is not None
    assert (event.action, event.time_nano > 0) == ("destroy", True)
    assert libpod_wire.torn_event_of(b"{", b"}") is None


@pytest.mark.parametrize(
    ("before", "update", "after", "body"),
    [
        (Native(), Update(cpus=CPUSet.of(1)), Native(cpus="1"), {"cpus": "1"}),
        (
            Native(cpus="0", quota=150_000, period=100_000),
            Update(cpus=CPUSet.of(1)),
            Native(cpus="1", quota=150_000, period=100_000),
            {"cpus": "1"},
        ),
        (
            Native(quota=150_000, period=100_000),
            Update(cpus=CPUSet.of(1), nano_cpus=4 * NANO),
            Native(cpus="1", quota=400_000, period=100_000),
            {"cpus": "1", "quota": 400_000, "period": 100_000},
        ),
        (
            Native(quota=50_000),
            Update(cpus=CPUSet.of(1), nano_cpus=2 * NANO, mems="0"),
            Native(cpus="1", mems="0", quota=200_000, period=100_000),
            {"cpus": "1", "mems": "0", "quota": 200_000, "period": 100_000},
        ),
        (
            Native(quota=10_000, period=30_000),
            Update(cpus=CPUSet.of(1), cpu_quota=-1),
            Native(cpus="1", quota=120_000, period=30_000),
            {"cpus": "1", "quota": 120_000, "period": 30_000},
        ),
    ],
)
def test_an_update_names_only_what_changes(before: Native, update: Update, after: Native, body: dict[str, Any]) -> None:
    """A quota of -1 is never sent: under crun and systemd it would be a hundredth of a CPU."""
    wanted = before.after(update, ncpu=4)
    assert wanted == after
    assert json.loads(libpod_wire.update_body(wanted, update, is_whole=False)) == {"cpu": body}


def test_a_podman_that_forgets_is_told_everything_each_time() -> None:
    """A limit that an earlier sidecar lifted is restored by any update of the next one."""
    wanted = Native(cpus="0", mems="0", quota=150_000, period=100_000)
    body = json.loads(libpod_wire.update_body(wanted, Update(cpus=CPUSet.of(0)), is_whole=True))
    assert body == {"cpu": {"cpus": "0", "mems": "0", "quota": 150_000, "period": 100_000}}


@pytest.mark.parametrize(("quota", "period"), [(33_333, 100_000), (10_000, 30_000), (1_000, 1_000_000), (7_777, 0)])
def test_a_limit_survives_the_way_through_nano_cpus(quota: int, period: int) -> None:
    """The restored limit equals the original, to the microsecond."""
    before = Native(quota=quota, period=period)
    view = libpod_wire.told(docker_wire.view_of(INSPECT), before, keeps_updates=True)
    after = before.after(Update(cpus=CPUSet.of(0), nano_cpus=view.nano_cpus), ncpu=2)
    assert after.quota == quota


def test_an_old_podman_says_what_it_lacks() -> None:
    """As recorded: it serves, and forgets."""
    said = libpod_wire.engine_info_of(INFO, "4.3.1")
    assert (said.name, said.version, said.ncpu, said.cgroup_version) == ("podman", "4.3.1", 2, "1")
    assert (said.traits.keeps_updates, said.is_rootless) == (False, False)
    assert said.notes[0].startswith("this Podman loses updates (before 5.1)")
    assert libpod_wire.home_of(INFO) == "/var/lib/podman/root"


@pytest.mark.parametrize(
    ("version", "keeps", "said"), [("5.0.3", False, "loses"), ("5.2.0", True, "best effort"), ("5.4.2", True, "")]
)
def test_each_version_says_what_it_lacks(version: str, keeps: bool, said: str) -> None:
    found = libpod_wire.engine_info_of(info(cgroupVersion="v2", security={"rootless": True}), version)
    assert (found.traits.keeps_updates, found.is_rootless) == (keeps, True)
    assert any(said in note for note in found.notes)
    assert any("only this user's containers" in note for note in found.notes)
    assert len(found.notes) == (3 if said else 2)


@pytest.mark.parametrize(
    ("host", "version", "cure"),
    [
        ({}, "4.2.0", "4.3 or later"),
        ({}, "", "4.3 or later"),
        ({"eventLogger": "none"}, "5.4.2", "`journald` or `file`"),
        (
            {"cgroupVersion": "v2", "cgroupControllers": ["cpu", "memory", "pids"], "security": {"rootless": True}},
            "5.4.2",
            r"it has cpu, memory, pids.*Delegate=cpu cpuset io memory pids.*user@\.service\.d/delegate\.conf",
        ),
        (
            {"cgroupVersion": "v1", "cgroupControllers": [], "security": {"rootless": True}},
            "5.4.2",
            "it has none.*unified_cgroup_hierarchy=1",
        ),
        ({"cgroupVersion": "v2", "cgroupControllers": None}, "5.4.2", "enable it for this host"),
    ],
)
def test_what_cannot_serve_is_refused_with_the_cure(host: dict[str, Any], version: str, cure: str) -> None:
    with pytest.raises(EngineLacks, match=cure):
        libpod_wire.engine_info_of(info(**host), version)


def test_an_answer_that_is_none_is_an_error() -> None:
    with pytest.raises(EngineFailed):
        libpod_wire.engine_info_of(b"<html>", "5.4.2")
