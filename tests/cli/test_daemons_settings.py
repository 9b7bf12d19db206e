"""Commands that answer for a running daemon go by its settings, say so, and let flags override."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar import daemon
from sidecar.__main__ import main
from sidecar.cli.doctor.engine_checks import check_sidecars
from sidecar.cli.doctor.host_checks import Verdict
from sidecar.commit.state_lock import hold_lock
from sidecar.config.config import Config, load
from sidecar.config.running_settings import write_settings
from sidecar.host.cgroup.engine_lock import LockHolder
from state.checkpoint import CheckpointFile
from state.cpuset import CPUSet
from state.model import State
from state.topology import uniform

NOWHERE = ("--engine", "unix:///nonexistent.sock")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this machine one of eight CPUs."""
    for module in ("sidecar.cli.cmd_plan", "sidecar.cli.cmd_simulate", "sidecar.cli.this_machine"):
        monkeypatch.setattr(f"{module}.read_topology", lambda: uniform(cores=8))


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Path]:
    """Yield the state directory of a daemon that was started with flags."""
    write_settings(tmp_path, load(None, {}, {"policy": "static", "reserved": "2-3", "projections": "/run/p"}))
    with hold_lock(str(tmp_path)):
        yield tmp_path


def plan(state_dir: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, list[str]]:
    """Return the reserved CPUs of a plan, and its notes."""
    assert main(["plan", "--json", "--empty", "--cpus", "1", "--state-dir", str(state_dir), *words]) == 0
    found = json.loads(capsys.readouterr().out)
    return found["reserved"], found["notes"]


def test_a_plan_goes_by_the_daemons_settings_and_says_so(running: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(running, capsys) == ("2-3", [f"the settings are those of the daemon on {running}"])


def test_a_flag_overrides_the_daemons_setting_and_is_named(running: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = f"the settings are those of the daemon on {running}, except --reserved"
    assert plan(running, capsys, "--reserved", "0-1") == ("0-1", [said])


def test_a_plan_for_another_file_or_machine_is_its_own(
    running: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Who names a file asks what that would do."""
    (tmp_path / "c.toml").write_text('policy = "static"\nreserved = "7"\n')
    reserved, notes = plan(running, capsys, "--config", str(tmp_path / "c.toml"))
    assert reserved == "7"
    assert not any("those of the daemon" in note for note in notes)


def test_without_a_daemon_a_plan_goes_by_its_own_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The settings of a daemon that has ended may be those of last year."""
    write_settings(tmp_path, load(None, {}, {"policy": "static", "reserved": "2-3"}))
    assert plan(tmp_path, capsys) == ("0", ["the configuration reserves no CPU: 1 reserved CPU is assumed"])


def test_doctor_judges_the_daemons_settings(running: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not those of a shell without its flags."""
    main(["doctor", "--json", "--state-dir", str(running), *NOWHERE])
    found = {each["question"]: each["says"] for each in json.loads(capsys.readouterr().out)}
    assert found["settings"] == f"the settings are those of the daemon on {running}, except --engine"
    assert found["policy"].startswith("static")


def test_a_scenario_is_played_like_this_host(running: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On this machine and by the daemon's settings, whatever the file has; without the flag by the file's."""
    file = tmp_path / "x.toml"
    file.write_text(
        """
ends = "5s"
[machine]
cores = 2
[settings]
policy = "static"
reserved = "0"
[[container]]
name = "own"
labels = { "cpuset.exclusive" = "3" }
[[event]]
at = "1s"
do = "run"
container = "own"
"""
    )
    assert main(["simulate", str(file), "--like-this-host", "--state-dir", str(running)]) == 0
    told = capsys.readouterr().out
    assert f"note: the settings are those of the daemon on {running}" in told
    assert "granted 0-1,4" in told
    assert main(["simulate", str(file)]) == 0
    assert "granted" not in capsys.readouterr().out


def test_doctor_shows_the_sidecar_of_another_directory() -> None:
    """A second one would not start."""
    [found] = check_sidecars(LockHolder(7, "", "/srv/s"), is_running=False)
    assert found.verdict is Verdict.WARN
    assert "(process 7, on /srv/s): no second one starts" in found.says
    assert [each.verdict for each in check_sidecars(LockHolder(7), is_running=True)] == [Verdict.OK]
    assert list(check_sidecars(None, is_running=True)) == []


def test_a_release_needs_no_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the engine and the directories of the last daemon, and the words of a unit's line without complaint."""
    given: list[Config] = []

    def release(config: Config) -> int:
        given.append(config)
        return 0

    monkeypatch.setattr(daemon, "release", release)
    last = load(None, {}, {"engine": "/run/x.sock", "projections": "/run/p", "policy": "static", "reserved": "0"})
    write_settings(tmp_path, last)
    with CheckpointFile(tmp_path) as checkpoint:
        checkpoint.save(State())
    assert main(["release", "--state-dir", str(tmp_path)]) == 0
    assert main(["release", "--state-dir", str(tmp_path), "--policy", "static", "--engine", "/run/y.sock"]) == 0
    assert [(each.engine, each.projections, each.reserved) for each in given] == [
        ("unix:///run/x.sock", "/run/p", CPUSet.of(0)),
        ("unix:///run/y.sock", "/run/p", CPUSet.of(0)),
    ]


def test_a_release_of_a_wrong_directory_makes_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither there nor below the projections."""
    (tmp_path / "empty").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for wrong in (tmp_path / "none", tmp_path / "empty"):
        assert main(["release", "--state-dir", str(wrong), "--projections", str(tmp_path / "told")]) == 1
        assert f"there is no recorded state in {wrong}" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before
