"""Preparing a host: an existing engine is used, and where none is possible a person reads what to do.

The programs that it calls (docker, apt) are scripts on a PATH of the test's own, so that no host is touched.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compose.host import engine as engines
from compose.host import image, packages
from compose.host.base import OWN_BASE
from compose.host.commands import HostLacks
from compose.host.composer import find
from compose.host.engine import EngineFound, engine, socket_path

ROOT = Path(__file__).parents[2]
SHELL = "/bin/sh"

Plant = Callable[[str, str], None]


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Return a function that puts a shell script of a name on a PATH that holds nothing else."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("DOCKER_HOST", "BASE"):
        monkeypatch.delenv(name, raising=False)

    def write(name: str, body: str) -> None:
        script = programs / name
        script.write_text(f"#!{SHELL}\n{body}\n")
        script.chmod(0o755)

    return write


def test_an_engine_that_answers_is_used_and_left_alone(plant: Plant) -> None:
    """Nothing is installed, started or stopped."""
    plant("docker", 'case "$1" in version) echo 99.1;; context) echo unix:///run/mine.sock;; esac')
    with engine() as found:
        assert found == EngineFound("99.1", "/run/mine.sock", started=False)


def test_a_chosen_engine_that_is_silent_is_an_error(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """DOCKER_HOST selects that engine, and no other is tried."""
    plant("docker", "echo cannot connect >&2; exit 1")
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/elsewhere.sock")
    with pytest.raises(HostLacks, match=r"DOCKER_HOST=unix:///run/elsewhere\.sock does not answer"), engine():
        pass


def test_an_engine_that_refuses_this_user_is_not_installed_over(plant: Plant) -> None:
    """The cure is the group or root, not another engine."""
    plant("docker", "echo 'permission denied while trying to connect' >&2; exit 1")
    with pytest.raises(HostLacks, match="join the group docker"), engine():
        pass


def test_a_user_without_root_reads_what_to_do(plant: Plant, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No engine runs, and none may be installed: the message has the command to type."""
    del plant
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(engines, "DEFAULT_SOCKET", tmp_path / "docker.sock")
    with pytest.raises(HostLacks, match=r"apt-get install docker\.io"), engine():
        pass


def test_an_engine_that_dies_at_once_is_quoted(plant: Plant, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its last output is the reason, and none of its folders is left."""
    plant("docker", "echo nobody there >&2; exit 1")
    plant("dockerd", "echo 'Devices cgroup is not mounted' >&2; exit 1")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(engines, "SYSTEMD", tmp_path / "no-systemd")
    monkeypatch.setattr(engines, "DEFAULT_SOCKET", tmp_path / "docker.sock")
    monkeypatch.setattr(engines, "PRIVATE", tmp_path / "private")
    monkeypatch.setattr(engines, "RUN", tmp_path / "run")
    monkeypatch.setattr(engines, "LOG", tmp_path / "log")
    monkeypatch.setattr(engines, "now_undisturbed", lambda: None)
    monkeypatch.setattr(engines, "_traces", set)
    with pytest.raises(HostLacks, match="Devices cgroup is not mounted"), engine():
        pass
    assert not (tmp_path / "private").exists()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("address", "path"),
    [("unix:///a/b.sock", "/a/b.sock"), ("tcp://10.0.0.1:2376", "/var/run/docker.sock")],
)
def test_the_socket_is_the_one_that_the_engines_host_has(
    address: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path mounted into the sidecar is one of the engine's host, not of the client's."""
    monkeypatch.setenv("DOCKER_HOST", address)
    assert socket_path() == path


def test_the_plugin_is_preferred_to_the_program(plant: Plant) -> None:
    """Docker Compose v2 if present, else docker-compose, else none."""
    assert find() is None
    plant("docker-compose", "exit 0")
    assert find() == ("docker-compose",)
    plant("docker", "exit 0")
    assert find() == ("docker", "compose")


def test_no_tag_is_a_base_by_default(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The base is one made here, or the chosen one; a chosen tag is warned of."""
    monkeypatch.delenv("BASE", raising=False)
    assert image.find_base({"python:3-slim", OWN_BASE}) == OWN_BASE
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("BASE", "python@sha256:abc")
    assert image.find_base(set()) == "python@sha256:abc"
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("BASE", "python:3-slim")
    assert image.find_base(set()) == "python:3-slim"
    assert "name it by its digest" in capsys.readouterr().err


def test_what_is_installed_is_noted_and_can_be_removed(plant: Plant, tmp_path: Path) -> None:
    """Only the packages that we brought, with what they needed."""
    state = tmp_path / "dpkg"
    state.write_text("ii  old\n")
    plant("dpkg-query", f'while read -r line; do echo "$line"; done < {state}')
    plant("apt-cache", "echo '  Candidate: 1.0'")
    plant("apt-get", f'case "$*" in *purge*) echo "$@" > {tmp_path}/purged;; *) echo "ii  new" >> {state};; esac')
    packages.install(["new"], "a test")
    assert packages.ours() == ["new"]
    assert packages.remove_ours() == ["new"]
    assert (tmp_path / "purged").read_text().split()[-2:] == ["purge", "new"]
    assert packages.ours() == []


def test_the_exit_code_of_the_command_comes_through(plant: Plant, tmp_path: Path) -> None:
    """`make test` fails when its tests do."""
    plant("docker", "echo 99.1")
    words = [sys.executable, "-m", "compose.host", "with-engine", "--", SHELL, "-c", "exit 7"]
    environment = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    assert subprocess.run(words, cwd=ROOT, env=environment, check=False).returncode == 7
