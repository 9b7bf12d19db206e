"""The commands as people type them: their output, their exit codes, and their errors."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.__main__ import DAEMON_PACKAGES, main
from sidecar.cli import cmd_explain
from sidecar.decide.world import World
from sidecar.status.describe import status_of
from sidecar.status.document import Status
from sidecar.status.machine_map import MachineMap
from sidecar.status.status_file import decode_status, write_status
from sidecar.status.status_lease import renew_status_lease
from state import codec
from state.checkpoint import CheckpointFile
from state.cpuset import CPUSet
from state.model import State
from state.topology import uniform
from tests.cli.worlds import container, world

BUSY = world(
    uniform(cores=4),
    container("web", exclusive=2, nano_cpus=2_000_000_000),
    container("log"),
    container("big", exclusive=5, labels={"cpuset.on-shortage": "wait"}),
)


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a state directory with a status, a State, and a lock that is held, as with a running daemon."""
    monkeypatch.setenv("CPUSET_SIDECAR_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(cmd_explain, "read_topology", lambda: BUSY.topology)
    leave(tmp_path, BUSY)
    held = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    renew_status_lease(tmp_path, time.time())
    yield tmp_path
    os.close(held)


def leave(directory: Path, made: World) -> None:
    """Write the status and the checkpoint of a daemon in this world."""
    write_status(directory, status_of(made, updated_at="2026-03-04T05:06:02Z"))
    with CheckpointFile(directory) as checkpoint:
        checkpoint.save(made.state)


def test_the_status_command(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It reads the daemon's files, and is plain without a terminal."""
    assert main(["status"]) == 0
    out = capsys.readouterr().out
    assert "A  web" in out
    assert "\x1b" not in out
    assert main(["status", "--json"]) == 0
    assert decode_status(capsys.readouterr().out.encode()) == decode_status((state_dir / "status.json").read_bytes())


def test_without_a_daemon_status_fails_but_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1, with the reason on stderr."""
    monkeypatch.setenv("CPUSET_SIDECAR_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(cmd_explain, "read_topology", lambda: BUSY.topology)
    leave(tmp_path, BUSY)
    assert main(["status"]) == 1
    shown = capsys.readouterr()
    assert "THE DAEMON IS NOT RUNNING" in shown.out
    assert shown.err == f"cpuset-sidecar: no daemon is running on {tmp_path}\n"
    assert "was settled, alone" in shown.out
    assert main(["explain", "web"]) == 1
    assert capsys.readouterr().out.splitlines()[1].startswith("  No daemon is running. This is what the last one said")
    assert main(["explain", "9"]) == 1
    assert "there is no container '9', and this machine has no CPU 9: it has 0-" in capsys.readouterr().err
    assert main(["explain", "2"]) == 1
    head, first, second, *others = capsys.readouterr().out.splitlines()
    assert head == "CPU 2: was exclusive, of web"
    assert first.startswith("  No daemon is running. This is what the last one said")
    assert second == "  It was granted to web."
    assert "  Containers that could run there: web." in others
    assert main(["status", "--json"]) == 1
    last = decode_status(capsys.readouterr().out.encode())
    assert not any(each.is_settled or each.is_alone for each in last.containers)
    assert main(["status", "--state-dir", str(tmp_path / "nowhere")]) == 1
    assert capsys.readouterr().err == (
        f"cpuset-sidecar: there is no {tmp_path}/nowhere: no daemon has run with this state_dir, or it was deleted "
        "since (set another with --state-dir, or start the daemon)\n"
    )


@pytest.mark.usefixtures("state_dir")
def test_watching_wants_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe cannot be redrawn."""
    assert main(["status", "--watch"]) == 2
    assert "--watch needs a terminal" in capsys.readouterr().err


@pytest.mark.usefixtures("state_dir")
def test_explain_tells_by_name_and_by_id(capsys: pytest.CaptureFixture[str]) -> None:
    """The sentences of the status document."""
    for wanted in ("web", "/web", "776562"):
        assert main(["explain", wanted]) == 0
        assert capsys.readouterr().out == (
            "web (776562000000): exclusive, running, on 1-2\n"
            "  It asked for 2 exclusive CPUs and was granted 1-2.\n"
            "  It runs on exactly these, and no other container of the engine does.\n"
            "  Its limit of 2 CPUs is lifted while it has exclusive CPUs, and restored when it gives them up.\n"
            "  They are 2 cores.\n"
        )
    assert main(["explain", "--json", "big"]) == 0
    assert json.loads(capsys.readouterr().out)["asked"] == 5


@pytest.mark.usefixtures("state_dir")
def test_explain_of_a_number_tells_which_container_has_that_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    """The purpose, the owner, and those that may run there; as a document for programs."""
    assert main(["explain", "2"]) == 0
    assert capsys.readouterr().out == (
        "CPU 2: exclusive, of web\n"
        "  It is granted to web.\n"
        "  Containers that may run there: web.\n"
        "  Processes outside containers may run there too: the sidecar does not see them.\n"
    )
    assert main(["explain", "0", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], [each["name"] for each in told["residents"]]) == ("reserved", ["big", "log"])


def test_no_name_hides_a_cpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a container that is named by its number, and another one whose id begins with it; `/` tells a name."""
    monkeypatch.setenv("CPUSET_SIDECAR_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(cmd_explain, "read_topology", lambda: BUSY.topology)
    leave(tmp_path, world(uniform(cores=4), container("web", exclusive=2), container("2"), container("-x")))
    assert container("-x").id.startswith("2")
    assert main(["explain", "2"]) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "CPU 2: was exclusive, of web"
    assert last == "  A container has this name: `cpuset-sidecar explain /2` is about it."
    assert main(["explain", "/2"]) == 1
    assert capsys.readouterr().out.startswith("2 (3200")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("wep", "there is no container 'wep'; did you mean 'web'?"),
        ("zzz", "there is no container 'zzz'; `cpuset-sidecar status` lists them"),
        ("6", "'6' is the beginning of 2 ids (big, log): give more characters"),
        ("\x1b[2J", "there is no container '\\x1b[2J'; `cpuset-sidecar status` lists them"),
        ("", "there is no container ''; `cpuset-sidecar status` lists them"),
    ],
)
@pytest.mark.usefixtures("state_dir")
def test_explain_of_an_unknown_name_names_the_nearest(
    wanted: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, and a hint."""
    assert main(["explain", wanted]) == 1
    assert capsys.readouterr().err.replace("\\\\", "\\") == f"cpuset-sidecar: {message}\n"


def test_state_prints_the_books(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Grants, refusals, and original settings; the file is left unchanged."""
    before = (state_dir / "checkpoint.json").read_bytes()
    assert main(["state"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == [
        "policy static, 1 grant so far",
        "online     0-3",
        "reserved   0",
        "exclusive  1-2",
        "shared     0,3",
    ]
    assert "web      776562000000  2     1-2  1-2" in lines
    assert "776562000000  nano_cpus 2000000000" in lines
    assert any(line.startswith("big      626967000000  not-enough  asked for 5 exclusive CPUs") for line in lines)
    assert main(["state", "--json"]) == 0
    assert codec.decode(capsys.readouterr().out.encode(), State) == BUSY.state
    (state_dir / "checkpoint.json").write_bytes(before[:-5])
    assert main(["state"]) == 1
    assert f"checkpoint.json in {state_dir} cannot be used: it is not a checkpoint" in capsys.readouterr().err
    (state_dir / "checkpoint.json").unlink()
    assert main(["state"]) == 1
    assert "there is no recorded state in" in capsys.readouterr().err


def test_topology_shows_records_and_reads_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """This machine on paper is this machine."""
    assert main(["topology"]) == 0
    shown = capsys.readouterr().out
    assert "CPUs online:" in shown or "CPU online:" in shown
    assert main(["topology", "--record", str(tmp_path / "machine.txt")]) == 0
    assert main(["topology", "--machine", str(tmp_path / "machine.txt")]) == 0
    assert capsys.readouterr().out == shown
    assert main(["topology", "--record"]) == 0
    assert capsys.readouterr().out == (tmp_path / "machine.txt").read_text()
    assert main(["topology", "--json"]) == 0
    machine = codec.decode(capsys.readouterr().out.encode(), MachineMap)
    assert CPUSet(os.sched_getaffinity(0)) <= machine.online


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--machine", "/nowhere"], "the record /nowhere cannot be read: there is no such file or directory"),
        (["--machine", "/proc/self/exe"], "/proc/self/exe is not a recorded machine: it is not text"),
        (["--machine", "/etc/passwd"], "/etc/passwd cannot be used: line 1 of the record is"),
        (["--record", "/proc/nowhere/x"], "the record cannot be written to /proc/nowhere/x: there is no such file"),
        (["--sys", "/proc"], "no online CPU is named below devices/system/cpu"),
    ],
)
def test_topology_of_no_machine(args: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and the reason."""
    assert main(["topology", *args]) == 1
    assert message in capsys.readouterr().err


def test_a_machine_in_a_file_is_not_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A record is of this machine: the file would be replaced by it, or passed over without a word."""
    with pytest.raises(SystemExit) as caught:
        main(["topology", "--machine", "m.txt", "--record", "m.txt"])
    assert caught.value.code == 2
    assert "--machine and --record cannot be used together: choose one" in capsys.readouterr().err


def test_hostile_names_are_not_printed_raw(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A name is foreign text: it cannot control the terminal."""
    evil = "\x1b[2Jevil\x1b]0;title\x07\n\u202e"
    made = world(uniform(cores=2), container(evil, exclusive=1), container("odd", labels={"cpuset.\x1b[31m": "x"}))
    leave(tmp_path, made)
    for command in (["status"], ["explain", evil], ["explain", "odd"], ["state"]):
        main([*command, "--state-dir", str(tmp_path)])
        shown = capsys.readouterr()
        assert all(line.isprintable() for line in (shown.out + shown.err).split("\n"))
        assert "\\x1b" in shown.out


def test_a_wrong_configuration_ends_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything of the daemon is loaded."""
    assert main(["run", "--policy", "stattic"]) == 1
    assert capsys.readouterr().err == "cpuset-sidecar: the flag --policy: policy is 'stattic'; did you mean 'static'?\n"


def test_all_mistakes_of_the_configuration_are_told_a_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c.toml").write_text('polcy = "static"\nnuma = "singlee"\n')
    monkeypatch.setenv("CPUSET_SIDECAR_GRACE", "2h")
    assert main(["run", "--config", str(tmp_path / "c.toml")]) == 1
    assert [line.partition("c.toml, ")[2] or line for line in capsys.readouterr().err.splitlines()] == [
        "line 1: unknown key 'polcy'; did you mean 'policy'?",
        "line 2: numa is 'singlee'; did you mean 'single'?",
        (
            "cpuset-sidecar: the variable CPUSET_SIDECAR_GRACE: grace is '2h': write a duration from 0s to 1m, in ms, "
            "s, m or h, like 10s"
        ),
    ]


def test_without_a_command_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
    assert re.search(r"^    resize\s", capsys.readouterr().err, re.MULTILINE)


def test_a_directory_in_a_flag_may_be_relative_to_where_it_is_typed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path in a variable or the file has no such directory."""
    monkeypatch.chdir(tmp_path)
    assert main(["status", "--state-dir", "lib/x"]) == 1
    assert f"there is no {tmp_path}/lib/x" in capsys.readouterr().err
    monkeypatch.setenv("CPUSET_SIDECAR_STATE_DIR", "lib/x")
    assert main(["status"]) == 1
    assert "write the absolute path of a directory" in capsys.readouterr().err


def test_the_help_of_a_key_says_its_default_or_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    out = " ".join(capsys.readouterr().out.split())
    assert "keeps its CPUs (default: 10s)" in out
    assert "a list, or count:N (default: none; like 0)" in out


@pytest.mark.parametrize("args", [[], [""], ["--"], ["nonsense"], ["explain"], ["status", "--wach"]])
def test_wrong_usage_is_2(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """With the usage, of the command if it is known."""
    with pytest.raises(SystemExit) as caught:
        main(args)
    assert caught.value.code == 2
    assert "usage: cpuset-sidecar" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        *("run", "status", "top", "topology", "plan", "explain", "resize", "defragment"),
        *("watch", "exec", "ack", "state", "doctor", "release"),
    ],
)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With its purpose; and the list of commands names it."""
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"usage: cpuset-sidecar {command}" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--help"])
    assert re.search(rf"^    {command}\s", capsys.readouterr().out, re.MULTILINE)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """The distribution's name and version, or that it is not installed."""
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("cpuset-sidecar ")


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    """`cpuset-sidecar topology | head -1` says nothing on stderr."""
    command = [sys.executable, "-m", "sidecar", "topology", "--record"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        complaint = process.stderr.read()
    assert (process.returncode, complaint) == (0, b"")


def test_commands_do_not_load_the_daemon() -> None:
    """trio, aiodocker, rich, the web server and a client of it are imported only by commands that need them."""
    large = (*DAEMON_PACKAGES, "http.client")
    code = f"import sys, sidecar.__main__; print([m for m in {large} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"


def test_a_status_can_be_decoded_by_its_type() -> None:
    """What `--json` prints is the document itself."""
    status = status_of(BUSY)
    assert codec.decode(codec.encode(status), Status) == status


def test_an_unknown_name_is_cut_in_the_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever was pasted; 64 characters are enough to recognise it."""
    leave(tmp_path, world(uniform(cores=2), container("web", exclusive=1)))
    assert main(["explain", "x" * 5000, "--state-dir", str(tmp_path)]) == 1
    assert f"there is no container '{'x' * 63}…';" in capsys.readouterr().err
    assert main(["resize", f"{'x' * 5000}/y", "2"]) == 1
    assert f"there is no container '{'x' * 63}…':" in capsys.readouterr().err


def test_ctrl_c_while_a_command_is_loaded_ends_it_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Loading one takes longer than carrying out many."""

    def interrupted(*_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sidecar.__main__.parser", interrupted)
    assert main(["status"]) == 1
    assert capsys.readouterr().err == "\n"
