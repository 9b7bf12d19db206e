"""Where a process begins that joins a container: off the CPUs that the sidecar keeps clear of it, by either front."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from sidecar.runtime import standing
from sidecar.runtime.exec_place import POSSIBLE
from sidecar.runtime.standing import EXEC, FOLDER
from tests.runtime.bench import ID, Workbench
from tests.runtime.test_usual_front import put_before

OTHER = "f" * 64
PROCESS: dict[str, Any] = {"terminal": False, "args": ["sh", "-c", "true"], "a-later-field": [1, {"x": None}]}
HERE = sorted(os.sched_getaffinity(0))

pytestmark = pytest.mark.skipif(len(HERE) < 2, reason="needs two CPUs: any machine that runs all tests has them")


def runtime_that_tells(bench: Workbench) -> None:
    """Have the real runtime record where it may run as well."""
    bench.real.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        f"json.dump(sys.argv[1:], open({str(bench.called)!r}, 'w'))\n"
        f"json.dump(sorted(os.sched_getaffinity(0)), open({str(bench.folder / 'where')!r}, 'w'))\n"
    )


def where(bench: Workbench) -> list[int]:
    """Return the CPUs on which the real runtime might run."""
    found: list[int] = json.loads((bench.folder / "where").read_text())
    return found


def keep_off(bench: Workbench, cpus: str, container: str = ID) -> Path:
    """Write what the daemon writes."""
    path = bench.sidecar.path.parent / FOLDER / EXEC / container
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(f"{cpus}\n")
    path.chmod(0o600)
    return path


def process_file(bench: Workbench, content: object = PROCESS, *, raw: bytes | None = None) -> Path:
    path = bench.folder / "process.json"
    path.write_bytes(json.dumps(content).encode() if raw is None else raw)
    path.chmod(0o604)
    return path


def allowed_without(off: set[int]) -> str:
    """Return the CPUs of this machine but these, as a list."""
    return standing.listed(standing.cpus_of(Path(POSSIBLE).read_text()) - off)


def words_for(way: str, path: str) -> list[str]:
    return {
        "containerd": ["--root", "/r", "--log", "/l", "exec", "--process", path, "--detach", "--pid-file", "/p", ID],
        "with equals signs": ["--root=/r", "exec", f"--process={path}", "--pid-file=/p", ID],
        "one dash": ["-root", "/r", "exec", "-d", "-p", path, ID],
        "conmon": ["exec", "--pid-file", "/p", "--process", path, "--detach", ID],
    }[way]


@pytest.mark.parametrize("way", ["containerd", "with equals signs", "one dash", "conmon"])
def test_it_keeps_off_by_both_ways_and_all_else_stays(bench: Workbench, way: str) -> None:
    """The runtime inherits it, and the process says it itself: each runtime heeds one of the two."""
    runtime_that_tells(bench)
    keep_off(bench, str(HERE[0]))
    path = process_file(bench)
    words = words_for(way, str(path))
    done = bench.call(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert bench.became() == words
    assert where(bench) == HERE[1:]
    assert json.loads(path.read_bytes()) == {**PROCESS, "execCPUAffinity": {"initial": allowed_without({HERE[0]})}}
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_a_front_that_containers_did_not_choose_does_the_same(bench: Workbench) -> None:
    """Health checks are of containers that choose nothing."""
    runtime_that_tells(bench)
    keep_off(bench, str(HERE[0]))
    words = words_for("containerd", str(process_file(bench)))
    assert bench.call(*words, program=put_before(bench)).returncode == 0
    assert where(bench) == HERE[1:]


def test_a_call_without_a_file_of_the_process_keeps_off_too(bench: Workbench) -> None:
    """As people type it."""
    runtime_that_tells(bench)
    keep_off(bench, str(HERE[-1]))
    assert bench.call("exec", ID, "sh", OTHER).returncode == 0
    assert where(bench) == HERE[:-1]


@pytest.mark.parametrize(
    "words",
    [
        ["exec", "--process", "PROCESS", OTHER],
        ["exec", "--process", "PROCESS", "name"],
        ["exec", "--process", "PROCESS", OTHER, "sh", ID],
        ["exec", "--process", "PROCESS"],
        ["--root", "exec", "kill", ID],
        ["state", ID],
    ],
)
def test_whatever_is_not_about_that_container_goes_on_byte_for_byte(bench: Workbench, words: list[str]) -> None:
    """Other containers, and other commands."""
    runtime_that_tells(bench)
    keep_off(bench, str(HERE[0]))
    path = process_file(bench)
    before = path.read_bytes()
    words = [str(path) if word == "PROCESS" else word for word in words]
    assert bench.call(*words).returncode == 0
    assert (bench.became(), where(bench), path.read_bytes()) == (words, HERE, before)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"execCPUAffinity": {"final": "1"}}',
        b'{"execCPUAffinity": null}',
        b"[]",
        b"",
        b'{"a": 1e999}',
        b"\xff{",
    ],
)
def test_a_process_that_says_where_it_begins_or_is_not_understood_stays_as_it_is(bench: Workbench, raw: bytes) -> None:
    """The engine's own word counts, and what is no process is the runtime's to refuse."""
    runtime_that_tells(bench)
    keep_off(bench, str(HERE[0]))
    path = process_file(bench, raw=raw)
    assert bench.call("exec", "--process", str(path), ID).returncode == 0
    assert (where(bench), path.read_bytes()) == (HERE, raw)


@pytest.mark.parametrize("content", ["", "\n", "x", "0-", "65536", "0 1", "0-65535"])
def test_a_file_that_says_nothing_clear_counts_for_nothing(bench: Workbench, content: str) -> None:
    """A crash tears it; and nothing is left if it names every CPU. No call fails for that."""
    runtime_that_tells(bench)
    keep_off(bench, "0").write_text(content)
    path = process_file(bench)
    before = path.read_bytes()
    assert bench.call("exec", "--process", str(path), ID).returncode == 0
    assert (where(bench), path.read_bytes()) == (HERE, before)


@pytest.mark.parametrize("whose", ["file", "folder", "link"])
def test_a_file_that_others_can_write_counts_for_nothing(bench: Workbench, whose: str) -> None:
    """Only root says where processes begin."""
    runtime_that_tells(bench)
    path = keep_off(bench, str(HERE[0]))
    if whose == "link":
        path.rename(path.with_name("elsewhere"))
        path.symlink_to(path.with_name("elsewhere"))
    else:
        (path if whose == "file" else path.parent).chmod(0o722)
    assert bench.call("exec", ID, "sh").returncode == 0
    assert where(bench) == HERE


def test_a_front_that_was_taken_away_passes_it_on(bench: Workbench) -> None:
    """Of it, nothing is left but the way to the real runtime."""
    runtime_that_tells(bench)
    keep_off(bench, str(HERE[0]))
    settings = Path(bench.places.settings)
    settings.write_text(f"{settings.read_text()}kind=passing\n")
    assert bench.call("exec", ID, "sh").returncode == 0
    assert where(bench) == HERE


def test_without_its_python_the_script_passes_it_on(scripted: Workbench) -> None:
    """A process begins where the engine has it, rather than not."""
    scripted.install(python="/nonexistent/program")
    runtime_that_tells(scripted)
    keep_off(scripted, str(HERE[0]))
    assert scripted.call("exec", ID, "sh").returncode == 0
    assert where(scripted) == HERE


def test_a_real_runtime_that_went_is_told_as_for_any_other_call(bench: Workbench) -> None:
    """With the exit code of a shell."""
    bench.install(real="/nonexistent/program")
    keep_off(bench, str(HERE[0]))
    done = bench.call("exec", ID, "sh")
    assert done.returncode == 127
    assert "/nonexistent/program" in done.stderr
