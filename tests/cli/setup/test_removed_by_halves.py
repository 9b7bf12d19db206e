"""`install-runtime --remove` where something is missing or in the way, and what `--dry-run` says of it."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from sidecar.cli.setup import dockerd_process
from tests.cli.setup.test_cmd_install_runtime import Host, host
from tests.cli.setup.test_install_default import DOCKER, FRONTS, containers_on_disk

__all__ = ["host"]

FRONT = f"/{FRONTS}/docker/cpuset-default"


class FakeDockerd:
    """A dockerd that reads the file at each reload, and does not survive a table that is null."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host = host
        self.read: list[Any] = []
        running = dockerd_process.Dockerd(1 << 30, ())
        monkeypatch.setattr(dockerd_process, "find_dockerd", lambda _: running)
        monkeypatch.setattr(dockerd_process.Dockerd, "reload", lambda _: self._reload())

    def _reload(self) -> None:
        self.read.append(json.loads(self.host.daemon_json.read_bytes()))
        assert self.read[-1].get("runtimes", {}) is not None, "dockerd 20.10 panics"


@pytest.mark.parametrize("words", [(), ("--default",)])
def test_a_table_that_is_null_is_never_reloaded_and_is_there_again(
    host: Host, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    host.daemon_json.write_text('{"runtimes":null }')
    before = host.files()
    assert host.install(*DOCKER, *words) == 0
    FakeDockerd(host, monkeypatch)
    monkeypatch.setattr(dockerd_process, "is_maybe_unseen", lambda *_: False)
    monkeypatch.setattr("sidecar.cli.setup.docker_side.docker_socket", lambda *_: "/sock")
    monkeypatch.setattr(dockerd_process, "until_so", lambda *_: True)
    monkeypatch.setattr(dockerd_process, "containers", lambda _: [])
    assert host.install(*DOCKER, "--remove") == 0
    assert host.files() == before


@pytest.mark.parametrize("words", [("--remove",), ("--remove", "--default")])
def test_a_default_without_a_record_goes_too(
    host: Host, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """Its program may be missing as well, so that no container would start."""
    before = host.files()
    assert host.install(*DOCKER, "--default") == 0
    shutil.rmtree(host.root / "etc/cpuset-sidecar")
    assert host.install(*DOCKER, *words) == 0
    settings = host.settings() if host.daemon_json.exists() else {}
    assert settings.get("default-runtime", "runc") == "runc"
    assert "cpuset-default" not in settings.get("runtimes", {})
    assert not (host.root / FRONT[1:]).exists()
    assert host.install(*DOCKER, "--remove") == 0
    assert host.files() == before
    host.daemon_json.write_text(
        json.dumps({"runtimes": {"cpuset-default": {"path": FRONT}}, "default-runtime": "cpuset-default"})
    )
    assert host.install(*DOCKER, *words) == 0
    assert not host.daemon_json.exists()
    assert "nothing to change" not in capsys.readouterr().out.splitlines()[-2:]


def test_a_name_without_a_record_is_not_overlooked(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing says what it was: people are asked, before anything is removed."""
    host.program("usr/bin/nv")
    host.daemon_json.write_text('{"runtimes": {"nv": {"path": "/usr/bin/nv"}}}')
    assert host.install(*DOCKER, "--wrap", "nv") == 0
    (host.root / "etc/cpuset-sidecar/fronts/docker/nv.json").unlink()
    before = host.files()
    assert host.install(*DOCKER, "--remove") == 1
    assert "nv.json is missing, which says what the runtime nv was" in capsys.readouterr().err
    assert host.files() == before
    # Another front goes all the same.
    assert host.install(*DOCKER, "--default") == 0
    assert host.install(*DOCKER, "--remove", "--default") == 0
    assert host.settings()["runtimes"]["nv"] == {"path": f"/{FRONTS}/docker/nv"}


@pytest.mark.parametrize("where", [("--state-dir", "/srv/state"), ("--socket", "/srv/state/api.sock")])
def test_a_record_that_is_gone_is_found_in_the_state_directory(host: Host, where: tuple[str, str]) -> None:
    """What stood behind the front is there again, byte for byte."""
    host.program("usr/bin/nv")
    host.daemon_json.write_text('{"runtimes": {"nv": {"path": "/usr/bin/nv", "runtimeArgs": ["-x"]}} }')
    (host.root / "srv/state").mkdir(parents=True)
    before = host.files()
    assert host.install(*DOCKER, *where, "--default", "--wrap", "nv") == 0
    shutil.rmtree(host.root / "etc/cpuset-sidecar/fronts")
    assert host.install(*DOCKER, *where, "--remove") == 0
    assert host.files() == before
    assert list((host.root / "srv/state").iterdir()) == []


@pytest.mark.parametrize("users", [{}, {"web": "cpuset-default"}, {"web": "cpuset-default", "gpu": "nv"}])
@pytest.mark.parametrize("words", [(), ("--default",), ("--wrap", "nv")])
def test_a_dry_removal_says_what_the_removal_does(
    host: Host, capsys: pytest.CaptureFixture[str], users: dict[str, str], words: tuple[str, ...]
) -> None:
    """A front that containers need stays, in both; also one that passes everything on already."""
    host.program("usr/bin/nv")
    host.daemon_json.write_text('{"runtimes": {"nv": {"path": "/usr/bin/nv"}}}')
    assert host.install(*DOCKER, "--default", "--wrap", "nv") == 0
    containers_on_disk(host, **users)
    for _ in range(2):
        capsys.readouterr()
        assert host.install(*DOCKER, "--remove", *words, "--dry-run", "--json") == 0
        foreseen = json.loads(capsys.readouterr().out)
        assert host.install(*DOCKER, "--remove", *words, "--json") == 0
        told = json.loads(capsys.readouterr().out)
        assert (foreseen["written"], foreseen["removed"]) == (told["written"], told["removed"])
        assert set(foreseen["notes"]) <= set(told["notes"])
        assert [each for each in told["notes"] if "dockerd is not visible" not in each] == foreseen["notes"]


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (
            {"runtimes": {"nv": {"Path": "/usr/bin/nv"}}},
            "'Path' of the runtime 'nv', which dockerd reads as 'path'",
        ),
        ({"runtimes": {"nv": {"path": "/usr/bin/nv", "RuntimeArgs": ["-x"]}}}, "'RuntimeArgs' of the runtime 'nv'"),
        ({"Runtimes": {"nv": {"path": "/usr/bin/nv"}}}, "has the key 'Runtimes', which dockerd reads as 'runtimes'"),
        ({"Default-Runtime": "nv"}, "has the key 'Default-Runtime'"),
        ({"runtimes": {"nv": "x"}}, "the runtime 'nv' in"),
    ],
)
def test_what_dockerd_reads_otherwise_is_in_the_way(
    host: Host, capsys: pytest.CaptureFixture[str], content: Any, word: str
) -> None:
    """Before anything is written."""
    host.daemon_json.write_text(json.dumps(content))
    before = host.files()
    assert host.install(*DOCKER, "--default") == 1
    assert word in capsys.readouterr().err
    assert host.files() == before
