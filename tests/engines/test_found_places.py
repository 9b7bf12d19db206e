"""Which engines of a host are served with `engines = "auto"`: those that answer, each once, by what they are."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.engines.found_places import answering, engine_places

DOCKER = b"HTTP/1.0 200 OK\r\nApi-Version: 1.44\r\n\r\nOK"
PODMAN = b"HTTP/1.0 200 OK\r\nLibpod-Api-Version: 5.4.2\r\nServer: Libpod\r\n\r\nOK"


class Listeners:
    """Sockets below a root, each of which answers everybody the same."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._open: list[socket.socket] = []

    def at(self, path: str, answer: bytes) -> None:
        where = self.root / path
        where.parent.mkdir(parents=True, exist_ok=True)
        heard = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        here = os.open(where.parent, os.O_RDONLY | os.O_DIRECTORY)
        # The path of a test's folder may be longer than a socket's can be.
        heard.bind(f"/proc/self/fd/{here}/{where.name}")
        os.close(here)
        heard.listen(4)
        self._open.append(heard)
        threading.Thread(target=self._serve, args=(heard, answer), daemon=True).start()

    def _serve(self, heard: socket.socket, answer: bytes) -> None:
        while True:
            try:
                one, _ = heard.accept()
            except OSError:
                return
            with one:
                one.recv(1024)
                one.sendall(answer)

    def close(self) -> None:
        for each in self._open:
            each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listeners]:
    monkeypatch.chdir(tmp_path)
    made = Listeners(tmp_path)
    yield made
    made.close()


def test_all_that_answer_are_found_each_by_its_name(host: Listeners) -> None:
    """The host's own, then each user's; a socket that is left of one that is gone is none, nor is another server."""
    host.at("var/run/docker.sock", DOCKER)
    host.at("run/podman/podman.sock", PODMAN)
    host.at("run/user/1001/podman/podman.sock", PODMAN)
    host.at("run/user/1002/podman/podman.sock", b"220 mail\r\n\r\n")
    host.at("run/user/999/podman/podman.sock", PODMAN)
    left = host.root / "run/user/1003/podman"
    left.mkdir(parents=True)
    (left / "podman.sock").touch()
    assert list(answering(".")) == ["docker", "podman", "podman:999", "podman:1001"]
    assert engine_places("auto", ("auto",), root=".")[-1] == (
        "podman:1001",
        "unix://./run/user/1001/podman/podman.sock",
    )


def test_podman_at_dockers_place_counts_once(host: Listeners) -> None:
    """By a link, as podman-docker makes it, or by a socket of its own. An only engine needs no name."""
    host.at("run/podman/podman.sock", PODMAN)
    (host.root / "var/run").mkdir(parents=True)
    (host.root / "var/run/docker.sock").symlink_to(host.root / "run/podman/podman.sock")
    assert list(answering(".")) == ["podman"]
    (host.root / "var/run/docker.sock").unlink()
    host.at("var/run/docker.sock", PODMAN)
    assert list(answering(".")) == ["podman"]
    assert [name for name, _ in engine_places("auto", ("auto",), root=".")] == [""]


def test_where_none_answers_the_usual_search_says_so(host: Listeners) -> None:
    assert engine_places("auto", ("auto",), root=".") == [("", "auto")]


def test_what_is_configured_is_asked_nothing() -> None:
    assert engine_places("auto", ("docker", "podman:1000")) == [
        ("docker", "unix:///var/run/docker.sock"),
        ("podman:1000", "unix:///run/user/1000/podman/podman.sock"),
    ]
