"""Loops of real programs on a kernel's cpuset, against a hand that hardly gets a CPU: they are told in time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sidecar.decide.orders import Answers
from sidecar.decide.wresting import MOST_UNDONE
from sidecar.hand import reflex_queue, watcher
from sidecar.hand.denials import _BIRTH_SECONDS
from sidecar.hand.urgency import Urgency
from sidecar.ports import GroupOverwritten, HandNews
from state.cpuset import CPUSet
from tests.support.hand.stages import FileStage, news_until, until, v1_stage
from tests.support.hand.writing_loops import Loops, build, writing

ONE: Final = "a" * 64
AT: Final = f"/docker/{ONE}"
ANSWERS: Final = Answers(others=CPUSet.of(0), owned=CPUSet.of(1))


def hesitate() -> Urgency:
    """Give the calling thread less of a CPU than the loops have."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 5)
    return Urgency.ORDINARY


@pytest.fixture(params=["the watcher", "the reflex"])
def stage(
    request: pytest.FixtureRequest, tmp_path: Path, reflex: str | None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FileStage]:
    """Yield the kernel's cpusets with a container whose birth is long ago, and a hand of a low priority."""
    if reflex is None:
        pytest.skip("needs a C compiler")
    for module in (watcher, reflex_queue):
        monkeypatch.setattr(module, "hurry", hesitate)
    with v1_stage(tmp_path, reflex if request.param == "the reflex" else None) as opened:
        opened.make("/docker")
        opened.begin()
        opened.hand.hold(ANSWERS)
        opened.make(AT)
        until(lambda: opened.cpus(AT) == "0")
        opened.grow_older()
        yield opened


def is_told(news: HandNews) -> bool:
    """Return whether no owner is alone beside the container from these news on."""
    return isinstance(news, GroupOverwritten) and (news.is_wrested or news.times >= MOST_UNDONE)


@pytest.mark.slow
@pytest.mark.parametrize(
    "loops",
    [
        pytest.param(Loops(1, 0, ("1",)), id="one"),
        pytest.param(Loops(2, 0, ("1",)), id="two"),
        pytest.param(Loops(6, 4_000, ("1",)), id="six that pause"),
        pytest.param(Loops(2, 0, ("1", "0")), id="two that write the right one in between"),
    ],
)
def test_a_loop_is_told_however_few_of_its_writes_are_counted(stage: FileStage, tmp_path: Path, loops: Loops) -> None:
    """Equal events are one, and a hand that waits for a CPU undoes few: what they wrote stands meanwhile."""
    program = build(tmp_path)
    with writing(program, stage.root / AT[1:] / "cpuset.cpus", loops):
        news_until(stage.hand, is_told)
    until(lambda: stage.cpus(AT) == "0")


_WIDENING: Final = """
import sys, time
def write(path):
    try:
        with open(path + "/cpuset.cpus", "r+") as file:
            file.write("0-1")
    except OSError:
        pass
at, count = sys.argv[1], int(sys.argv[2])
while True:
    write(at)
    for number in range(count):
        write(f"{at}/{number}")
    time.sleep(0.05)
"""
"""Widens a group a few times in a second, and each time as many of those inside as it gets to."""


@pytest.mark.slow
def test_what_groups_inside_keep_standing_is_told_in_a_groups_first_seconds_too(stage: FileStage) -> None:
    """What a runtime writes there is undone at once."""
    for number in range(200):
        stage.make(f"{AT}/{number}")
    for group in stage.hand._table.groups():
        group.born_at = time.monotonic()
    widening = subprocess.Popen([sys.executable, "-c", _WIDENING, str(stage.root / AT[1:]), "200"])
    try:
        began = time.monotonic()
        told = news_until(stage.hand, lambda each: isinstance(each, GroupOverwritten))
        took = time.monotonic() - began
    finally:
        widening.kill()
        widening.wait()
    [last] = [each for each in told if isinstance(each, GroupOverwritten)]
    assert last.is_wrested
    assert took < _BIRTH_SECONDS
    until(lambda: stage.cpus(AT) == "0")


def test_a_persons_updates_are_no_loop(stage: FileStage) -> None:
    """Twenty in a row, each undone before the next one, and each seldom late."""
    for _ in range(20):
        stage.overwrite(AT, "1")
        until(lambda: stage.cpus(AT) == "0")
        time.sleep(0.05)
    told = news_until(stage.hand, lambda each: isinstance(each, GroupOverwritten))
    assert not any(is_told(each) for each in told)
