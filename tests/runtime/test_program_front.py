"""What is promised of the compiled front alone: bytes stay, memory is bounded, and it needs nothing of the host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sidecar.host.install.front_program import INTERFACE, fitting_program, front_program, is_compiled
from sidecar.host.install.runtime_files import Installation, front_content
from state.errors import FileUnreadable
from tests.runtime.bench import ID, Workbench, granted
from tests.runtime.conftest import benches
from tests.runtime.test_usual_front import create, put_before

MEGA = 1024 * 1024


@pytest.fixture
def compiled(program: bytes | None) -> Any:
    """Provide the runtime with the compiled front alone."""
    if program is None:
        pytest.skip("needs a C compiler and yajl: gcc, libc6-dev and libyajl-dev, as .ci/run installs them")
    yield from benches(program)


@pytest.mark.parametrize(
    ("raw", "fresh"),
    [
        (
            b'{"a": 1E2,\t"b":"\\u00e9\xff"}',
            b'{"a": 1E2,\t"b":"\\u00e9\xff", "linux": {"resources": {"cpu": {"cpus": "2-3"}}}}',
        ),
        (b" { } ", b' { "linux": {"resources": {"cpu": {"cpus": "2-3"}}}} '),
        (b'{"linux": {"resources" :null, "x": 1.0}}', b'{"linux": {"resources" :{"cpu": {"cpus": "2-3"}}, "x": 1.0}}'),
        (
            b'{"linux":{"resources":{"cpu":{"cpus": "0" ,"z":0}}}}',
            b'{"linux":{"resources":{"cpu":{"cpus": "2-3" ,"z":0}}}}',
        ),
        (b'{"linux":{"resources":{"cpu":{}}},"linux":{"resources":{"cpu":[1]}}}',) * 2,
    ],
)
def test_all_other_bytes_stay(compiled: Workbench, raw: bytes, fresh: bytes) -> None:
    """Spelling, blank space and unknown fields; of a name that stands twice, the last one counts."""
    if fresh == raw:
        fresh = raw.replace(b"[1]", b'{"cpus": "2-3"}')
    compiled.put(None, raw=raw)
    compiled.answer((200, {"update": {"cpus": "2-3", "quota": None, "mems": None}}))
    assert compiled.create().returncode == 0
    assert (compiled.bundle / "config.json").read_bytes() == fresh


def hostile(kind: str, size: int) -> bytes:
    """Return a bundle of this size that is as bad as can be for a reader that builds something."""
    head, part, tail = {
        "numbers": (b'{"a":[0', b",0", b"]}"),
        "objects": (b'{"a":[0', b",{}", b"]}"),
        "mounts": (b'{"mounts":[{}', b',{"destination":"/a/b"}', b"]}"),
        "names": (b'{"x":0', b',"":0', b"}"),
        "annotations": (b'{"annotations":{"x":"y"', b',"cpuset.":""', b"}}"),
        "escapes": (b'{"linux":{"cgroupsPath":"', b"\\u00e9", b'"}}'),
    }[kind]
    return head + part * ((size - len(head) - len(tail)) // len(part)) + tail


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["numbers", "objects", "mounts", "names", "annotations", "escapes"])
def test_a_bundle_of_thirty_megabytes_costs_a_few_times_its_size(compiled: Workbench, kind: str) -> None:
    """Before an engine's own runtime, with the standing order's kind of change and a mount."""
    front = put_before(compiled)
    compiled.put(None, raw=hostile(kind, 30 * MEGA))
    (compiled.projections / "by-id" / ID[:12]).mkdir(parents=True)
    compiled.answer(granted("3"))
    program = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], check=False)\n"
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    words = [
        sys.executable,
        "-c",
        program,
        front,
        "--log",
        str(compiled.log),
        "create",
        "--bundle",
        str(compiled.bundle),
        ID,
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    code, kibibytes = map(int, done.stdout.split())
    assert code == 0
    assert kibibytes < 8 * 30 * 1024


def test_it_needs_no_shell_no_python_and_no_library(compiled: Workbench) -> None:
    """The file alone, and the real runtime."""
    compiled.install(python="/nonexistent/python3")
    needs = subprocess.run(["ldd", compiled.places.runtime], capture_output=True, text=True, check=False)
    assert "not a dynamic executable" in needs.stderr
    assert is_compiled(compiled.places.runtime)
    compiled.put({})
    compiled.answer(granted("1"))
    assert compiled.create().returncode == 0
    assert compiled.spec()["linux"]["resources"]["cpu"]["cpus"] == "1"


@pytest.mark.parametrize(
    "line", ["real=$(runc)", "export real=x", "patience=soon", "real='/x", "if x; then real=y; fi", "real=a b"]
)
def test_settings_that_only_a_shell_understands_are_named(compiled: Workbench, line: str) -> None:
    """What chose the runtime does not start; what did not, starts; and everything can be stopped."""
    front = put_before(compiled)
    compiled.put({})
    compiled.answer((200, {"update": None}))
    for path in (compiled.places.settings, compiled.places.front_settings("docker", "logged")):
        with open(path, "a") as file:
            file.write(f"# mine\n\n{line}\n")
    where = f"line 10 of {compiled.places.settings} is not understood"
    assert compiled.create().returncode == 1
    assert [(each["level"], where in each["msg"]) for each in compiled.logged()] == [("error", True)]
    compiled.log.unlink()
    assert create(compiled, front) == (0, "")
    assert [(each["level"], "line 10 of" in each["msg"]) for each in compiled.logged()] == [("warning", True)]
    assert compiled.call("delete", ID).returncode == 0


@pytest.mark.parametrize(
    ("line", "gets"), [('patience="0.1"', 0), ("  projections=''  # none", 0), ("later=thing", 0), ("", 0)]
)
def test_settings_that_people_wrote_as_simply_are_understood(compiled: Workbench, line: str, gets: int) -> None:
    """Quotes of both kinds, comments, and keys that are not known."""
    compiled.put({})
    compiled.answer((200, {"update": None}))
    with open(compiled.places.settings, "a") as file:
        file.write(line)
    assert compiled.create().returncode == gets


def test_a_program_of_another_version_or_machine_is_not_installed(program: bytes | None, tmp_path: Path) -> None:
    """Nor one that is not there."""
    other = tmp_path / "other"
    assert fitting_program(str(other)) is None
    other.write_text("#!/bin/sh\necho cpuset-front 0\n")
    other.chmod(0o755)
    assert fitting_program(str(other)) is None
    other.write_bytes(b"\x7fELF of another machine")
    assert fitting_program(str(other)) is None
    if program is not None:
        other.write_bytes(program)
        assert fitting_program(str(other)) == program
    with pytest.raises(FileUnreadable):
        is_compiled(str(tmp_path / "none"))


def test_where_the_settings_do_not_fit_into_it_the_script_stands(compiled: Workbench) -> None:
    """Their path and that of the real runtime have eight kibibytes."""
    program = compiled.program or b""
    assert front_program(program, "/x" * 4096, "/usr/bin/runc", "strict") is None
    assert front_program(b"no program", "/x", "/usr/bin/runc", "strict") is None
    made = Installation(real="/r", python="/p", socket="/s", projections="", patience=1, program=program)
    assert front_content(made, "/x" * 4096, "runc", "strict").startswith(b"#!/bin/sh")
    assert front_content(made, "/x", "runc", "strict").startswith(b"\x7fELF")


def test_it_says_what_it_is_before_it_is_installed(compiled: Workbench) -> None:
    """Called by itself it starts nothing."""
    alone = compiled.folder / "alone"
    alone.write_bytes(compiled.program or b"")
    alone.chmod(0o755)
    assert subprocess.run([alone, "--interface"], capture_output=True, check=False).stdout == INTERFACE
    done = subprocess.run([alone, "create", "--bundle", "/x", ID], capture_output=True, text=True, check=False)
    assert (done.returncode, "cpuset-sidecar install-runtime" in done.stdout) == (2, True)


def test_a_real_runtime_that_is_missing_is_told_also_where_nothing_begins(compiled: Workbench) -> None:
    """With the exit codes of a shell."""
    compiled.install(real="/nonexistent/runc")
    done = compiled.call("delete", ID)
    assert (done.returncode, "/nonexistent/runc cannot be run" in done.stderr) == (127, True)
    compiled.install(real=str(compiled.bundle))
    assert compiled.call("delete", ID).returncode == 126


def test_a_pipe_that_was_closed_kills_the_real_runtime_as_before(compiled: Workbench) -> None:
    """What it does about signals is its own affair."""
    shown = compiled.folder / "shown"
    compiled.real.write_text(f"#!/bin/sh\ngrep SigIgn /proc/self/status >{shown}\n")
    compiled.put({})
    compiled.answer((200, {"update": None}))
    assert compiled.create().returncode == 0
    assert int(shown.read_text().split()[1], 16) & 1 << 12 == 0
