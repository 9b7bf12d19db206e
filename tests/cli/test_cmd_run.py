"""`run --check`: mistakes, or ok; nothing is touched."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sidecar.__main__ import main
from sidecar.cli.doctor import cmd_doctor
from sidecar.cli.doctor.host_checks import EngineReport
from tests.cli.worlds import ENGINE, container

RULES = """
policy = "static"
reserved = "1"
[[rule]]
match = { name = "db-*" }
exclusive = 1
[[rule]]
match = { name = "web", project = "shop" }
exclusive = 1
"""


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the words of a check, beside an engine with one container."""
    report = EngineReport(engine=ENGINE, views=(container("db-1"),))
    monkeypatch.setattr(cmd_doctor, "ask_engine", lambda _: report)
    (tmp_path / "c.toml").write_text(RULES)
    return ["run", "--check", "--config", str(tmp_path / "c.toml"), "--state-dir", str(tmp_path / "state")]


def test_a_check_says_ok_and_names_what_is_doubtful(
    configured: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also a rule that is no container's."""
    assert main(configured) == 0
    file = tmp_path / "c.toml"
    assert capsys.readouterr().out.splitlines() == [
        f"warning: {file}, line 3: reserved is CPU 1 alone: for 1 CPU write count:1",
        f"warning: {file}, line 7: the rule for name web, project shop is no container's now",
        f"ok: {file}, policy static",
    ]
    assert os.listdir(tmp_path) == ["c.toml"]


def test_a_check_names_hooks_whose_programs_cannot_be_run(
    configured: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A doubt and no mistake: the program may come later. The daemon's start logs the same."""
    (tmp_path / "no-program").write_text("x")
    commands = ["/nowhere/tell", str(tmp_path), str(tmp_path / "no-program"), "/dev/null", sys.executable]
    told = [
        "there is no such file or directory",
        "it is a directory",
        "it is not executable for this user",
        "it is no file",
    ]
    (tmp_path / "c.toml").write_text("".join(f'[[hook]]\ncommand = ["{command}"]\n' for command in commands))
    assert main(configured) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == [
        f"warning: the hook {number} would fail: {command} cannot be run: {why}"
        for number, (command, why) in enumerate(zip(commands, told, strict=False), 1)
    ]


def test_without_an_engine_rules_are_not_checked(
    configured: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cmd_doctor, "ask_engine", lambda _: EngineReport(error="nothing there"))
    assert main(configured) == 0
    assert "warning: the engine does not answer: whether each rule" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--reserved", "4711"), "reserved is 4711, but 4711 is not on this machine"),
        (("--api-group", "no-such-group"), "there is no such group here"),
        (("--state-dir", f"/{'x' * 120}"), "choose a shorter state_dir"),
        (("--policy", "sttatic"), "did you mean 'static'?"),
    ],
)
def test_a_check_reports_mistakes(
    configured: list[str], words: tuple[str, str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*configured[:4], *words]) == 1
    assert told in capsys.readouterr().err


def test_what_prevents_serving_is_told_with_all_other_mistakes(
    configured: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line each, with its place: a flag, a line of the file, also where the file is no TOML, or a flag is unknown."""
    wrong = ["--api-group", "no-such-group", "--shortage", "wayt"]
    group = "the flag --api-group: api_group is 'no-such-group', and there is no such group here"
    assert main([*configured, *wrong]) == 1
    told = capsys.readouterr().err
    assert "the flag --shortage: shortage is 'wayt'; did you mean 'wait'?" in told
    assert group in told
    with pytest.raises(SystemExit):
        main([*configured, *wrong, "--chek"])
    assert group in capsys.readouterr().err
    (tmp_path / "c.toml").write_text('\napi_group = "no-such-group"\n')
    long = f"/{'x' * 120}"
    assert main([*configured[:4], "--state-dir", long]) == 1
    told = capsys.readouterr().err
    assert f"{tmp_path}/c.toml, line 2: api_group is 'no-such-group'" in told
    assert f"the flag --state-dir: {long}/api.sock has 130 bytes" in told
    (tmp_path / "c.toml").write_text("=\n")
    assert main([*configured, *wrong]) == 1
    told = capsys.readouterr().err
    assert "line 1: the configuration is not TOML" in told
    assert group in told


def test_a_check_names_a_notice_of_a_rule_that_is_cut(
    configured: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody else would read it before a container has that rule."""
    file = tmp_path / "c.toml"
    file.write_text(
        'policy = "dynamic"\nreserved = "0"\n[[rule]]\nmatch = { name = "db-*" }\nexclusive = 1\ngrace = "60s"\n'
    )
    assert main(configured) == 0
    warning = f"{file}, line 3: grace is 60 s, and tenants_longest_notice allows 20 s: its containers have that"
    assert f"warning: {warning}\n" in capsys.readouterr().out
    file.write_text(file.read_text() + '[tenants]\nlongest_notice = "60s"\n')
    assert main(configured) == 0
    assert "warning" not in capsys.readouterr().out


UNIT_RULES = """
policy = "static"
reserved = "0"
host_units = "auto"
[[rule]]
match = { unit = "postgres*.service" }
exclusive = 1
[[rule]]
match = { unit = "ssh.service" }
exclusive = 1
[[rule]]
match = { unit = "sshd" }
exclusive = 1
"""


def checked(configured: list[str], file: Path, text: str, root: Path) -> int:
    """Check this configuration, of which no rule is for containers: the engine is not asked."""
    file.write_text(text)
    return main([*configured, "--cgroup", str(root)])


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """Return the root of a v2 hierarchy with one service."""
    root = tmp_path / "cgroup"
    (root / "system.slice" / "postgresql@16.service").mkdir(parents=True)
    (root / "cgroup.controllers").write_text("cpuset cpu\n")
    return root


def test_a_check_compares_rules_of_units_with_those_of_the_host(
    configured: list[str],
    tmp_path: Path,
    units: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of one that can be no unit's it says why."""
    monkeypatch.setattr(cmd_doctor, "ask_engine", lambda _: EngineReport(error="nothing there"))
    file = tmp_path / "c.toml"
    assert checked(configured, file, UNIT_RULES, units) == 0
    why = "services and slices can ask, and their names end so"
    assert capsys.readouterr().out.splitlines() == [
        f"warning: {file}, line 11: the rule for unit sshd has no effect: {why}",
        f"warning: {file}, line 8: the rule for unit ssh.service is no unit's now",
        f"ok: {file}, policy static",
    ]


def test_a_check_says_that_rules_of_units_have_no_effect_where_none_is_confined(
    configured: list[str], tmp_path: Path, units: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = UNIT_RULES.replace('host_units = "auto"\n', "")
    assert checked(configured, tmp_path / "c.toml", text, units) == 0
    said = capsys.readouterr().out
    assert said.count('has no effect: host_units is off; set host_units = "auto"') == 3
    assert "no unit's now" not in said


def test_a_check_says_where_no_unit_is_visible(
    configured: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(configured, tmp_path / "c.toml", UNIT_RULES, tmp_path / "none") == 0
    assert "no units of systemd are visible here: whether each rule is some unit's" in capsys.readouterr().out
