"""The matrix' own machinery: groups, command lines, counts, and the message without a machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.vm.__main__ import chosen, main
from tests.vm.groups import GROUPS
from tests.vm.machine import ROOT, Machine, NoMachines, command_line, find_vmrun
from tests.vm.outcomes import Case, Ran, cells, read_junit, table
from tests.vm.running import run
from tests.vm.share import requirements

JUNIT = """<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="tests.live.test_hotplug" name="test_a" time="3.5"/>
<testcase classname="tests.live.test_hotplug" name="test_b" time="1"><failure message="assert 1 == 2"/></testcase>
<testcase classname="tests.live.test_strict_start" name="test_c" time="0"><skipped message="no runtime"/></testcase>
<testcase classname="" name="tests.live.test_gone" time="0"><error message="collection failure"/></testcase>
</testsuite></testsuites>
"""


def test_each_group_is_called_once_and_fits_its_machine() -> None:
    """A name chooses it; both drivers are there; most machines have sockets, nodes and threads."""
    assert len({group.name for group in GROUPS}) == len(GROUPS)
    assert {group.machine.driver for group in GROUPS} == {"systemd", "cgroupfs"}
    large = [m for m in (group.machine for group in GROUPS) if m.sockets >= 2 and m.nodes >= 2 and m.threads >= 2]
    assert len(large) > len(GROUPS) / 2


def test_files_of_groups_are_there() -> None:
    """Except those of features that may be missing as a whole: these are patterns."""
    missing = [test for group in GROUPS for test in group.tests if "*" not in test and not (ROOT / test).exists()]
    assert missing == []


def test_groups_are_chosen_by_the_beginning_of_their_names() -> None:
    """All if none is given, none twice, and an unknown name is an error with the right ones."""
    assert chosen([]) == list(GROUPS)
    assert [group.name for group in chosen(["podman-ho", "podman-hotplug"])] == ["podman-hotplug"]
    assert [group.name for group in chosen(["docker-han"])] == ["docker-hand", "docker-hand-cgroupfs"]
    assert [group.name for group in chosen(["docker-hand"])] == ["docker-hand"]
    with pytest.raises(LookupError, match="no group is called nothing; there are: topology, "):
        chosen(["nothing"])
    assert main(["nothing"]) == 2


def test_a_command_line_says_the_machine_the_share_and_the_command(tmp_path: Path) -> None:
    """The command is one word, quoted for the machine's shell."""
    line = command_line(
        "/x/vmrun",
        Machine(append="maxcpus=4", init="tiny"),
        share=tmp_path,
        out=tmp_path / "out",
        seconds=300,
        inside=["env", "A=b c", "sh", "x.sh"],
    )
    assert line[:3] == ["/x/vmrun", "--smp", "sockets=2,cores=2,threads=2"]
    assert line[line.index("--append") + 1] == "maxcpus=4"
    assert line[line.index("--share") + 1] == f"{tmp_path}:/share"
    assert line[-2:] == ["--", "env 'A=b c' sh x.sh"]


def test_junit_files_are_counted_by_feature(tmp_path: Path) -> None:
    """Failures keep their reason, and a file that cannot be imported is one."""
    (tmp_path / "junit.xml").write_text(JUNIT)
    cases = read_junit(tmp_path / "junit.xml")
    assert [(case.feature, case.outcome, case.reason) for case in cases] == [
        ("hotplug", "passed", ""),
        ("hotplug", "failed", "assert 1 == 2"),
        ("strict start", "skipped", "no runtime"),
        ("gone", "failed", "collection failure"),
    ]
    assert read_junit(tmp_path / "none.xml") == ()


def test_the_table_has_a_line_a_feature_and_a_column_an_engine() -> None:
    """With its cgroup version and driver; a dash where nothing ran."""
    one = (Case("test_hotplug", "a", "passed"), Case("test_hotplug", "b", "skipped"), Case("test_slice", "c", "failed"))
    two = (Case("test_hotplug", "a", "passed"),)
    ran = [
        Ran(group="x", engine="D", cgroup="v2", driver="systemd", seconds=1, code=1, cases=one),
        Ran(group="y", engine="P", cgroup="v2", driver="cgroupfs", seconds=1, code=0, cases=two),
    ]
    assert str(cells(ran)[("D", "v2", "systemd")]["hotplug"]) == "1 passed, 1 skipped"
    assert table(ran).splitlines() == [
        "| feature | D, v2, systemd | P, v2, cgroupfs |",
        "| --- | --- | --- |",
        "| hotplug | 1 passed, 1 skipped | 1 passed |",
        "| shared slice | **1 failed** | - |",
    ]
    assert [each.is_good for each in ran] == [False, True]


def _program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_group_that_ran_and_one_whose_machine_died(tmp_path: Path) -> None:
    """By a program in vmrun's place: its results are read, and its errors are reported."""
    good = _program(
        tmp_path / "good",
        'while [ "$1" != --out ]; do shift; done; mkdir -p "$2"\n'
        f"cat >\"$2/junit.xml\" <<'E'\n{JUNIT}E\necho seen; exit 1",
    )
    done = run(str(good), GROUPS[0], tmp_path, tmp_path / "logs")
    assert (len(done.cases), done.problem, done.code, done.is_good) == (4, "", 1, False)
    assert (tmp_path / f"logs/{GROUPS[0].name}.log").read_text() == "seen\n"
    dead = _program(tmp_path / "dead", "echo 'vmrun: the guest died' >&2; exit 125")
    done = run(str(dead), GROUPS[0], tmp_path, tmp_path / "logs")
    assert done.problem == "it ended with 125: vmrun: the guest died"
    late = _program(tmp_path / "late", "exit 124")
    assert run(str(late), GROUPS[0], tmp_path, tmp_path / "logs").problem == "it took too long, and was interrupted"


@pytest.mark.parametrize("code", [0, 1])
def test_a_group_that_was_interrupted_is_not_whole(tmp_path: Path, code: int) -> None:
    """Whatever pytest ends with: an error while it cleans up changes the code. The test cut off has no name."""
    cut = JUNIT.replace("</testsuite></testsuites>", '<testcase time="73.8"/></testsuite></testsuites>')
    program = _program(
        tmp_path / "cut",
        'while [ "$1" != --out ]; do shift; done; mkdir -p "$2"\n'
        f"cat >\"$2/junit.xml\" <<'E'\n{cut}E\necho '!!!!!! KeyboardInterrupt !!!!!!'; exit {code}",
    )
    done = run(str(program), GROUPS[0], tmp_path, tmp_path / "logs")
    assert (done.problem, done.is_good) == ("it took too long, and was interrupted", False)
    assert len(done.cases) == 4


def test_where_no_machine_can_be_had_a_sentence_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With a code of its own."""
    monkeypatch.setenv("VMRUN", str(tmp_path / "nothing"))
    with pytest.raises(NoMachines, match=r"VMRUN says .*nothing, which is no program"):
        find_vmrun()
    assert main(["topology"]) == 3
    assert "say where it is: VMRUN=/path/to/vmrun" in capsys.readouterr().err
    program = _program(tmp_path / "vmrun", "exit 0")
    monkeypatch.setenv("VMRUN", str(program))
    if os.geteuid() == 0:
        assert find_vmrun() == str(program)


def test_the_machines_need_no_developers_tools() -> None:
    """Only the tests' own requirements are downloaded, each by its digest."""
    names = {each.partition("==")[0] for each in requirements()}
    assert {"trio", "aiodocker", "pytest", "msgspec", "pyinotify", "pyasyncore"} <= names
    assert names.isdisjoint({"ruff", "mypy"})
    assert all("--hash=sha256:" in each for each in requirements())
