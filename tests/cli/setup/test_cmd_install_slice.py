"""`install-slice`: two units and one key, announced before, reported after, and removed again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sidecar.__main__ import main
from sidecar.cli.doctor.host_checks import EngineReport
from sidecar.cli.setup import cmd_install_slice
from sidecar.cli.setup.dockerd_process import Dockerd
from sidecar.commit.state_lock import hold_lock
from sidecar.config.config import Config
from sidecar.config.running_settings import write_settings
from sidecar.decide.facts import EngineInfo
from tests.support.schemas import misfits

UNITS = "etc/systemd/system"


class Host:
    """A host's file system in a folder, and the command on it."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self.file = root / "etc/docker/daemon.json"
        self._capsys = capsys

    def run(self, *words: str, driver: str = "systemd") -> int:
        return main(["install-slice", "--root", str(self.root), "--driver", driver, *words])

    def said(self) -> str:
        return self._capsys.readouterr().out

    def told(self) -> str:
        return self._capsys.readouterr().err

    def settings(self) -> Any:
        return json.loads(self.file.read_text())

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file())


@pytest.fixture
def host(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.delenv("CPUSET_SIDECAR_SHARED_SLICE", raising=False)
    (tmp_path / "root").mkdir()
    return Host(tmp_path / "root", capsys)


def engine(version: str = "2", driver: str = "systemd", name: str = "docker") -> EngineReport:
    return EngineReport(
        engine=EngineInfo(
            name=name, version="26", api_version="1.45", ncpu=4, cgroup_version=version, cgroup_driver=driver
        )
    )


def test_two_units_and_a_key_are_written_and_taken_away(host: Host) -> None:
    """Other keys of daemon.json stay; the second time there is nothing to do; and removing leaves nothing behind."""
    host.file.parent.mkdir(parents=True)
    host.file.write_text('{"live-restore": true}')
    assert host.run() == 0
    said = host.said()
    for words in (
        f"written: /{UNITS}/sidecar-shared.slice",
        f"written: /{UNITS}/sidecar-exclusive.slice",
        f"written: {host.file}",
        "systemctl restart docker",
        'shared_slice = "sidecar-shared.slice"',
        "cgroup_parent: sidecar-exclusive.slice",
        "/run/dbus/system_bus_socket",
    ):
        assert words in said, words
    assert host.settings() == {"live-restore": True, "cgroup-parent": "sidecar-shared.slice"}
    for name in ("sidecar-shared.slice", "sidecar-exclusive.slice"):
        text = (host.root / UNITS / name).read_text()
        assert text.startswith("# Written by `cpuset-sidecar install-slice`.\n[Unit]\n")
        assert "AllowedCPUs" not in text
    assert host.run() == 0
    assert host.said().startswith("nothing to change")
    assert host.run("--remove") == 0
    assert "cpuset-sidecar release" in host.said()
    assert host.settings() == {"live-restore": True}
    assert host.files() == ["etc/docker/daemon.json"]


def test_a_unit_that_somebody_else_wrote_stays(host: Host) -> None:
    """Neither replaced nor removed: the slice may have been theirs before it was the shared group."""
    theirs = host.root / UNITS / "sidecar-shared.slice"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("[Slice]\nMemoryMax=8G\n")
    assert host.run() == 0
    assert "/sidecar-shared.slice was not written by this command, and stays as it is" in host.said()
    assert host.run("--remove") == 0
    assert theirs.read_text() == "[Slice]\nMemoryMax=8G\n"
    assert host.files() == [f"{UNITS}/sidecar-shared.slice"]


def test_under_cgroupfs_it_is_the_key_alone(host: Host) -> None:
    """There a cgroup parent is a path, which the first container creates."""
    assert host.run(driver="cgroupfs") == 0
    said = host.said()
    assert "cgroup_parent: /sidecar-exclusive" in said
    assert "daemon-reload" not in said
    assert "dbus" not in said
    assert host.settings() == {"cgroup-parent": "/sidecar-shared"}
    assert host.files() == ["etc/docker/daemon.json", "etc/docker/daemon.json.before-cpuset-sidecar"]
    assert host.run("--remove", driver="cgroupfs") == 0
    assert "daemon-reload" not in host.said()
    assert host.files() == []


def test_a_dry_run_says_and_changes_nothing(host: Host) -> None:
    """In the same words."""
    assert host.run("--dry-run", "--json") == 0
    said = host.said()
    assert misfits("install", said) == []
    done = json.loads(said)
    assert done["is_dry"] is True
    assert len(done["written"]) == 3
    assert host.files() == []
    assert host.run() == 0
    host.said()
    before = host.files()
    assert host.run("--remove", "--dry-run") == 0
    assert "would be removed: " in host.said()
    assert host.files() == before


def test_another_default_parent_is_respected(host: Host) -> None:
    """It is there on purpose: it may become the shared group, by name."""
    host.file.parent.mkdir(parents=True)
    host.file.write_text('{"cgroup-parent": "games.slice"}')
    assert host.run() == 1
    assert "another cgroup-parent already, 'games.slice'" in host.told()
    assert host.files() == ["etc/docker/daemon.json"]
    assert host.run("--shared-slice", "games.slice") == 0
    assert host.run("--remove") == 0
    assert "was not set by this command, and stays" in host.said()
    assert host.settings() == {"cgroup-parent": "games.slice"}


@pytest.mark.parametrize(
    ("words", "driver", "reason"),
    [
        (("--shared-slice", "/a"), "systemd", "write one like 'sidecar-shared.slice'"),
        (("--shared-slice", "a.slice"), "cgroupfs", "write one like '/sidecar-shared'"),
        (("--shared-slice", "cpuset-a.slice"), "systemd", "where OCI runtimes do not look for it"),
    ],
)
def test_a_name_that_does_not_fit_is_refused(host: Host, words: tuple[str, ...], driver: str, reason: str) -> None:
    """Before anything is written."""
    assert host.run(*words, driver=driver) == 1
    assert reason in host.told()
    assert host.files() == []


def test_a_file_that_is_not_json_is_left_alone(host: Host) -> None:
    """And no unit is written, either."""
    host.file.parent.mkdir(parents=True)
    host.file.write_text("{")
    assert host.run() == 1
    assert "is not JSON" in host.told()
    assert host.files() == ["etc/docker/daemon.json"]
    assert host.file.read_text() == "{"


def test_a_flag_of_dockerd_would_keep_it_from_starting(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same key as a flag and in the file is an error to it."""
    running = Dockerd(7, ("--cgroup-parent", "x.slice"))
    monkeypatch.setattr("sidecar.cli.setup.dockerd_process.find_dockerd", lambda *_: running)
    assert host.run() == 1
    assert "runs with the flag --cgroup-parent x.slice" in host.told()
    assert host.files() == []


@pytest.mark.parametrize(
    ("report", "code", "words"),
    [
        (engine(), 0, "sidecar-shared.slice"),
        (engine(driver="cgroupfs"), 0, "/sidecar-shared"),
        (engine(version="1", driver="cgroupfs"), 1, "cgroup v1"),
        (EngineReport(error="no answer"), 1, "no answer; or add --driver systemd"),
    ],
)
def test_the_engine_is_asked_for_its_driver(
    host: Host, monkeypatch: pytest.MonkeyPatch, report: EngineReport, code: int, words: str
) -> None:
    """And refused with the reason where it has none that would do."""
    monkeypatch.setattr(cmd_install_slice, "ask_engine", lambda _: report)
    assert host.run(driver="auto") == code
    assert words in (host.told() if code else host.said())


def test_podman_has_units_and_no_default(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads no default parent from any file: each container or quadlet sets it."""
    monkeypatch.setattr(cmd_install_slice, "ask_engine", lambda _: engine(name="podman"))
    assert host.run(driver="auto") == 0
    said = host.said()
    assert "`podman run --cgroup-parent sidecar-shared.slice`, or Slice=sidecar-shared.slice in a quadlet" in said
    assert host.files() == [f"{UNITS}/sidecar-exclusive.slice", f"{UNITS}/sidecar-shared.slice"]


def test_a_root_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is created under a misspelt path."""
    assert main(["install-slice", "--root", f"{tmp_path}/none", "--driver", "systemd"]) == 1
    assert "is not a directory" in capsys.readouterr().err


def test_it_asks_the_engine_of_the_daemon_that_runs(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """And takes the group's name from it, too, where none is given."""
    asked: list[str] = []

    def ask(address: str) -> EngineReport:
        asked.append(address)
        return engine()

    monkeypatch.setattr(cmd_install_slice, "ask_engine", ask)
    state = host.root / "srv/state"
    state.mkdir(parents=True)
    write_settings(state, Config(engine="unix:///run/other.sock", shared_slice="own-group.slice"))
    with hold_lock(str(state)):
        assert host.run("--dry-run", "--state-dir", "/srv/state", driver="auto") == 0
    said = host.said()
    assert asked == ["unix:///run/other.sock"]
    assert "the settings are those of the daemon on /srv/state" in said
    assert "own-group.slice" in said
