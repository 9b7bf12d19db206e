"""The default cgroup parent that a dockerd was given: found by its socket, its command line and its file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from sidecar.host.install.dockerd_parent import parents_given

ACCEPTS: Final = "00010000"


class Proc:
    """A /proc with processes, and the socket of an engine."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "proc"
        self.root.mkdir()
        self.socket = folder / "docker.sock"
        self.socket.touch()

    def run(
        self,
        pid: int,
        *words: str,
        place: str = "/run/docker.sock",
        flags: str = ACCEPTS,
        is_open: bool = True,
        comm: str = "dockerd",
        settings: object = None,
    ) -> Path:
        """Add a process with a socket at this place, which is the engine's, and with this daemon.json; return where its
        files are.
        """
        folder = self.root / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "net").mkdir()
        (folder / "comm").write_text(comm + "\n")
        (folder / "cmdline").write_bytes(b"".join(each.encode() + b"\0" for each in ("/usr/bin/dockerd", *words)))
        os.symlink("/dev/null", folder / "fd/0")
        os.symlink(f"socket:[{77 if is_open else 78}]", folder / "fd/4")
        lines = ["Num       RefCount Protocol Flags    Type St Inode Path", "nonsense", "0: 2 0 zz 1 1 77 /a"]
        lines += [f"0000000000000000: 00000002 00000000 {each} 0001 01 77 {place}".rstrip() for each in (flags, "0")]
        (folder / "net/unix").write_text("\n".join(lines) + "\n")
        if place:
            socket = folder / f"root{place}"
            socket.parent.mkdir(parents=True)
            os.link(self.socket, socket)
        if settings is not None:
            file = folder / "root/etc/docker/daemon.json"
            file.parent.mkdir(parents=True)
            file.write_text(settings if isinstance(settings, str) else json.dumps(settings))
        return folder / "root"

    def given(self, *addresses: str) -> tuple[str, ...]:
        """Return what is found for these addresses; for its socket if there are none."""
        return parents_given(addresses or (f"unix://{self.socket}",), str(self.root))


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    """Return one without processes."""
    return Proc(tmp_path)


@pytest.mark.parametrize("words", [("--cgroup-parent", "/tenants"), ("--debug", "--cgroup-parent=/tenants")])
def test_it_is_on_the_command_line(proc: Proc, words: tuple[str, ...]) -> None:
    proc.run(5, *words)
    assert proc.given() == ("/tenants",)


def test_or_in_the_file_that_it_reads(proc: Proc) -> None:
    proc.run(5, settings={"cgroup-parent": "tenants.slice"})
    assert proc.given() == ("tenants.slice",)


def test_the_file_may_be_another_one(proc: Proc) -> None:
    root = proc.run(5, "--config-file=/other/docker.json", settings={"cgroup-parent": "/unread"})
    (root / "other").mkdir()
    (root / "other/docker.json").write_text('{"cgroup-parent": "/others"}')
    assert proc.given() == ("/others",)


@pytest.mark.parametrize("settings", [None, {}, {"cgroup-parent": 7}, {"cgroup-parent": ""}, "{", "[]"])
def test_what_says_nothing_gives_nothing(proc: Proc, settings: object) -> None:
    """Nor does a file that dockerd would refuse."""
    proc.run(5, settings=settings)
    assert proc.given() == ()


def test_its_socket_may_be_called_otherwise_where_it_is(proc: Proc, tmp_path: Path) -> None:
    """As `/var/run` is a link to `/run`, and as a namespace has mounts of its own."""
    proc.run(5, "--cgroup-parent=/tenants", place="/elsewhere/engine.sock")
    link = tmp_path / "link.sock"
    link.symlink_to(proc.socket)
    assert proc.given(f"unix://{link}") == ("/tenants",)


@pytest.mark.parametrize(
    "process",
    [{"flags": "00000000"}, {"is_open": False}, {"comm": "docker-proxy"}, {"place": ""}],
    ids=["a client", "another's socket", "another program", "a socket without a name"],
)
def test_only_a_dockerd_that_accepts_connections_there_counts(proc: Proc, process: dict[str, Any]) -> None:
    proc.run(5, "--cgroup-parent=/tenants", **process)
    assert proc.given() == ()


def test_nothing_is_found_where_nothing_is_to_be_seen(proc: Proc, tmp_path: Path) -> None:
    """As from inside a container, or of an engine that is not reached by a socket of this host."""
    assert parents_given(("unix:///run/docker.sock",), str(tmp_path / "none")) == ()
    proc.run(5, "--cgroup-parent=/tenants")
    assert proc.given("tcp://127.0.0.1:2375", f"unix://{tmp_path}/none.sock") == ()
