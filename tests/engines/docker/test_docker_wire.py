"""Engine JSON to our structs: recorded answers, other versions' words, and hostile input."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.decide.container import labels
from sidecar.decide.facts import Mount, Phase
from sidecar.decide.orders import Update
from sidecar.engines.docker import docker_wire, engine_identity
from sidecar.failures import EngineFailed, EngineLacks
from sidecar.ports import EngineEvent
from state.cpuset import CPUSet

RECORDED = Path(__file__).parents[1] / "recorded"
ONE = "0123456789abcdef" * 4

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def inspected(**changes: Any) -> Any:
    return docker_wire.view_of(json.dumps({"Id": ONE, **changes}).encode())


def test_a_recorded_description_is_read() -> None:
    """Docker 20.10: every field that decisions use, and no label that they do not."""
    view = docker_wire.view_of((RECORDED / "docker-20.10-inspect.json").read_bytes())
    assert view.name == "game-1"
    assert view.phase is Phase.RUNNING
    assert view.labels == {
        "com.docker.compose.oneoff": "False",
        "com.docker.compose.project": "demo",
        "com.docker.compose.service": "game",
        "cpuset.exclusive": "2",
        "cpuset.projection": "game",
    }
    assert (view.cpuset, view.mems, view.nano_cpus) == ("0-1", "0", 1_500_000_000)
    assert (view.cpu_quota, view.cpu_period) == (0, 0)
    assert (view.memory, view.memory_reservation) == (64 << 20, 32 << 20)
    assert view.pid > 0
    assert view.created_at < view.started_at
    assert view.mounts == ()
    assert view.effective is None


def test_a_recorded_engine_describes_itself() -> None:
    """Docker 20.10 on cgroup v1."""
    info = engine_identity.engine_info_of(
        (RECORDED / "docker-20.10-info.json").read_bytes(), (RECORDED / "docker-20.10-version.json").read_bytes()
    )
    assert (info.name, info.version, info.api_version) == ("docker", "20.10.24+dfsg1", "1.41")
    assert (info.ncpu, info.cgroup_version, info.cgroup_driver) == (2, "1", "cgroupfs")
    assert info.has_cpuset
    assert not info.live_restore


def test_an_engine_says_whether_it_is_in_a_swarm_and_what_it_advertises() -> None:
    """Of the generic resources only ours is read, and only as a count."""
    resources = [
        {"NamedResourceSpec": {"Kind": "gpu", "Value": "g0"}},
        {"DiscreteResourceSpec": {"Kind": "ssd", "Value": 3}},
        {"DiscreteResourceSpec": {"Kind": "exclusive-cpu", "Value": 15}},
    ]
    said: dict[str, Any] = {"NCPU": 16, "Swarm": {"LocalNodeState": "active"}, "GenericResources": resources}
    for kept, advertised in ((3, 15), (2, None), (0, None)):
        said["GenericResources"] = resources[:kept] or None
        info = engine_identity.engine_info_of(json.dumps(said).encode(), b'{"Version": "26.1.5"}')
        assert (info.in_swarm, info.advertised) == (True, advertised)
    said["Swarm"]["LocalNodeState"] = "inactive"
    assert not engine_identity.engine_info_of(json.dumps(said).encode(), b'{"Version": "26.1.5"}').in_swarm


def test_podman_is_known_by_its_components() -> None:
    """It answers on the same routes and behaves differently."""
    version = {"Version": "5.4.2", "ApiVersion": "1.41", "Components": [{"Name": "Podman Engine"}, {"Name": "Conmon"}]}
    info = engine_identity.engine_info_of(b'{"NCPU": 16, "CgroupVersion": "2"}', json.dumps(version).encode())
    assert (info.name, info.ncpu, info.has_cpuset) == ("podman", 16, True)


def test_a_volume_s_subpath_comes_from_what_was_asked_for() -> None:
    """The list of mounts lacks it; the host configuration has it, by target."""
    view = inspected(
        HostConfig={"Mounts": [{"Type": "volume", "Target": "/p", "VolumeOptions": {"Subpath": "by-name/game"}}]},
        Mounts=[{"Type": "volume", "Name": "v", "Source": "/var/lib/x", "Destination": "/p"}],
    )
    assert view.mounts == (Mount(source="v", subpath="by-name/game"),)


def test_no_author_decides_how_much_is_kept() -> None:
    """Of 1,000 mounts and 10,000 labels a few KiB are left, and what was cut is marked."""
    ours = {each.name: "x" * 5000 for each in labels.LABELS}
    odd = {f"cpuset.{number}": "y" * 5000 for number in range(10_000)}
    mounts = [{"Source": f"/by-name/{'x' * 900}{number}", "Destination": "/y"} for number in range(1000)]
    view = inspected(Config={"Labels": {**odd, **ours}}, Mounts=mounts, Name="n" * 5000)
    assert len(msgspec.json.encode(view)) < 24 * 1024
    assert view.labels.keys() >= ours.keys()
    assert len(view.labels) == len(ours) + 8
    assert len(view.mounts) == 8
    assert view.name.endswith("n…")
    assert all(len(text) == 256 and text.endswith("…") for text in view.labels.values())


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ({"Status": "created"}, Phase.CREATED),
        ({"Status": "restarting", "Running": True}, Phase.RESTARTING),
        ({"Status": "removing"}, Phase.REMOVING),
        ({"Status": "dead"}, Phase.DEAD),
        ({"Status": "initialized"}, Phase.CREATED),
        ({"Status": "stopping"}, Phase.RUNNING),
        ({"Status": "stopped"}, Phase.EXITED),
        ({"Status": "hibernating", "Running": True}, Phase.RUNNING),
        ({"Status": "hibernating", "Running": True, "Paused": True}, Phase.PAUSED),
        ({"Status": "hibernating", "Pid": 4}, Phase.RUNNING),
        ({"Status": "hibernating", "Dead": True}, Phase.DEAD),
        ({"Status": "hibernating"}, Phase.EXITED),
        ({}, Phase.EXITED),
    ],
)
def test_a_phase_is_always_found(state: dict[str, object], phase: Phase) -> None:
    """Podman's words, and those of a later version, by the flags next to them."""
    assert inspected(State=state).phase is phase


def test_what_was_never_started_has_no_stamp_of_a_start() -> None:
    """Engines report the zero of their clock."""
    assert inspected(State={"Status": "created", "StartedAt": "0001-01-01T00:00:00Z"}).started_at == ""
    assert inspected(State={"Status": "created"}).started_at == ""


def test_everything_kept_is_bounded() -> None:
    """Anyone who can create containers can write arbitrary text, which the journal and the checkpoint must hold."""
    view = inspected(
        Name="/" + "n" * 100_000,
        Config={"Labels": {f"cpuset.{n:04}": "v" * 100_000 for n in range(100)} | {"cpuset." + "k" * 9999: "v"}},
        HostConfig={"CpusetCpus": "0," * 100_000, "CgroupParent": "p" * 100_000},
        Mounts=[{"Type": "bind", "Source": "/s" * 50_000, "Destination": "/long"}]
        + [{"Type": "bind", "Source": "/s", "Destination": f"/{n}"} for n in range(1000)],
    )
    assert len(msgspec.json.encode(view.labels)) < 64 * (2 * 256 + 10)
    assert len(view.name) == 256
    assert len(view.mounts) < 256
    assert "/long" not in {mount.target for mount in view.mounts}
    assert len(view.cpuset) + len(view.cgroup_parent) <= 2 * 4096


def test_null_is_nothing() -> None:
    """Engines write null for empty lists and maps."""
    view = inspected(Name=None, Mounts=None, Config={"Labels": None}, HostConfig={"Mounts": None, "NanoCpus": None})
    assert (view.name, view.labels, view.mounts, view.nano_cpus) == ("", {}, (), 0)


@given(anything)
def test_any_json_is_an_answer_or_one_error(value: object) -> None:
    """No other exception than ours, whatever the engine sends."""
    body = json.dumps(value).encode()
    for read in (docker_wire.ids_of, docker_wire.view_of, docker_wire.check_updated):
        with contextlib.suppress(EngineFailed):
            read(body)
    assert docker_wire.event_of(body) is None


@pytest.mark.parametrize("key", ["NanoCpus", "CpuQuota", "CpuPeriod", "Memory", "MemoryReservation"])
@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**400])
def test_a_number_that_no_engine_can_have_is_that_containers_error(key: str, number: int) -> None:
    """Engines have 64 bits: with more, a limit in CPUs would overflow."""
    assert inspected(HostConfig={key: 2**63 - 1}).id == ONE
    with pytest.raises(EngineFailed):
        inspected(HostConfig={key: number})


@given(st.binary(max_size=100))
def test_any_bytes_are_no_event(line: bytes) -> None:
    """Junk on the stream is ignored."""
    assert docker_wire.event_of(line) is None
    assert docker_wire.torn_event_of(line, line) is None


def test_events_of_all_versions_are_read() -> None:
    """Old ones with `id` and `status`, new ones without, and as values instead of bytes."""
    wanted = EngineEvent(container=ONE, action="start", time_nano=7)
    old = {"status": "start", "id": ONE, "Type": "container", "timeNano": 7}
    new = {"Type": "container", "Action": "start", "Actor": {"ID": ONE, "Attributes": {"name": "x"}}, "timeNano": 7}
    for event in (old, new, old | new):
        assert docker_wire.event_of(event) == docker_wire.event_of(json.dumps(event).encode()) == wanted


@pytest.mark.parametrize("action", ["exec_create: sh -c", "exec_die", "health_status: healthy", "top", "attach", ""])
def test_what_changes_no_cpus_is_no_event(action: str) -> None:
    """Even where the engine does not filter."""
    assert docker_wire.event_of({"Type": "container", "Action": action, "Actor": {"ID": ONE}}) is None


def test_other_types_and_strange_ids_are_no_events() -> None:
    """An id goes into the path of a request."""
    assert docker_wire.event_of({"Type": "image", "Action": "create", "Actor": {"ID": ONE}}) is None
    for strange in ("", "x", ONE[:12], ONE.upper(), ONE + "0", "../" * 21 + "a"):
        assert docker_wire.event_of({"Type": "container", "Action": "create", "Actor": {"ID": strange}}) is None


def test_a_torn_event_cannot_be_forged() -> None:
    """A label that looks like an event is escaped in its place."""
    forged = '"Type":"container","Action":"destroy","Actor":{"ID":"' + "f" * 64 + '"'
    event = {"from": forged, "Type": "container", "Action": "start", "Actor": {"ID": ONE, "Attributes": {"a": forged}}}
    head = json.dumps(event, separators=(",", ":")).encode()
    assert docker_wire.torn_event_of(head, b'"timeNano":12}') == EngineEvent(
        container=ONE, action="start", time_nano=12
    )
    assert docker_wire.torn_event_of(head, b"cut") == EngineEvent(container=ONE, action="start", time_nano=0)


def test_an_update_says_only_what_is_given() -> None:
    """An absent field stays unchanged; the engine reads zero as absent."""
    assert json.loads(docker_wire.update_body(Update(cpus=CPUSet.of(0, 1, 2)))) == {"CpusetCpus": "0-2"}
    full = Update(cpus=CPUSet.of(1), mems="0", nano_cpus=2, cpu_quota=-1)
    assert json.loads(docker_wire.update_body(full)) == {
        "CpusetCpus": "1",
        "CpusetMems": "0",
        "NanoCpus": 2,
        "CpuQuota": -1,
    }


def test_a_discarded_cpuset_is_no_success() -> None:
    """200 and a warning: the rootless engine's way to say no."""
    with pytest.raises(EngineLacks, match="Cpuset discarded"):
        docker_wire.check_updated(b'{"Warnings":["Your kernel does not support cpuset. Cpuset discarded."]}')
    docker_wire.check_updated(b'{"Warnings":null}')


def test_only_whole_ids_are_listed() -> None:
    """Rows without one are ignored."""
    body = json.dumps([{"Id": ONE, "Labels": {"a": "b"}}, {"Id": "short"}, {}]).encode()
    assert docker_wire.ids_of(body) == (ONE,)


def test_a_label_that_is_no_text_is_empty() -> None:
    """No engine writes such bytes; a proxy in between may."""
    body = b'{"Id":"%s","Config":{"Labels":{"cpuset.near":"\xff\xfe","cpuset.move":"true"}}}' % (b"a" * 64)
    assert docker_wire.view_of(body).labels == {"cpuset.near": "", "cpuset.move": "true"}


def test_labels_that_the_configuration_speaks_of_are_kept_too() -> None:
    """And no others: a label of `unmanaged` may belong to any program."""
    body = json.dumps(
        {"Id": ONE, "Config": {"Labels": {"team": "db", "secret": "x", "cpuset.exclusive": "1"}}}
    ).encode()
    assert docker_wire.view_of(body, frozenset({"team"})).labels == {"team": "db", "cpuset.exclusive": "1"}
    assert docker_wire.view_of(body).labels == {"cpuset.exclusive": "1"}


TASK = {"com.docker.swarm.task.id": "z5z4ui7c3t20p5yutsvhuy4x0"}


@pytest.mark.parametrize(
    ("labels", "env", "set_aside"),
    [
        (TASK, ["PATH=/bin", "DOCKER_RESOURCE_EXCLUSIVE-CPU=2"], 2),
        (TASK, ["PATH=/bin"], 0),
        (TASK, None, 0),
        (TASK, ["DOCKER_RESOURCE_EXCLUSIVE-CPU=c0"], 0),
        (TASK, ["DOCKER_RESOURCE_EXCLUSIVE-CPU=123456"], 0),
        (TASK, [7, None, "DOCKER_RESOURCE_EXCLUSIVE-CPU=1"], 1),
        ({}, ["DOCKER_RESOURCE_EXCLUSIVE-CPU=2"], 0),
    ],
)
def test_what_swarm_set_aside_stands_in_the_environment_of_its_tasks(
    labels: dict[str, str], env: list[object] | None, set_aside: int
) -> None:
    """A count of the generic resource; names of single ones, and the environment of other containers, do not count."""
    view = inspected(Config={"Labels": labels, "Env": env})
    assert (view.set_aside, view.labels) == (set_aside, labels)
