"""install-runtime on a host that is a folder: what it writes, what it leaves alone, and that it undoes exactly that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer
from typing import Any

import pytest

from sidecar.__main__ import main
from sidecar.cli.setup import cmd_install_runtime, dockerd_process
from sidecar.commit.state_lock import hold_lock
from sidecar.config.config import Config
from sidecar.config.running_settings import write_settings
from tests.support.schemas import misfits

PLAIN = ("--engine", "unix:///nonexistent/docker.sock", "--docker-pid", "/nonexistent/pid")


class Host:
    """A host's file system, as a container would see it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.daemon_json = root / "etc/docker/daemon.json"
        for path in ("usr/sbin/runc", "usr/bin/dockerd", "usr/bin/podman", "usr/bin/python3.11"):
            self.program(path)
        (root / "usr/bin/python3").symlink_to("python3.11")
        self.daemon_json.parent.mkdir(parents=True)

    def program(self, path: str) -> None:
        """Create a program."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text("#!/bin/sh\n")
        (self.root / path).chmod(0o755)

    def install(self, *words: str) -> int:
        """Call the command; return its exit code."""
        return main(["install-runtime", "--root", str(self.root), *PLAIN, *words])

    def files(self) -> dict[str, bytes]:
        """Return all files, with their contents."""
        paths = (path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink())
        return {str(path.relative_to(self.root)): path.read_bytes() for path in paths}

    def settings(self) -> Any:
        """Return dockerd's configuration."""
        return json.loads(self.daemon_json.read_bytes())


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """Yield a host with both engines."""
    return_umask = os.umask(0o022)
    yield Host(tmp_path)
    os.umask(return_umask)


def test_both_engines_learn_of_it_and_nothing_else_changes(host: Host) -> None:
    """The runtime, its settings, Docker's table with its other entries, Podman's drop-in."""
    host.daemon_json.write_text('{"debug": true, "runtimes": {"kata": {"path": "/k"}}}')
    before = host.files()
    assert host.install("--state-dir", "/srv/state", "--projections", "/srv/told", "--front", "python") == 0
    after = host.files()
    assert host.settings() == {
        "debug": True,
        "runtimes": {"kata": {"path": "/k"}, "cpuset": {"path": "/usr/local/bin/cpuset-runc"}},
    }
    assert sorted(set(after) - set(before)) == [
        "etc/containers/containers.conf.d/50-cpuset-sidecar.conf",
        "etc/cpuset-sidecar/runtime.conf",
        "etc/docker/daemon.json.before-cpuset-sidecar",
        "usr/local/bin/cpuset-runc",
        "usr/local/lib/cpuset-sidecar/cpuset_runc/__init__.py",
        "usr/local/lib/cpuset-sidecar/cpuset_runc/bundle.py",
        "usr/local/lib/cpuset-sidecar/cpuset_runc/exec_place.py",
        "usr/local/lib/cpuset-sidecar/cpuset_runc/front.py",
        "usr/local/lib/cpuset-sidecar/cpuset_runc/owner_start.py",
        "usr/local/lib/cpuset-sidecar/cpuset_runc/socket_client.py",
        "usr/local/lib/cpuset-sidecar/cpuset_runc/standing.py",
    ]
    settings = after["etc/cpuset-sidecar/runtime.conf"].decode().splitlines()[1:]
    assert dict(line.split("=", 1) for line in settings) == {
        "real": "/usr/sbin/runc",
        "python": "/usr/bin/python3",
        "library": "/usr/local/lib/cpuset-sidecar",
        "socket": "/srv/state/api.sock",
        "projections": "/srv/told",
        "patience": "10",
    }
    podman = tomllib.loads(after["etc/containers/containers.conf.d/50-cpuset-sidecar.conf"].decode())
    assert podman["engine"]["runtimes"] == {"cpuset": ["/usr/local/bin/cpuset-runc"]}
    assert {"runc", "crun", "cpuset"} <= set(podman["engine"]["runtime_supports_json"])
    assert os.access(host.root / "usr/local/bin/cpuset-runc", os.X_OK)
    script = after["usr/local/bin/cpuset-runc"].decode()
    assert "conf=/etc/cpuset-sidecar/runtime.conf" in script
    assert "@CONF@" not in script


def test_what_was_installed_is_removed_without_a_trace(host: Host) -> None:
    """dockerd's configuration is what it was, byte for byte."""
    host.daemon_json.write_text('{"debug":true }')
    before = host.files()
    folders = {path for path in host.root.rglob("*") if path.is_dir()}
    assert host.install("--hook") == 0
    assert host.install("--remove") == 0
    assert host.files() == before
    left = {path for path in host.root.rglob("*") if path.is_dir()} - folders
    assert {path.name for path in left} <= {"local", "bin", "lib"}


class Answers(BaseHTTPRequestHandler):
    """Podman behind a socket: a running container of the strict runtime, which only its own API tells."""

    def do_GET(self) -> None:
        """Answer as Podman 4.3 does."""
        described = {"Name": "voice", "State": {"Running": True}, "HostConfig": {"Runtime": "oci"}}
        own = "/v4.0.0/libpod/containers"
        answers: dict[str, Any] = {
            "/v4.0.0/libpod/_ping": "OK",
            f"{own}/json?all=true": [{"Id": "a"}],
            f"{own}/a/json": described | {"OCIRuntime": "cpuset"},
        }
        content = json.dumps(answers.get(self.path, [])).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words: object) -> None:
        """Print nothing."""

    def address_string(self) -> str:
        """Return a name for a peer that has no address."""
        return "unix"


def test_what_podman_runs_under_it_keeps_it_installed(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Podman's compatible API says `oci` of every container: its own API is asked."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert host.install() == 0
    before, socket = host.files(), host.root / "run/podman/podman.sock"
    socket.parent.mkdir(parents=True)
    with UnixStreamServer(str(socket), Answers) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        assert host.install("--remove") == 1
        server.shutdown()
    assert "nothing was removed: voice runs under the runtime cpuset" in capsys.readouterr().err
    assert host.files() == before


def test_what_a_monitor_of_podman_shows_keeps_it_installed(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Podman's service need not run."""
    assert host.install() == 0
    before = host.files()
    monkeypatch.setattr(cmd_install_runtime, "monitored", lambda runtime: ["voice"])
    assert host.install("--remove") == 1
    assert "nothing was removed: voice runs under the runtime cpuset" in capsys.readouterr().err
    assert host.files() == before


def test_a_file_that_was_not_there_goes_again(host: Host) -> None:
    """dockerd then runs on its defaults, as before."""
    assert host.install("--for", "docker") == 0
    assert host.daemon_json.exists()
    assert host.install("--remove") == 0
    assert list(host.daemon_json.parent.iterdir()) == []


def test_what_somebody_else_changed_since_stays(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """Then only our entry goes, and the copy of before is named."""
    host.daemon_json.write_text('{"debug":true }')
    assert host.install() == 0
    host.daemon_json.write_text(json.dumps({**host.settings(), "log-level": "warn"}))
    assert host.install("--remove") == 0
    assert host.settings() == {"debug": True, "log-level": "warn"}
    copy = Path(f"{host.daemon_json}.before-cpuset-sidecar")
    assert copy.read_text() == '{"debug":true }'
    assert f"the content of before stays in {copy}" in capsys.readouterr().out


def test_a_second_time_changes_nothing(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """And the output says so."""
    assert host.install() == 0
    before = host.files()
    capsys.readouterr()
    assert host.install() == 0
    assert host.files() == before
    assert "nothing to change" in capsys.readouterr().out


def test_a_dry_run_says_all_and_changes_nothing(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """In JSON, too."""
    before = host.files()
    assert host.install("--dry-run", "--json") == 0
    shown = capsys.readouterr().out
    assert misfits("install", shown) == []
    told = json.loads(shown)
    assert told["is_dry"]
    assert "/usr/local/bin/cpuset-runc" in told["written"]
    assert str(host.daemon_json) in told["written"]
    assert host.files() == before
    assert host.install("--remove", "--dry-run") == 0
    assert "nothing to change: nothing of it is installed" in capsys.readouterr().out


def test_the_hook_is_for_containers_that_speak_of_cpus_in_annotations(host: Host) -> None:
    """And Podman looks in that directory."""
    assert host.install("--for", "podman", "--hook") == 0
    files = host.files()
    hook = json.loads(files["etc/containers/oci/hooks.d/50-cpuset-sidecar.json"])
    assert hook["hook"]["path"] == "/usr/local/bin/cpuset-precreate"
    assert hook["when"] == {"annotations": {"^cpuset\\.": ".*"}}
    assert hook["stages"] == ["precreate"]
    podman = tomllib.loads(files["etc/containers/containers.conf.d/50-cpuset-sidecar.conf"].decode())
    assert "/etc/containers/oci/hooks.d" in podman["engine"]["hooks_dir"]
    assert not host.daemon_json.exists()


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ('{"debug": true,}', "is not JSON"),
        ("[]", "is not a JSON object"),
        ('{"runtimes": "x"}', "is not a table"),
        ('{"runtimes": {"cpuset": {"path": "/theirs"}}}', "has another runtime 'cpuset'"),
    ],
)
def test_a_configuration_that_is_unclear_is_left_alone_and_nothing_is_written(
    host: Host, capsys: pytest.CaptureFixture[str], content: str, word: str
) -> None:
    """It is judged before the first file is written."""
    host.daemon_json.write_text(content)
    before = host.files()
    assert host.install() == 1
    assert word in capsys.readouterr().err
    assert host.files() == before


def test_another_runtime_of_that_name_is_not_removed(host: Host) -> None:
    """Only what points to ours."""
    host.daemon_json.write_text('{"runtimes": {"cpuset": {"path": "/theirs"}}}')
    assert host.install("--remove") == 0
    assert host.settings() == {"runtimes": {"cpuset": {"path": "/theirs"}}}


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (("--runtime", "kata"), "no OCI runtime kata on the host"),
        (("--runtime", "/usr/local/bin/cpuset-runc"), "cannot be its own real runtime"),
        (("--python", "/opt/python"), "the host has no /opt/python"),
    ],
)
def test_what_the_host_lacks_is_said(
    host: Host, capsys: pytest.CaptureFixture[str], words: tuple[str, str], word: str
) -> None:
    """With the right option."""
    host.program("usr/local/bin/cpuset-runc")
    assert host.install(*words) == 1
    assert word in capsys.readouterr().err


@pytest.mark.parametrize(("path", "mode", "owner"), [("usr/local", 0o777, 0), ("usr", 0o777, 0), ("etc", 0o755, 12345)])
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a directory away")
def test_what_another_user_could_replace_is_not_installed(
    host: Host, capsys: pytest.CaptureFixture[str], path: str, mode: int, owner: int
) -> None:
    """The engine runs it as root, and a shell reads the settings."""
    before = host.files()
    (host.root / path).mkdir(exist_ok=True)
    (host.root / path).chmod(mode)
    os.chown(host.root / path, owner, -1)
    assert host.install() == 1
    assert f"/{path} can be written by " in capsys.readouterr().err
    assert host.files() == before


def test_crun_serves_where_there_is_no_runc(host: Host) -> None:
    """As on many hosts with Podman alone."""
    (host.root / "usr/sbin/runc").unlink()
    host.program("usr/bin/crun")
    assert host.install("--for", "podman") == 0
    assert "real=/usr/bin/crun\n" in host.files()["etc/cpuset-sidecar/runtime.conf"].decode()


def test_a_host_without_engines_is_asked_about(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is guessed."""
    (host.root / "usr/bin/dockerd").unlink()
    (host.root / "usr/bin/podman").unlink()
    assert host.install() == 1
    assert "--for docker or --for podman" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--patience", "31"), ("--patience", "x"), ("--for", "lxc")])
def test_wrong_usage_is_2(host: Host, words: tuple[str, str]) -> None:
    with pytest.raises(SystemExit) as ended:
        host.install(*words)
    assert ended.value.code == 2


def test_a_prefix_holds_all_of_it(host: Host, tmp_path: Path) -> None:
    """Settings, too: for users without root, and for trials."""
    prefix = tmp_path / "mine"
    words = ("install-runtime", "--for", "podman", "--prefix", str(prefix), "--runtime", "/bin/true", *PLAIN)
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    done = subprocess.run(
        [sys.executable, "-m", "sidecar", *words, "--dry-run"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert f"would be written: {prefix}/etc/cpuset-sidecar/runtime.conf" in done.stdout


def test_a_dockerd_is_found_by_its_pid_file_and_its_flags_are_read(tmp_path: Path) -> None:
    """A PID that belongs to another process now is ignored."""
    (tmp_path / "pid").write_text("7\n")
    (tmp_path / "7").mkdir()
    command = b"/usr/bin/dockerd\0--config-file\0/x.json\0-H=fd://\0--add-runtime=a=b\0"
    (tmp_path / "7/cmdline").write_bytes(command)
    found = dockerd_process.find_dockerd(str(tmp_path / "pid"), str(tmp_path))
    assert found is not None
    assert (found.pid, found.flag("config-file"), found.flag("data-root")) == (7, "/x.json", None)
    assert "--add-runtime" in dockerd_process.conflict(found.words)
    assert dockerd_process.conflict(("--debug",)) == ""
    (tmp_path / "7/cmdline").write_bytes(b"sh\0")
    assert dockerd_process.find_dockerd(str(tmp_path / "pid"), str(tmp_path)) is None
    assert dockerd_process.find_dockerd(str(tmp_path / "none"), str(tmp_path)) is None


def conf(host: Host) -> list[str]:
    """Return the lines of the runtime's settings that name directories."""
    lines = (host.root / "etc/cpuset-sidecar/runtime.conf").read_text().splitlines()
    return [line for line in lines if "/srv/" in line]


def test_it_is_set_up_for_the_daemon_that_is_there(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """Its directories count, as the host has them, and not those of a shell without its flags. After its end they
    count as far as nothing else is given.
    """
    state = host.root / "srv/state"
    state.mkdir(parents=True)
    write_settings(state, Config(state_dir="/srv/state", projections="/srv/told"))
    with hold_lock(str(state)):
        assert host.install("--state-dir", "/srv/state") == 0
    assert [line.partition("=")[2].strip() for line in conf(host)] == ["/srv/state/api.sock", "/srv/told"]
    assert "the settings are those of the daemon on /srv/state, except --engine" in capsys.readouterr().out
    assert host.install("--state-dir", "/srv/state") == 0
    assert "those of the last daemon on /srv/state, except --engine" in capsys.readouterr().out
    assert host.install("--state-dir", "/srv/state", "--projections", "/srv/other") == 0
    assert [line.partition("=")[2].strip() for line in conf(host)] == ["/srv/state/api.sock", "/srv/other"]
