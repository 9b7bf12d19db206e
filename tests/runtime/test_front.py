"""cpuset-runc as engines call it: what it passes on, asks and writes, and what people read."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from sidecar.runtime import bundle
from tests.runtime.bench import ID, Workbench, granted, until

SPEC: dict[str, Any] = {
    "ociVersion": "1.0.2",
    "hostname": "café",
    "process": {"args": ["sh"], "a-later-field": [1, {"x": None}]},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
    "linux": {
        "cgroupsPath": f"/docker/{ID}",
        "resources": {"cpu": {"shares": 512, "quota": 200000, "period": 100000, "cpus": "0-3"}, "memory": {"limit": 5}},
    },
    "annotations": {"cpuset.exclusive": "2", "other": "x"},
}


@pytest.mark.parametrize(
    "words",
    [
        ["--root", "/run/x", "--log", "create", "start", ID],
        ["--log-format", "json", "--root=create", "kill", ID, "9"],
        ["delete", "--force", "create"],
        ["-root", "create", "state", "create"],
        ["--version"],
        ["--cgroup-manager", "create", "exec", "--process", "create", ID],
        ["features"],
        ["--log-level", "create", "state", ID],
        ["a-later-command", "--of", "runc"],
        ["checkpoint", "--image-path", "/x", "create"],
        [],
        ["--root", "a folder", "start", 'it\'s $(here) "x"\n'],
    ],
)
def test_what_begins_no_container_becomes_the_real_runtime_with_the_same_words(
    bench: Workbench, words: list[str]
) -> None:
    """It does not ask: no sidecar runs here, and a container may be stopped and removed all the same."""
    done = bench.call(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert bench.became() == words


def test_create_is_asked_for_with_what_the_bundle_says(bench: Workbench) -> None:
    """The id, its cgroup, the limits, our annotations and no others."""
    bench.put(SPEC)
    bench.answer((200, {"update": None}))
    assert bench.create().returncode == 0
    assert bench.sidecar.asked == [
        {
            "id": ID,
            "cgroup": f"/docker/{ID}",
            "cpus": "0-3",
            "mems": "",
            "quota": 200000,
            "period": 100000,
            "memory": 5,
            "annotations": {"cpuset.exclusive": "2"},
        }
    ]
    assert bench.sidecar.heads[0].startswith("POST /v1/starts HTTP/1.1\r\n")


def test_an_answer_without_cpus_leaves_the_bundle_byte_for_byte(bench: Workbench) -> None:
    """An unmanaged container starts as without a sidecar."""
    bench.put(None, raw=b'{ "linux":null,\n "x" : 1e2 }')
    bench.answer((200, {"update": None}))
    assert bench.create().returncode == 0
    assert (bench.bundle / "config.json").read_bytes() == b'{ "linux":null,\n "x" : 1e2 }'
    assert bench.became() is not None


def test_cpus_quota_and_memory_nodes_are_written_and_all_else_stays(bench: Workbench) -> None:
    """Unknown fields are kept, and so are mode and owner; the arguments of the call are passed on unchanged."""
    (bench.projections / "by-id" / ID[:12]).mkdir(parents=True)
    bench.put(SPEC)
    (bench.bundle / "config.json").chmod(0o604)
    before = os.stat(bench.bundle / "config.json")
    bench.answer(granted("2-3", quota=-1, mems="1"))
    assert bench.create().returncode == 0
    spec = bench.spec()
    assert spec["linux"]["resources"]["cpu"] == {
        "shares": 512,
        "quota": -1,
        "period": 100000,
        "cpus": "2-3",
        "mems": "1",
    }
    assert spec["mounts"].pop() == {
        "destination": "/run/cpuset-sidecar",
        "type": "bind",
        "source": f"{bench.projections}/by-id/{ID[:12]}",
        "options": ["bind", "ro", "nosuid", "nodev", "noexec"],
    }
    spec["linux"]["resources"]["cpu"] = SPEC["linux"]["resources"]["cpu"]
    assert spec == SPEC
    after = os.stat(bench.bundle / "config.json")
    assert (stat.S_IMODE(after.st_mode), after.st_uid, after.st_gid) == (0o604, before.st_uid, before.st_gid)
    assert os.listdir(bench.bundle) == ["config.json"]
    assert bench.became() == [
        *("--root", "/run/x", "--log", str(bench.log), "--log-format", "json", "--systemd-cgroup", "create"),
        *("--bundle", str(bench.bundle), "--pid-file", "/run/x/pid", ID),
    ]
    assert not bench.log.exists()


@pytest.mark.parametrize("linux", [None, {}, {"resources": None}, {"resources": {"cpu": "nonsense"}}, "nonsense"])
def test_a_bundle_without_limits_gets_them(bench: Workbench, linux: object) -> None:
    """Whatever is in their place."""
    bench.put({"linux": linux})
    bench.answer((200, {"update": {"cpus": "1", "quota": None, "mems": None}}))
    assert bench.create().returncode == 0
    assert bench.spec() == {"linux": {"resources": {"cpu": {"cpus": "1"}}}}


def words_for(bench: Workbench, way: str) -> list[str]:
    bundle, log = str(bench.bundle), str(bench.log)
    link = bench.folder / "link"
    link.symlink_to(bundle)
    return {
        "containerd": ["--root", "/r", "--log", log, "--log-format", "json", "create", "--bundle", bundle, ID],
        "with equals signs": [f"--log={log}", "--log-format=json", "create", f"--bundle={bundle}", ID],
        "one dash": ["-log", log, "-log-format", "json", "create", "-b", bundle, ID],
        "conmon": [
            *("--systemd-cgroup", "--log-format=json", "--log", log, "--root=/run/crun", "create", "--bundle", bundle),
            *("--no-pivot", "--pid-file", "/run/pid", "--console-socket", "/run/s", "--preserve-fds", "2", ID),
        ],
        "a link": ["--log", log, "--log-format", "json", "create", "--bundle", str(link), ID],
        "crun": [
            *("--cgroup-manager", "systemd", f"--log=file:{log}", "--log-format=json", "create"),
            *("--config", "config.json", "-b", bundle, "--", ID),
        ],
    }[way]


@pytest.mark.parametrize("way", ["containerd", "with equals signs", "one dash", "conmon", "a link", "crun"])
def test_every_way_of_calling_is_understood(bench: Workbench, way: str) -> None:
    """Global options in any order and spelling, bundles behind links; a refusal is written where the engine looks for
    it.
    """
    bench.put(SPEC)
    bench.answer((200, {"update": {"cpus": "7", "quota": None, "mems": None}}), (409, {"error": "no, not now"}))
    words = words_for(bench, way)
    assert bench.call(*words).returncode == 0
    assert bench.spec()["linux"]["resources"]["cpu"]["cpus"] == "7"
    assert bench.sidecar.asked[0]["id"] == ID
    assert bench.became() == words
    bench.called.unlink()
    refused = bench.call(*words)
    assert (refused.returncode, refused.stderr) == (1, "cpuset-sidecar: no, not now\n")
    assert bench.became() is None
    assert [(line["level"], line["msg"]) for line in bench.logged()] == [("error", "cpuset-sidecar: no, not now")]


@pytest.mark.parametrize(
    "words",
    [
        ["--log-level", "debug", "create", "--bundle", "BUNDLE", ID],
        ["restore", "--image-path", "/checkpoint", "--work-path", "/work", "--bundle", "BUNDLE", "--detach", ID],
        ["restore", "--image-path=/checkpoint", "--manage-cgroups-mode", "soft", "-b", "BUNDLE", ID],
        ["run", "--bundle", "BUNDLE", ID],
    ],
)
def test_whatever_begins_a_container_is_asked_for(bench: Workbench, words: list[str]) -> None:
    """A checkpoint is restored on the granted CPUs, or not at all."""
    words = [str(bench.bundle) if word == "BUNDLE" else word for word in words]
    bench.put(SPEC)
    bench.answer((200, {"update": {"cpus": "7", "quota": None, "mems": None}}), (409, {"error": "no, not now"}))
    assert bench.call(*words).returncode == 0
    assert bench.sidecar.asked[0]["id"] == ID
    assert bench.spec()["linux"]["resources"]["cpu"]["cpus"] == "7"
    assert bench.became() == words
    bench.called.unlink()
    assert bench.call(*words).returncode == 1
    assert bench.became() is None


@pytest.mark.parametrize("before", [["--a-later-option", "value"], ["--a-later-option", "value", "--log", "LOG"]])
def test_a_call_that_may_begin_a_container_or_not_is_refused(bench: Workbench, before: list[str]) -> None:
    """An option that is not known may have a value or none: nothing starts unasked."""
    bench.put(SPEC)
    done = bench.create(*(str(bench.log) if word == "LOG" else word for word in before))
    assert done.returncode == 1
    assert '"value" stands where a command is expected' in done.stderr
    assert bench.became() is None


def test_the_bundle_is_where_it_was_called_if_nothing_else_is_said(bench: Workbench) -> None:
    """As with runc."""
    bench.put(SPEC)
    bench.answer((200, {"update": {"cpus": "7", "quota": None, "mems": None}}))
    assert bench.call("create", ID, cwd=bench.bundle).returncode == 0
    assert bench.spec()["linux"]["resources"]["cpu"]["cpus"] == "7"


def test_a_log_of_text_is_written_as_text(bench: Workbench) -> None:
    """In the requested format; the log is appended to."""
    bench.put(SPEC)
    bench.log.write_text("before\n")
    bench.answer((409, {"error": 'say "please"'}))
    assert bench.create("--log", str(bench.log), "--log-format", "text").returncode == 1
    first, second = bench.log.read_text().splitlines()
    assert first == "before"
    assert second.endswith(r'level=error msg="cpuset-sidecar: say \"please\""')


def test_without_a_sidecar_the_container_does_not_start_and_the_reader_learns_the_cure(bench: Workbench) -> None:
    """Fail-closed, after the configured timeout."""
    bench.put(SPEC)
    done = bench.create()
    assert done.returncode == 1
    assert bench.became() is None
    assert bench.spec() == SPEC
    reason = bench.logged()[0]["msg"]
    assert f"nothing answers on {bench.sidecar.path}" in reason
    assert reason.endswith(
        "(`cpuset-sidecar doctor` says what prevents it), or choose another runtime for this container"
    )
    assert done.stderr == reason + "\n"


def test_a_sidecar_that_comes_in_time_is_asked(bench: Workbench) -> None:
    """At boot, or while it is restarted, the start waits."""
    bench.install(patience=30.0)
    bench.put(SPEC)
    results: list[subprocess.CompletedProcess[str]] = []
    caller = threading.Thread(target=lambda: results.append(bench.create()))
    caller.start()
    bench.answer((200, {"update": {"cpus": "5", "quota": None, "mems": None}}))
    caller.join(40)
    assert [done.returncode for done in results] == [0]
    assert bench.spec()["linux"]["resources"]["cpu"]["cpus"] == "5"


def test_a_sidecar_that_dies_over_the_answer_is_asked_again(bench: Workbench) -> None:
    """Half an answer does not count."""
    bench.put(SPEC)
    half = b"HTTP/1.1 200 \r\nContent-Length: 70\r\n\r\n{"
    bench.answer(None, half, (200, {"update": {"cpus": "5", "quota": None, "mems": None}}))
    assert bench.create().returncode == 0
    assert len(bench.sidecar.asked) == 3


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ((409, {"error": "4 exclusive CPUs wanted, 1 free"}), "4 exclusive CPUs wanted, 1 free"),
        ((503, {"error": "not now"}), "not now"),
        ((500, {}), "the sidecar answered 500"),
        ((404, {"error": "no such route"}), "upgrade it"),
        ((200, {"update": {"cpus": ""}}), "names no CPUs"),
        ((200, {"update": {"cpus": "0; rm"}}), "names no CPUs"),
        ((200, {"update": "0"}), "cannot be understood"),
        ((200, ["x"]), "is not a JSON object"),
        (b"HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\n{{{{{", "JSON"),
        (b"nonsense\r\nContent-Length: 0\r\n\r\n", "cannot be understood"),
        (b"HTTP/1.1 200 \r\nContent-Length: +2\r\n\r\n{}", "cannot be understood"),
    ],
)
def test_whatever_is_not_a_clear_answer_is_a_refusal(bench: Workbench, answer: Any, word: str) -> None:
    """The reason is on stderr and in the log, and the real runtime is not called."""
    bench.put(SPEC)
    bench.answer(answer)
    done = bench.create()
    assert done.returncode == 1
    assert word in done.stderr
    assert word in bench.logged()[0]["msg"]
    assert bench.became() is None
    assert bench.spec() == SPEC


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"a": NaN}', b'{"a": 1} x', b'{"a": 1} "x']
)
def test_a_bundle_that_is_not_understood_is_a_refusal(bench: Workbench, raw: bytes) -> None:
    """No container starts without an answer."""
    bench.put(None, raw=raw)
    bench.answer((200, {"update": None}))
    done = bench.create()
    assert (done.returncode, bench.became()) == (1, None)
    assert "cpuset-sidecar: " in bench.logged()[0]["msg"]


@pytest.mark.parametrize("head", [b" ", b'{"a": "'])
def test_a_bundle_beyond_the_bound_is_a_refusal_that_names_it(bench: Workbench, head: bytes) -> None:
    """Whatever it is."""
    bench.put(None, raw=head + b"x" * bundle.MOST_BYTES)
    done = bench.create()
    assert done.returncode == 1
    assert f"there are more than {bundle.MOST_BYTES} bytes of JSON" in done.stderr


def test_annotations_of_ours_beyond_the_bound_are_a_refusal_that_names_it(bench: Workbench) -> None:
    """The question would be as large as the bundle."""
    bench.put({"annotations": {f"cpuset.{number}": "" for number in range(bundle.MOST_PAIRS + 1)}})
    bench.answer((200, {"update": None}))
    assert bench.create().returncode == 1
    assert f"more than {bundle.MOST_PAIRS} annotations" in bench.logged()[0]["msg"]
    bench.put({"annotations": {f"cpuset{number}": "" for number in range(bundle.MOST_PAIRS + 1)}})
    assert bench.create().returncode == 0


def test_a_bundle_that_is_not_there_is_a_refusal(bench: Workbench) -> None:
    """With its path in the message."""
    bench.answer((200, {"update": None}))
    done = bench.create()
    assert done.returncode == 1
    assert str(bench.bundle) in done.stderr


def test_without_its_python_the_script_refuses_in_words(scripted: Workbench) -> None:
    """As it does without the program that asks."""
    scripted.install(python="/nonexistent/program")
    scripted.put(SPEC)
    done = scripted.create()
    assert done.returncode == 1
    assert "install-runtime` again" in scripted.logged()[0]["msg"]
    assert scripted.became() is None


def test_a_real_runtime_that_went_is_a_refusal_in_words(bench: Workbench) -> None:
    """Not a stack trace, and not a start on CPUs of others."""
    bench.install(real="/nonexistent/program")
    bench.put(SPEC)
    bench.answer((200, {"update": None}))
    done = bench.create()
    assert done.returncode == 1
    assert "cpuset-sidecar: " in bench.logged()[0]["msg"]
    assert bench.became() is None


def test_lost_settings_keep_no_container_from_being_removed(bench: Workbench) -> None:
    """All calls but `create` then go to the host's runc; `create` is refused."""
    Path(bench.places.settings).unlink()
    bench.put(SPEC)
    environment = {**os.environ, "PATH": f"{bench.folder}:{os.environ['PATH']}"}
    (bench.folder / "runc").symlink_to(bench.real)
    assert bench.call("delete", ID, env=environment).returncode == 0
    assert bench.became() == ["delete", ID]
    refused = bench.create()
    assert refused.returncode == 1
    assert "install-runtime` again" in bench.logged()[0]["msg"]


def test_what_is_left_of_an_earlier_attempt_is_no_obstacle(bench: Workbench) -> None:
    """Nor a planted link."""
    target = bench.folder / "target"
    target.write_text("kept")
    (bench.bundle / "config.json.cpuset-sidecar").symlink_to(target)
    bench.put(SPEC)
    bench.answer((200, {"update": {"cpus": "7", "quota": None, "mems": None}}))
    assert bench.create().returncode == 0
    assert target.read_text() == "kept"
    assert bench.spec()["linux"]["resources"]["cpu"]["cpus"] == "7"


def test_it_costs_no_import_that_it_can_do_without() -> None:
    """Every start waits for these: typing, enum and the like stay out, and so does json."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import front_package.front; "
        "print(*sorted(set(sys.modules) & {'json', 're', 'enum', 'typing', 'socket', 'argparse', 'subprocess'}))"
    )
    source = Path(__file__).parents[2] / "sidecar" / "runtime"
    link = source.parent
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program.replace("front_package", "runtime"), str(link)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == ""


def test_two_at_once_do_not_hinder_each_other(bench: Workbench) -> None:
    """Each has a bundle of its own."""
    bench.put(SPEC)
    bench.answer((200, {"update": {"cpus": "5", "quota": None, "mems": None}}))
    callers = [threading.Thread(target=bench.create) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(40)
    until(lambda: bench.became() is not None)
    assert len(bench.sidecar.asked) == 4
    assert bench.spec()["linux"]["resources"]["cpu"]["cpus"] == "5"
