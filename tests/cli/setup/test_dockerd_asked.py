"""Which Docker `install-runtime` asks for the containers that need the runtime, and what it does if none answers."""

from __future__ import annotations

import pytest

from sidecar.__main__ import main
from sidecar.cli.setup import dockerd_process
from tests.cli.setup.test_cmd_install_runtime import Host, host

__all__ = ["host"]

NO_PROCESS = 1 << 30


@pytest.mark.parametrize("words", [("-H", "unix://{}"), ("-Hunix://{}",), ("--host=unix://{}", "-H", "fd://"), ()])
def test_docker_is_asked_where_it_listens_though_the_sidecar_was_told_no_address(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """Where dockerd was told to, or where clients are told that it does."""
    assert host.install("--for", "docker") == 0
    before, socket = host.files(), host.root / "own.sock"
    socket.touch()
    dockerd = dockerd_process.Dockerd(NO_PROCESS, tuple(word.format(socket) for word in words))
    monkeypatch.setattr(dockerd_process, "find_dockerd", lambda _: dockerd)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}" if not words else "tcp://127.0.0.1:1")
    told = {str(socket): [dockerd_process.User("voice", "cpuset", is_live=True)]}
    monkeypatch.setattr(dockerd_process, "containers", told.__getitem__)
    assert main(["install-runtime", "--root", str(host.root), "--for", "docker", "--engine", "auto", "--remove"]) == 1
    assert "nothing was removed: voice runs under the runtime cpuset" in capsys.readouterr().err
    assert host.files() == {**before, "own.sock": b""}


@pytest.mark.parametrize("is_there", [True, False])
def test_nothing_is_removed_below_a_dockerd_that_cannot_be_asked(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_there: bool
) -> None:
    """Its containers could not be stopped."""
    assert host.install("--for", "docker") == 0
    socket = host.root / "own.sock"
    if is_there:
        socket.touch()
    before = host.files()
    monkeypatch.setattr(dockerd_process, "find_dockerd", lambda _: dockerd_process.Dockerd(NO_PROCESS, ()))
    words = ("--root", str(host.root), "--for", "docker", "--engine", f"unix://{socket}", "--remove")
    assert main(["install-runtime", *words]) == 1
    told = capsys.readouterr().err
    assert ("does not tell which containers need the runtime" if is_there else "its socket is not known") in told
    assert host.files() == before


def test_what_podman_alone_has_goes_beside_a_dockerd_that_is_not_asked(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docker calls nothing of it."""
    before = host.files()
    assert host.install("--for", "podman", "--default") == 0
    monkeypatch.setattr(dockerd_process, "find_dockerd", lambda _: dockerd_process.Dockerd(NO_PROCESS, ()))
    words = ("--root", str(host.root), "--for", "podman", "--engine", "unix:///nonexistent", "--remove")
    assert main(["install-runtime", *words]) == 0
    assert host.files() == before
