"""install-runtime with the compiled front: it takes the place of the script, and gives it back."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sidecar.cli.doctor.front_checks import check_exec, check_fronts, wants_exec
from sidecar.cli.doctor.host_checks import Verdict
from sidecar.cli.setup import cmd_install_runtime
from sidecar.config.config import Config
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.settings import Rule
from sidecar.host.install.fronts import Front, front_files, installed_fronts, passing_files
from sidecar.host.install.runtime_files import Installation, Places, carry_out
from sidecar.words.around import fronts_told
from state.exec_rule import ExecRule, ExecWord
from tests.cli.setup.test_cmd_install_runtime import Host, host
from tests.support.host.front_program import compiled_front

__all__ = ["host"]

RUNTIME = "usr/local/bin/cpuset-runc"


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    found = compiled_front(tmp_path_factory.mktemp("front"))
    if found is None:
        pytest.skip("needs a C compiler and yajl: gcc, libc6-dev and libyajl-dev, as .ci/run installs them")
    return found


@pytest.fixture
def has_program(program: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an installation that has the program."""
    monkeypatch.setattr(cmd_install_runtime, "find_program", lambda: program)


def begins(host: Host) -> bytes:
    with open(host.root / RUNTIME, "rb") as file:
        return file.read(4)


@pytest.mark.usefixtures("has_program")
def test_it_takes_the_place_of_a_script_and_gives_it_back(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing else is written, and engines are told nothing new."""
    assert host.install("--front", "python") == 0
    assert begins(host) == b"#!/b"
    before = host.files()
    capsys.readouterr()
    assert host.install() == 0
    assert begins(host) == b"\x7fELF"
    assert capsys.readouterr().out.splitlines()[0] == f"written: /{RUNTIME}"
    after = host.files()
    assert {path for path in after if after[path] != before.get(path)} == {RUNTIME}
    assert host.install("--front", "python") == 0
    assert host.files() == before
    assert host.install("--remove") == 0
    assert not (host.root / RUNTIME).exists()


@pytest.mark.usefixtures("has_program")
def test_a_host_without_python_has_the_compiled_front(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """The hook needs one, and so does one that is named."""
    (host.root / "usr/bin/python3").unlink()
    assert host.install("--hook") == 1
    assert host.install("--python", "/opt/python3") == 1
    assert "the host has no" in capsys.readouterr().err
    assert host.install() == 0
    assert begins(host) == b"\x7fELF"


def test_one_that_is_wanted_and_not_here_is_an_error(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is written; without the wish the script stands there."""
    monkeypatch.setattr(cmd_install_runtime, "find_program", lambda: None)
    assert host.install("--front", "compiled") == 1
    assert "has no compiled front" in capsys.readouterr().err
    assert not (host.root / RUNTIME).exists()
    assert host.install() == 0
    assert begins(host) == b"#!/b"


def test_which_front_stands_before_which_runtime_is_told(program: bytes, tmp_path: Path) -> None:
    """By doctor and status; a front that only passes on asks nobody."""
    places = Places(str(tmp_path))
    assert installed_fronts("/", places) == {}
    assert list(check_fronts({}, has_program=True)) == []
    compiled, script = (
        Installation(real="/r", python="/p", socket="/s", projections="", patience=1, program=each)
        for each in (program, None)
    )
    for made, name in ((compiled, "runc"), (script, "nvidia")):
        carry_out("/", list(front_files(places, made, Front(engine="docker", name=name, real="/r"))))
    gone = Front(engine="podman", name="crun", real="/r", passing_since="2026-01-01")
    carry_out("/", list(passing_files(places, gone)))
    found = installed_fronts("/", places)
    assert found == {"nvidia (docker)": False, "runc (docker)": True}
    told = "the compiled front stands before runc (docker); the front in Python stands before nvidia (docker)"
    assert fronts_told(found) == told
    slow, usual = check_fronts(found, has_program=True), check_fronts(found, has_program=False)
    assert [(each.verdict, each.says) for each in (*slow, *usual)] == [(Verdict.WARN, told), (Verdict.OK, told)]


def test_a_host_without_a_front_is_warned_that_exec_begins_anywhere() -> None:
    """Where a label, a rule or the node says where; and where the kernel forgets it. Elsewhere nothing is said."""
    front, new, old = {"runc": True}, "6.2.0-1-amd64", "6.1.0-18-amd64"
    assert list(check_exec({}, old, is_wanted=False)) == []
    assert list(check_exec(front, new, is_wanted=True)) == []
    assert [each.verdict for each in check_exec({}, new, is_wanted=True)] == [Verdict.WARN]
    assert list(check_exec({}, new, is_wanted=True, is_elsewhere=True)) == []
    (kernel,) = check_exec(front, old, is_wanted=True)
    assert "6.2" in kernel.says
    view = ContainerView(id="a" * 64, name="web", phase=Phase.RUNNING)
    labelled = msgspec.structs.replace(view, labels={"cpuset.exec": "last"})
    ruled = Config(rules=(Rule(name="*", labels={"cpuset.exec": "last"}),))
    node = Config(exec=ExecRule(ExecWord.LAST))
    wanted = [wants_exec(config, (each,)) for config in (Config(), ruled, node) for each in (view, labelled)]
    assert wanted == [False, True, True, True, True, True]
