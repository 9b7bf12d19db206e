"""The page of `status`: a table, the problems below it, and a map; whole on any terminal and in a pipe."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from sidecar.__main__ import main
from sidecar.cli.cmd_status import USUAL_FRONTS, rendered, state_of
from sidecar.commit.state_lock import hold_lock
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import replace
from sidecar.host.install.runtime_files import Places
from sidecar.status.describe import status_of
from sidecar.status.document import ContainerStatus, HandStatus, SharingStatus
from sidecar.status.sight import GONE, UNSEEN, WORKS
from sidecar.status.status_file import write_status
from sidecar.status.status_lease import renew_status_lease
from sidecar.words.past import in_past
from state.cpuset import CPUSet
from state.topology import uniform
from tests.cli.test_commands import BUSY, leave
from tests.cli.worlds import container, world
from tests.support.decide.stories import Story

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def test_status_is_a_table_and_a_map() -> None:
    """Plain text, exactly this."""
    lines = rendered(status_of(BUSY, updated_at="2026-03-04T05:06:02Z"), NOW, WORKS)
    assert max(map(len, lines)) <= 100
    assert [*lines[:8], *lines[10:]] == [
        "policy static on docker 26.1.5 | reserved 0 | shared 0,3 | exclusive 1-2",
        "the daemon is running; the last change was 5 s ago",
        "",
        "   NAME  ID            KIND       CPUS  STATE",
        "   big   626967000000  shared     0,3   settled; refused",
        "   log   6c6f67000000  shared     0,3   settled",
        "A  web   776562000000  exclusive  1-2   settled, alone; quota lifted",
        "",
        "",
        "socket 0   [0r] [1A] [2A] [3.]",
        "",
        "A web   . shared   r reserved, shared",
    ]
    assert " ".join(line.strip() for line in lines[8:10]).startswith(
        "problem: big: refused: asked for 5 exclusive CPUs, "
    )
    assert lines[9].startswith("    ")


def test_fronts_are_looked_for_where_they_are_installed() -> None:
    places = Places()
    assert (places.runtime, str(Path(places.front_record("docker", "runc")).parents[1])) == USUAL_FRONTS


def test_a_narrow_status_has_whole_problems_and_no_ids() -> None:
    """At 80 columns no line is longer, no word of a refusal is missing, and the header breaks between its parts."""
    long = "a-name-of-" + "many-" * 20 + "letters"
    views = [container(long, exclusive=1, labels={"cpuset.numa": "singlee"}), container("big", exclusive=9)]
    status = status_of(world(uniform(cores=16), *views))
    status = replace(status, reserved=CPUSet.parse("0,2,4,6,8,10,12"), shared=CPUSet.parse("1,3,5,7,9,11,13,15"))
    lines = rendered(status, NOW, WORKS, width=80)
    assert max(map(len, lines)) <= 80
    assert lines[:2] == [
        "policy static on docker 26.1.5 | reserved 0,2,4,6,8,10,12",
        f"shared 1,3,5,7,9,11,13,15 | exclusive {status.exclusive or 'none'}",
    ]
    assert "ID" not in lines[4].split()
    text = "".join(line.strip() for line in lines)
    for each in status.containers:
        assert each.refusal.replace(" ", "") in text.replace(" ", "")
        assert each.name in text.replace(" ", "")


def test_nothing_is_cut_or_wrapped_in_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever COLUMNS is: a program reads whole lines."""
    long = "x" * 150
    leave(tmp_path, world(uniform(cores=4), container(long, exclusive=9), container("other", exclusive=9)))
    refusals = [each.refusal for each in status_of(world(uniform(cores=4), container("other", exclusive=9))).containers]
    for command in (["status"], ["status", "--problems"], ["top", "--once"], ["state"]):
        main([*command, "--state-dir", str(tmp_path)])
        lines = capsys.readouterr().out.splitlines()
        told = refusals[0] if command == ["state"] else in_past(refusals[0])
        assert any("other" in line and told in line for line in lines), command
        assert any(long in line for line in lines), command


def test_containers_are_in_the_natural_order_of_their_names() -> None:
    """`svc-2` is before `svc-10`, in the table and wherever a sentence lists names."""
    names = [f"svc-{number}" for number in (1, 10, 11, 2, 3)]
    status = status_of(
        world(uniform(cores=6), *(container(name, exclusive=1) for name in names), container("z", exclusive=5))
    )
    assert [each.name for each in status.containers] == ["svc-1", "svc-2", "svc-3", "svc-10", "svc-11", "z"]
    assert "held by svc-1, svc-2, svc-3" in status.containers[-1].refusal


def test_problems_alone_have_an_exit_code_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """3 with problems and 0 without; 1 without a daemon, as always."""
    leave(tmp_path, BUSY)
    command = ["status", "--problems", "--state-dir", str(tmp_path)]
    with hold_lock(str(tmp_path)):
        renew_status_lease(tmp_path, time.time())
        assert main(command) == 3
        [line] = capsys.readouterr().out.splitlines()
        assert line.startswith("problem: big: refused: asked for 5 exclusive CPUs")
        assert main([*command, "--json"]) == 3
        [told] = json.loads(capsys.readouterr().out)
        assert (told["kind"], told["container"]) == ("refused", "big")
        write_status(tmp_path, status_of(world(uniform(cores=2), container("log"))))
        assert main(command) == 0
        assert capsys.readouterr().out == ""
    assert main(command) == 1


def test_every_live_container_has_words_on_its_state() -> None:
    """Also one that is where it should be before the engine has recorded it, and what is never moved."""
    base = ContainerStatus(id="a", name="a", phase="running", sharing=SharingStatus.SHARED)
    one, two = CPUSet.parse("1"), CPUSet.parse("2")
    told = {
        "in place, to be recorded by the engine": replace(base, cpus=one, desired=one),
        "to move to 2": replace(base, cpus=one, desired=two),
        "in place, not yet settled": replace(base, cpus=one, desired=one, sharing=SharingStatus.EXCLUSIVE),
        "on its way to 2": replace(base, cpus=one, desired=two, pending=two),
        "pinned by hand": replace(base, sharing=SharingStatus.STRANGER, is_settled=True),
        "left alone": replace(base, sharing=SharingStatus.UNMANAGED, is_settled=True),
        # Its order only has the engine record what the hand guards.
        "settled, alone": replace(
            base, sharing=SharingStatus.EXCLUSIVE, cpus=one, pending=one, is_settled=True, is_alone=True
        ),
    }
    assert {said: state_of(each, NOW) for said, each in told.items()} == {said: said for said in told}


def test_a_template_of_a_daemon_that_is_gone_has_the_words_of_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Claims are withdrawn, and the state is told as what was; by all commands."""
    leave(tmp_path, BUSY)
    said = "web=was settled, alone; quota lifted=false"
    for command in (["status"], ["top", "--once"], ["explain", "web"]):
        words = [*command, "--state-dir", str(tmp_path), "--format", "{{.Name}}={{.State}}={{.Alone}}"]
        assert main(words) == 1
        assert said in capsys.readouterr().out.splitlines()
    assert main(["status", "--state-dir", str(tmp_path), "--format", "{{.Name}}={{.State}}"]) == 1
    assert "big=was settled; refused" in capsys.readouterr().out.splitlines()


def test_status_says_when_the_daemon_is_gone() -> None:
    """Its last status with its age, and its problems."""
    status = status_of(BUSY, updated_at="2026-03-04T02:06:07+00:00", problems=("the disk is full",))
    lines = rendered(status, NOW, GONE)
    assert lines[1] == "THE DAEMON IS NOT RUNNING: this is its last state, 3 h old"
    assert "problem: the disk was full" in lines
    assert rendered(replace(status, is_ready=False), NOW, UNSEEN)[1].startswith(
        "the daemon was waiting for the engine 3 h"
    )
    assert rendered(replace(status, updated_at="?"), NOW, WORKS)[1].endswith("some time ago")


def test_status_tells_every_warning() -> None:
    """Their number in the table, and each in a line of its own below it; all of them are in `explain`, too."""
    odd = container("odd", labels={"cpuset.mems": "fllw", "cpuset.numa": "singlee"})
    status = status_of(world(uniform(cores=2), odd))
    lines = rendered(status, NOW, WORKS, width=200)
    assert [line for line in lines if " odd " in line and line.endswith("settled; 2 warnings")]
    assert "warning: odd: cpuset.numa is 'singlee'; did you mean 'single'?" in lines
    assert len([line for line in lines if line.startswith("warning: odd: ")]) == 2
    assert len([said for said in status.containers[0].explanation if said.startswith("Warning: ")]) == 2


def test_status_of_an_empty_host() -> None:
    """A host without containers is lawful."""
    assert "no containers" in rendered(status_of(world(uniform(cores=2))), NOW, WORKS)


def test_before_an_engine_was_looked_at_no_container_is_known() -> None:
    """The books may have grants: that nobody is there is not known."""
    status = msgspec.structs.replace(status_of(world(uniform(cores=2))), is_ready=False)
    assert "no container is known: no engine tells which there are" in rendered(status, NOW, WORKS)


def test_a_policy_of_none_leaves_no_refusal_and_no_half_sentence() -> None:
    """Recorded grants and refusals wait for another policy; until then nothing is refused, and nothing waits."""
    story = Story()
    story.arrive("own", 1)
    story.arrive("big", 9, labels={"cpuset.on-shortage": "wait"})
    story.settle()
    off = replace(story.world, settings=msgspec.structs.replace(story.world.settings, policy=PolicyName.NONE))
    status = status_of(off)
    assert [(each.refusal, each.turn) for each in status.containers] == [("", 0)] * 2
    assert status.waiting == 0
    rows = [line for line in rendered(status, NOW, WORKS) if "own" in line or "big" in line]
    assert rows
    assert not any("refused" in row or row.rstrip().endswith(";") for row in rows)


def test_one_line_says_whether_births_are_answered() -> None:
    """Below the headline; in the past tense if no daemon vouches for it, and missing where it is not known."""
    status = status_of(world(uniform(cores=2)))
    text = "the kernel first: the sidecar answers births below /docker"
    told = replace(status, hand=HandStatus(is_answering=True, parents=("/docker",), text=text))
    assert rendered(told, NOW, WORKS)[1] == text
    assert rendered(told, NOW, GONE)[1] == "the kernel first: the sidecar answered births below /docker"
    assert len(rendered(told, NOW, WORKS)) == len(rendered(status, NOW, WORKS)) + 1
