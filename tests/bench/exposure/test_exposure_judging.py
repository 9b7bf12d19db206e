"""The judge of exposure sees a planted newcomer, and its arithmetic is right."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.bench.exposure.judging import (
    ON,
    RUNTIME,
    Judge,
    Note,
    Notes,
    added,
    exposure_of,
    judge,
    read_notes,
)
from tests.live.waiting import eventually

MS = 1_000_000
ID = "0123456789abcdef" * 4


def seen(*notes: tuple[int, int, str], ended: int = 100) -> Notes:
    """Return notes of a judge that looked from 0 to `ended`; all times in milliseconds."""
    return Notes(0, ended * MS, 10, MS, tuple(Note(at * MS, state, group) for at, state, group in notes))


def test_several_at_once_add_up() -> None:
    """Two newcomers for half of the time each, of which a quarter together: 100 %, and 75 % with at least one."""
    found = exposure_of(seen((0, 1, "a"), (25, 1, "b"), (50, 0, "a"), (75, -1, "b")))
    assert (found.percent, found.any_percent, found.ever, found.newcomers, found.longest_ms) == (100, 75, 2, 2, 50)


def test_the_owner_is_no_newcomer() -> None:
    """Its own stay counts nothing; one beside it that never was on its CPU is counted as a newcomer."""
    found = exposure_of(seen((0, 2, "docker-owner.scope"), (5, 0, "plain")), but=("owner",))
    assert (found.percent, found.ever, found.newcomers) == (0, 0, 1)


def test_what_still_stays_counts_to_the_end_and_what_was_before_from_then() -> None:
    assert exposure_of(seen((90, 1, "late"))).percent == 10
    assert exposure_of(seen((0, 1, "old"), (10, 0, "old")), since=50 * MS).percent == 0
    assert exposure_of(seen((0, 1, "on")), since=50 * MS).percent == 100


def test_another_state_on_the_cpu_is_the_same_stay() -> None:
    """First on all CPUs, then on this one alone: one stay."""
    assert exposure_of(seen((0, 1, "a"), (10, 2, "a"), (20, 0, "a"))).longest_ms == 20


def test_one_that_had_gone_and_is_there_again_has_returned() -> None:
    """Its group has the same name. The owner is not asked for, and one that only went has not."""
    found = seen((0, 0, "a"), (0, 2, "owner"), (0, 1, "b"), (5, -1, "a"), (5, -1, "owner"), (6, -1, "b"), (9, 0, "a"))
    assert found.returned(but=("owner",)) == {"a"}
    assert seen((0, 0, "a"), (0, 2, "owner"), (5, -1, "owner"), (9, 2, "owner")).returned() == {"owner"}


def test_times_are_weighted_by_their_length() -> None:
    short, long = exposure_of(seen((0, 1, "a"))), exposure_of(seen())
    assert added([(1.0, short), (3.0, long)]).percent == 25


def test_alone_is_since_the_last_other_left_and_the_arrival_is_nowhere_else() -> None:
    """None while another one may run there, or the arrival elsewhere."""
    arrived = (10, 1, "new"), (20, 2, "new"), (0, 1, "old")
    assert seen(*sorted(arrived)).alone_at("new") is None
    assert seen(*sorted((*arrived, (30, 0, "old")))).alone_at("new") == 30 * MS
    assert seen(*sorted((*arrived, (15, -1, "old")))).alone_at("new") == 20 * MS
    assert seen((10, 1, "new")).alone_at("new") is None


def test_notes_without_an_end_are_refused() -> None:
    with pytest.raises(ValueError, match="did not finish"):
        read_notes(["5 0 begin", "6 1 a"])


@pytest.mark.skipif(not shutil.which("gcc"), reason="there is no gcc")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU")
def test_a_planted_newcomer_is_seen(tmp_path: Path) -> None:
    """Each of its states: on the CPU among others, there alone, elsewhere, and gone; no other group is taken for it."""
    here = sorted(os.sched_getaffinity(0))
    owned = here[-1]
    parent = tmp_path / "parent"
    parent.mkdir()
    planted = subprocess.Popen(["sleep", "60"])
    try:
        eventually(lambda: Path(f"/proc/{planted.pid}/status").exists(), "it lives")
        for name in ("docker-planted", "docker-empty", "elsewhere"):
            (parent / name).mkdir()
            (parent / name / "tasks").write_text(f"{planted.pid}\n" if name != "docker-empty" else "")
        with judge(tmp_path, owned, parent, "docker-") as judging:
            for cpus, state in ((set(here), 1), ({owned}, 2), ({here[0]}, 0)):
                os.sched_setaffinity(planted.pid, cpus)
                eventually(partial(_is_seen, judging, state), f"state {state}")
            shutil.rmtree(parent / "docker-planted")
            eventually(partial(_is_seen, judging, -1), "it is gone")
            notes = judging.end()
    finally:
        planted.kill()
        planted.wait()
    assert [each.state for each in notes.notes if each.group == "docker-planted"] == [1, 2, 0, -1]
    assert notes.groups() == {"docker-planted"}
    assert 0 < exposure_of(notes).percent < 100


@pytest.mark.skipif(not shutil.which("gcc"), reason="there is no gcc")
def test_a_runtime_is_no_contradiction_and_depth_hides_nothing(tmp_path: Path) -> None:
    """A runtime in a group of its container's, below a pod's; then the container; and a monitor, which is not read."""
    deep, monitor = f"pod.slice/libpod-{ID}.scope/container", f"pod.slice/libpod-conmon-{ID}.scope"
    runtime = Path(shutil.copy(shutil.which("sleep") or "", tmp_path / "runc"))
    cpu = max(os.sched_getaffinity(0))
    running = [subprocess.Popen([program, "60"]) for program in (str(runtime), "sleep")]
    try:
        for name in (deep, monitor):
            (tmp_path / "parent" / name).mkdir(parents=True)
            (tmp_path / "parent" / name / "tasks").write_text(f"{running[0].pid}\n")
        with judge(tmp_path, cpu, tmp_path / "parent") as judging:
            eventually(lambda: judging.states_of(deep)[-1:] == [RUNTIME], "the runtime is seen")
            (tmp_path / "parent" / deep / "tasks").write_text(f"{running[0].pid}\n{running[1].pid}\n")
            eventually(lambda: judging.states_of(deep)[-1:] == [ON], "the container is seen")
            notes = judging.end()
    finally:
        for each in running:
            each.kill()
            each.wait()
    assert (notes.notes[0].state, notes.notes[-1].state) == (RUNTIME, ON)
    assert notes.contradictions() == notes.groups() == {deep}
    assert notes.contradictions(but=(ID,)) == frozenset()


@pytest.fixture
def nested(tmp_path: Path) -> Iterator[Callable[[int], int]]:
    """A function that nests so many groups in a container's, all but the last one empty, and opens the last one."""
    parent = tmp_path / "parent"

    def nest(levels: int) -> int:
        (parent / ID).mkdir(parents=True)
        fd = os.open(parent / ID, os.O_DIRECTORY)
        for _ in range(levels):
            # No path leads there: it would be too long.
            os.close(os.open("tasks", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
            os.mkdir("nested", dir_fd=fd)
            above, fd = fd, os.open("nested", os.O_DIRECTORY, dir_fd=fd)
            os.close(above)
        return fd

    yield nest
    # Python's own removal of trees needs a path.
    subprocess.run(["rm", "-rf", str(parent)], check=True)


@pytest.mark.skipif(not shutil.which("gcc"), reason="there is no gcc")
def test_a_newcomer_that_is_nested_very_deep_is_seen(nested: Callable[[int], int], tmp_path: Path) -> None:
    """Deeper than a path is long, and than descriptors that a process may open by default."""
    cpu = max(os.sched_getaffinity(0))
    planted = subprocess.Popen(["sleep", "60"])
    try:
        last = nested(1500)
        with open(os.open("tasks", os.O_CREAT | os.O_WRONLY, dir_fd=last), "w") as tasks:
            tasks.write(f"{planted.pid}\n")
        os.close(last)
        with judge(tmp_path, cpu, tmp_path / "parent") as judging:
            eventually(lambda: ON in judging.states_of(ID), "it is seen")
            notes = judging.end()
    finally:
        planted.kill()
        planted.wait()
    [seen_there] = notes.contradictions()
    assert seen_there == "/".join([ID, *["nested"] * 1500])


@pytest.mark.skipif(not shutil.which("gcc"), reason="there is no gcc")
def test_what_cannot_be_read_is_no_verdict(nested: Callable[[int], int], tmp_path: Path) -> None:
    """Groups below any depth that the judge can read: it says so, and its notes are refused."""
    os.close(nested(8001))
    with judge(tmp_path, 0, tmp_path / "parent") as judging:
        eventually(lambda: not judging.is_running, "it ends by itself")
        with pytest.raises(RuntimeError, match="nested too deep"):
            judging.end()


def _is_seen(judging: Judge, state: int) -> bool:
    return judging.states_of("planted")[-1:] == [state]
