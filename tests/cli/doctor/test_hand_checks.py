"""What `doctor` says of births: whether and how fast they are answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.cli.doctor.daemon_process import AskedProcess
from sidecar.cli.doctor.hand_checks import (
    check_hand,
    check_modes,
    check_speed,
    missing_home,
    taken_parents,
    told_closed,
    tried_urgency,
)
from sidecar.cli.doctor.host_checks import Verdict
from sidecar.config.config import Config
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.world import replace
from sidecar.hand.reflex_queue import Library
from sidecar.hand.urgency import Urgency
from sidecar.status.document import HandStatus
from sidecar.words.hands import MOUNT, SWITCHED_OFF, no_hand, unwritable
from tests.support.hand.stages import v2_stage


def test_writable_cgroups_answer_births() -> None:
    """Nothing is to be done."""
    [finding] = check_hand(Config(), None)
    assert (finding.verdict, finding.cure) == (Verdict.OK, "")


def test_unwritable_cgroups_are_a_warning_with_the_mount() -> None:
    """The engine alone still works."""
    [finding] = check_hand(Config(), unwritable("/sys/fs/cgroup"))
    assert finding.verdict is Verdict.WARN
    assert MOUNT in finding.says
    assert "exclusive CPUs" in finding.cure


@pytest.mark.parametrize(
    "config", [Config(hand="off"), Config(hand="auto", shared_slice="a.slice")], ids=["off", "shared group"]
)
def test_what_was_chosen_is_no_warning(config: Config) -> None:
    """Whatever the cgroups are."""
    [finding] = check_hand(config, unwritable("/sys/fs/cgroup"))
    assert finding.verdict is Verdict.OK


def test_a_missing_capability_is_a_warning() -> None:
    """A missing reflex is told, and is none."""
    slow = list(check_speed(Library(None, is_there=False), Urgency.ORDINARY, AskedProcess()))
    assert [each.verdict for each in slow] == [Verdict.OK, Verdict.WARN]
    assert "CAP_SYS_NICE" in slow[1].says
    fast = list(check_speed(Library("reflex.so", is_there=True), Urgency.REAL_TIME, AskedProcess()))
    assert [each.verdict for each in fast] == [Verdict.OK, Verdict.OK]


def test_a_missing_right_to_pass_over_modes_is_a_warning(tmp_path: Path) -> None:
    """SYS_NICE alone, as files of one's own may have it."""
    status = tmp_path / "status"
    status.write_text(f"Name:\tx\nCapEff:\t{1 << 23:016x}\n")
    [finding] = check_modes(AskedProcess(str(tmp_path), 7, is_running=True))
    assert finding.verdict is Verdict.WARN
    assert "DAC_OVERRIDE" in finding.cure
    assert "process 7" in finding.says
    status.write_text(f"CapEff:\t{1 << 23 | 1 << 1:016x}\n")
    assert list(check_modes(AskedProcess(str(tmp_path), 7, is_running=True))) == []


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (AskedProcess(), "no daemon runs"),
        (AskedProcess(is_running=True), "not visible here"),
        (AskedProcess("/proc/7", 7, is_running=True), "process 7"),
    ],
    ids=["none", "hidden", "visible"],
)
def test_it_is_said_of_which_process_a_finding_speaks(asked: AskedProcess, says: str) -> None:
    """Else the rights of root at a terminal would pass for those of the daemon."""
    for urgency in (*Urgency, None):
        *_, finding = check_speed(Library("reflex.so", is_there=True), urgency, asked)
        assert says in finding.says


def test_the_daemons_word_on_its_hand_counts() -> None:
    """What this command could write says nothing of it. Taken parents have a finding of their own."""
    reason = unwritable("/sys/fs/cgroup")
    assert told_closed(HandStatus(is_answering=False, text=no_hand(reason)), Config()) == reason
    assert told_closed(HandStatus(is_answering=True, text="the kernel first: ..."), Config()) is None
    taken = HandStatus(is_answering=False, taken=("/docker",), text=no_hand("another sidecar"))
    assert told_closed(taken, Config()) is None
    off = HandStatus(is_answering=False, text=no_hand(SWITCHED_OFF))
    assert told_closed(off, Config(cgroup="/nowhere")) != SWITCHED_OFF


def test_a_reflex_of_another_version_is_a_warning() -> None:
    """The watcher answers instead, and a new installation mends it."""
    unfit = next(check_speed(Library(None, is_there=True), Urgency.REAL_TIME, AskedProcess()))
    assert unfit.verdict is Verdict.WARN
    assert "another version" in unfit.says
    assert "install" in unfit.cure


def test_a_parent_that_another_sidecar_watches_is_a_warning(tmp_path: Path) -> None:
    """It is found by its lock, where no daemon of ours has found it."""
    with v2_stage(tmp_path, None) as stage:
        stage.make("/docker")
        config = Config(cgroup=str(stage.root), hand="auto")
        assert taken_parents(config, "docker") == ()
        stage.begin()
        assert taken_parents(config, "docker") == ("/docker",)
    [finding] = check_hand(config, None, ("/docker",))
    assert finding.verdict is Verdict.WARN, "and no other line says that each birth is answered"
    assert "/docker" in finding.says
    assert "--cgroup-parent" in finding.cure


def test_a_configured_parent_that_is_not_there_is_a_warning(tmp_path: Path) -> None:
    """While containers run that name none: the engine makes its parent for the first of them."""
    running = ContainerView(id="a", name="a", phase=Phase.RUNNING)
    with v2_stage(tmp_path, None) as stage:
        stage.make("/second")
        there = Config(cgroup=str(stage.root), hand="/second")
        assert (
            missing_home(there, "docker") == missing_home(Config(cgroup=str(stage.root), hand="auto"), "docker") == ()
        )
        missing = missing_home(Config(cgroup=str(stage.root), hand="/nowhere"), "docker")
    assert missing == ("/nowhere",)
    [finding] = check_hand(Config(), None, missing=missing, views=[running])
    assert finding.verdict is Verdict.WARN
    assert "/nowhere" in finding.says
    assert "set `hand`" in finding.cure
    for views in ([], [replace(running, phase=Phase.EXITED)], [replace(running, cgroup_parent="/a")]):
        [finding] = check_hand(Config(), None, missing=missing, views=views)
        assert finding.verdict is Verdict.OK


def test_the_urgency_is_tried_in_a_thread_of_its_own() -> None:
    """Whatever is permitted here."""
    assert tried_urgency() in Urgency
