"""A front before an engine's own runtime: containers did not choose it, so only a decision refuses them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sidecar.host.install.fronts import Front, front_files, passing_files
from sidecar.host.install.runtime_files import Installation, carry_out
from tests.runtime.bench import ID, Workbench, granted
from tests.support.own_mounts import with_own_mounts

PLAIN: dict[str, Any] = {"ociVersion": "1.0.2", "mounts": [], "linux": {"resources": {"cpu": {"shares": 2}}}}
ASKING: dict[str, Any] = {**PLAIN, "annotations": {"cpuset.exclusive": "1"}}


def put_before(bench: Workbench, *args: str, **changed: Any) -> str:
    """Install a front before the bench's real runtime; return its path."""
    front = Front(engine="docker", name="logged", real=str(bench.real), args=args)
    made = Installation(
        real="/nonexistent",
        python=changed.get("python", "/usr/bin/python3"),
        socket=str(bench.sidecar.path),
        projections=str(bench.projections),
        patience=changed.get("patience", 0.3),
        program=bench.program,
    )
    carry_out("/", list(front_files(bench.places, made, front)))
    return bench.places.front("docker", "logged")


def create(bench: Workbench, front: str) -> tuple[int, str]:
    """Call `create` as containerd does; return the exit code, and what was said."""
    options = ("--root", "/run/x", "--log", str(bench.log), "--log-format", "json")
    done = bench.call(*options, "create", "--bundle", str(bench.bundle), ID, program=front)
    return done.returncode, done.stderr


def test_a_plain_container_gets_the_answer_and_no_mount(bench: Workbench) -> None:
    """It says that its container did not choose it."""
    front = put_before(bench)
    bench.put(PLAIN)
    (bench.projections / "by-id" / ID[:12]).mkdir(parents=True)
    bench.answer(granted("3"))
    assert create(bench, front) == (0, "")
    assert bench.sidecar.asked[0]["strict"] is False
    assert bench.spec() == {**PLAIN, "linux": {"resources": {"cpu": {"shares": 2, "cpus": "3"}}}}


def test_one_that_asks_for_cpus_has_its_projection(bench: Workbench) -> None:
    """As with the runtime that it could have chosen."""
    front = put_before(bench)
    bench.put(ASKING)
    (bench.projections / "by-id" / ID[:12]).mkdir(parents=True)
    bench.answer(granted("3"))
    assert create(bench, front) == (0, "")
    assert [each["destination"] for each in bench.spec()["mounts"]] == ["/run/cpuset-sidecar"]


def test_without_a_sidecar_a_plain_container_starts_at_once_byte_for_byte(bench: Workbench) -> None:
    """Whatever the patience is; the engine's log says why it is not confined."""
    front = put_before(bench, patience=30)
    raw = json.dumps(PLAIN, indent=7).encode()
    bench.put(None, raw=raw)
    assert create(bench, front) == (0, "")
    assert (bench.bundle / "config.json").read_bytes() == raw
    assert bench.became() is not None
    assert [line["level"] for line in bench.logged()] == ["warning"]
    said = bench.logged()[0]["msg"]
    assert said.startswith("cpuset-sidecar: it starts as the engine has it: nothing answers on ")
    assert said.endswith("so the sidecar is not running; start it (`cpuset-sidecar doctor` says what prevents it)")


_LISTENING = """
import os, socket, subprocess, sys
at = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
at.bind("/dev/log")
at.settimeout(5)
subprocess.run(sys.argv[1:], check=True)
print(at.recv(1000).decode())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")
def test_that_it_is_not_confined_is_in_the_hosts_log(bench: Workbench) -> None:
    """Docker throws its runtime's own log away. In a mount namespace with a log of its own."""
    front = put_before(bench)
    bench.put(PLAIN)
    mount = "mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3"
    done = with_own_mounts(mount, "-c", _LISTENING, front, "create", "--bundle", str(bench.bundle), ID)
    said = f"<28>cpuset-runc: {ID[:12]}: it starts as the engine has it: nothing answers on "
    assert said in done.stdout, done.stderr
    assert "not started" not in done.stdout


@pytest.mark.parametrize("patience", [0, 0.3])
@pytest.mark.parametrize("key", ["cpuset.exclusive", "cpuset.exclusive/voice"])
def test_without_a_sidecar_one_that_asks_for_cpus_does_not_start(bench: Workbench, patience: float, key: str) -> None:
    """After the patience, with the reason; also where nothing is waited for."""
    front = put_before(bench, patience=patience)
    bench.put({**PLAIN, "annotations": {key: "1"}})
    code, said = create(bench, front)
    assert code == 1
    assert said.startswith("cpuset-sidecar: not started: nothing answers on ")
    assert "another runtime" not in said
    assert bench.became() is None


@pytest.mark.parametrize("status", [409, 503])
def test_a_decision_is_a_refusal(bench: Workbench, status: int) -> None:
    """Of any container: the label asked to be stopped, or something else is in the way."""
    front = put_before(bench)
    bench.put(PLAIN)
    bench.answer((status, {"error": "not started: because"}))
    assert create(bench, front) == (1, "cpuset-sidecar: not started: because\n")
    assert bench.became() is None


@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        (b"not JSON", (200, {"update": None})),
        (b"[]", (200, {"update": None})),
        (json.dumps(PLAIN).encode(), (404, {"error": "x"})),
        (json.dumps(PLAIN).encode(), (500, {"error": "x"})),
        (json.dumps(PLAIN).encode(), (200, {"update": 7})),
        (json.dumps(PLAIN).encode(), (200, {"update": {"cpus": "; rm"}})),
        (json.dumps(PLAIN).encode(), b"HTTP/1.1 nonsense\r\n\r\n"),
        (json.dumps(PLAIN).encode(), b"HTTP/1.1 200 \r\nContent-Length: -1\r\n\r\n{}"),
        (json.dumps(PLAIN).encode(), None),
    ],
)
def test_what_is_not_understood_goes_on_byte_for_byte(bench: Workbench, raw: bytes, answer: Any) -> None:
    """A bundle, or an answer: the real runtime has the last word on the one, and the sidecar will see the other."""
    front = put_before(bench)
    bench.put(None, raw=raw)
    bench.answer(answer)
    assert create(bench, front) == (0, "")
    assert (bench.bundle / "config.json").read_bytes() == raw
    assert bench.became() is not None
    assert_it_is_said_to_start(bench)


def assert_it_is_said_to_start(bench: Workbench) -> None:
    """Not that it does not, nor how to have it start around the front."""
    for line in bench.logged():
        assert line["msg"].startswith("cpuset-sidecar: it starts as the engine has it: ")
        assert "not started" not in line["msg"]
        assert "another runtime" not in line["msg"]


def test_a_call_that_is_not_understood_goes_on(bench: Workbench) -> None:
    """The option may be one of a runtime that is not known here."""
    front = put_before(bench)
    log = ["--log", str(bench.log), "--log-format", "json"]
    words = [*log, "--a-later-option", "create", "create", "--bundle", str(bench.bundle), ID]
    assert bench.call(*words, program=front).returncode == 0
    assert bench.became() == words
    words = [*log, "--a-later-option", "value", "create", "--bundle", str(bench.bundle), ID]
    assert bench.call(*words, program=front).returncode == 0
    assert "is not understood" in bench.logged()[-1]["msg"]
    assert_it_is_said_to_start(bench)


def test_the_real_runtime_gets_its_own_arguments_first(bench: Workbench) -> None:
    """As the engine gave them before; also for what begins no container."""
    front = put_before(bench, "--debug", "two words", "it's")
    assert bench.call("state", ID, program=front).returncode == 0
    assert bench.became() == ["--debug", "two words", "it's", "state", ID]
    bench.put(PLAIN)
    bench.answer((200, {"update": None}))
    assert create(bench, front)[0] == 0
    assert (bench.became() or [])[:3] == ["--debug", "two words", "it's"]


def test_without_its_python_containers_start_as_without_the_front(scripted: Workbench) -> None:
    """A host must not stand still for it."""
    front = put_before(scripted, python="/nonexistent/python3")
    scripted.put(PLAIN)
    assert create(scripted, front) == (0, "")
    assert scripted.became() is not None


def test_without_its_settings_it_still_knows_what_stands_behind_it(bench: Workbench) -> None:
    """What lives under it is stopped and removed by it."""
    front = put_before(bench)
    os.unlink(bench.places.front_settings("docker", "logged"))
    assert bench.call("delete", ID, program=front).returncode == 0
    assert bench.became() == ["delete", ID]
    bench.put(PLAIN)
    assert create(bench, front)[0] == 0


@pytest.mark.parametrize("args", [(), ("--debug",)])
def test_one_that_was_taken_away_asks_nobody(bench: Workbench, args: tuple[str, ...]) -> None:
    """Also for containers that ask for CPUs: it is the real runtime until they are gone."""
    front = put_before(bench, *args)
    gone = Front(engine="docker", name="logged", real=str(bench.real), args=args, passing_since="2026-01-01")
    carry_out("/", list(passing_files(bench.places, gone)))
    assert not Path(bench.places.front_settings("docker", "logged")).exists()
    bench.put(ASKING)
    bench.answer((409, {"error": "no"}))
    assert create(bench, front) == (0, "")
    assert bench.sidecar.asked == []
    assert (bench.became() or [])[: len(args)] == list(args)


@pytest.mark.parametrize("labels", [PLAIN, ASKING], ids=["plain", "asks"])
def test_a_real_runtime_that_went_is_said_where_the_engine_looks(bench: Workbench, labels: dict[str, Any]) -> None:
    """Nothing can start then; the words name the program that is missing."""
    front = put_before(bench)
    bench.put(labels)
    bench.answer(granted("0"))
    os.unlink(bench.real)
    code, said = create(bench, front)
    assert code == 1
    assert f"{bench.real} cannot be run" in said
    assert f"{bench.real} cannot be run" in bench.logged()[-1]["msg"]
