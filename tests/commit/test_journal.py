"""The journal: every fact, in order, in bounded space."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.commit.journal import NAME, PREVIOUS, VERSION, Journal, WorldLine, read_journal
from sidecar.decide.facts import (
    ContainerSeen,
    ContainerView,
    CpusetApplied,
    CpusetFailed,
    EngineDisconnected,
    Fact,
    Failure,
    Phase,
    RetryDue,
    SettingsChanged,
    TopologyRead,
)
from sidecar.failures import StateUnwritable
from state.cpuset import CPUSet
from state.errors import StateError
from state.topology import uniform
from tests.support.keys import docker

SEEN = ContainerView(engine="docker", id="a" * 64, name="voice", phase=Phase.RUNNING, effective=CPUSet.parse("0-3"))

FACTS: tuple[Fact, ...] = (
    TopologyRead(uniform(packages=2, cores=4, threads=2)),
    ContainerSeen(
        ContainerView(engine="docker", id="a" * 64, name="voice", phase=Phase.RUNNING, effective=CPUSet.parse("0-3")), 4
    ),
    CpusetApplied(docker("a" * 64), 3, CPUSet.of(2), 9),
    CpusetFailed(docker("a" * 64), 3, Failure.LOST, "too slow", 9),
    EngineDisconnected("the daemon said goodbye"),
    SettingsChanged({"policy": "dynamic", "reserved_count": 1, "options": ["full-pcpus-only"], "band": {"low": 0.5}}),
)


class Worlds:
    """A World that is a number: how many facts it has seen."""

    def __init__(self) -> None:
        self.seen = 0

    def now(self) -> bytes:
        return b'{"seen":%d}' % self.seen


@pytest.fixture
def worlds() -> Worlds:
    return Worlds()


@pytest.fixture
def journal(tmp_path: Path, worlds: Worlds) -> Iterator[Journal]:
    with Journal(tmp_path) as opened:
        opened.start_with(worlds.now)
        yield opened


def due(number: int) -> RetryDue:
    return RetryDue(docker(f"{number:064x}"), number)


def world(seen: int) -> WorldLine:
    return WorldLine(msgspec.Raw(b'{"seen":%d}' % seen))


def shown(path: Path) -> list[object]:
    """Return the content of a file: worlds as their numbers of facts, and the facts of each burst."""
    found: list[object] = []
    for line in read_journal(path):
        found += [msgspec.json.decode(line.world)["seen"]] if isinstance(line, WorldLine) else line
    return found


def test_facts_come_back_in_order_after_the_world_before_them(journal: Journal, tmp_path: Path) -> None:
    journal.append(FACTS[:2])
    journal.append(FACTS[2:])
    journal.append([])
    assert shown(tmp_path / NAME) == [0, *FACTS]
    assert [len(line) for line in read_journal(tmp_path / NAME) if not isinstance(line, WorldLine)] == [
        2,
        len(FACTS) - 2,
    ]
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600


def test_each_batch_is_with_the_kernel_when_append_returns(journal: Journal, tmp_path: Path) -> None:
    journal.append(FACTS[:1])
    assert (tmp_path / NAME).read_bytes().count(b"\n") == 2


def test_a_journal_without_a_world_writes_nothing(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal, pytest.raises(StateUnwritable, match="begin with a World"):
        journal.append(FACTS)
    assert not (tmp_path / NAME).read_bytes()


def test_a_restart_goes_on_in_the_same_file_with_a_world(journal: Journal, tmp_path: Path) -> None:
    journal.append(FACTS[:1])
    journal.close()
    with Journal(tmp_path) as again:
        again.start_with(lambda: b'{"seen":7}')
        again.append(FACTS[1:])
    assert shown(tmp_path / NAME) == [0, FACTS[0], 7, *FACTS[1:]]


@given(sizes=st.lists(st.integers(1, 8), min_size=1, max_size=60), limit=st.integers(1, 4000))
def test_files_stay_bounded_and_nothing_recent_is_lost(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], limit: int
) -> None:
    """Every file begins with the World before its facts; what is kept is the unbroken end of the history."""
    directory = tmp_path_factory.mktemp("journal")
    worlds, batches = Worlds(), []
    with Journal(directory, limit) as journal:
        journal.start_with(worlds.now)
        for size in sizes:
            batch = [due(worlds.seen + n) for n in range(size)]
            journal.append(batch)
            worlds.seen += size
            batches.append(batch)
            assert (directory / NAME).stat().st_size <= max(limit, 60 + 140 * size)
    kept = [line for name in (PREVIOUS, NAME) if (directory / name).exists() for line in read_journal(directory / name)]
    facts = [fact for line in kept if not isinstance(line, WorldLine) for fact in line]
    history = [fact for batch in batches for fact in batch]
    assert facts == history[-len(facts) :]
    at = len(history) - len(facts)
    for line in kept:
        if isinstance(line, WorldLine):
            assert line == world(at)
        else:
            at += len(line)


def test_a_burst_beyond_the_limit_does_not_push_out_the_file_before_for_an_empty_one(
    tmp_path: Path, worlds: Worlds
) -> None:
    (tmp_path / PREVIOUS).write_bytes(b"history")
    with Journal(tmp_path, 10) as journal:
        journal.start_with(worlds.now)
        journal.append(FACTS)
    assert (tmp_path / PREVIOUS).read_bytes() == b"history"


def test_a_torn_last_line_is_left_out_and_cut_off_at_the_next_start(
    journal: Journal, tmp_path: Path, worlds: Worlds
) -> None:
    journal.append(FACTS[:1])
    journal.append(FACTS[1:])
    journal.close()
    whole = (tmp_path / NAME).read_bytes()
    for torn in (whole[:-1], whole[:-20], whole + b'{"type":', whole + b"x" * 200_000):
        (tmp_path / NAME).write_bytes(torn)
        assert shown(tmp_path / NAME)[:2] == [0, FACTS[0]]
        with Journal(tmp_path) as again:
            again.start_with(lambda: b'{"seen":9}')
            again.append([due(1)])
        assert shown(tmp_path / NAME)[-2:] == [9, due(1)]


def test_a_bad_line_in_the_middle_is_named(journal: Journal, tmp_path: Path) -> None:
    journal.append(FACTS)
    lines = (tmp_path / NAME).read_bytes().splitlines(keepends=True)
    for bad in (b"rubbish\n", b"\xff\n", b'{"type":"Unheard"}\n', b'{"version":%d,"world":\n' % VERSION):
        (tmp_path / NAME).write_bytes(b"".join([*lines[:2], bad, *lines[2:]]))
        with pytest.raises(StateError, match="line 3: not a fact"):
            list(read_journal(tmp_path / NAME))


def test_facts_that_could_not_be_written_are_followed_by_a_world(
    journal: Journal, tmp_path: Path, worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon goes on; a replay begins again after the gap. A disk fills up in the middle of a line."""
    journal.append(FACTS[:2])
    worlds.seen = 2
    real = os.write
    left = 30

    def fills_up(opened: int, content: bytes) -> int:
        nonlocal left
        if left == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(opened, bytes(content)[:left])
        left -= written
        return written

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fills_up)
        for _ in range(2):
            with pytest.raises(StateUnwritable, match="no space left"):
                journal.append(FACTS[2:3])
    assert shown(tmp_path / NAME) == [0, *FACTS[:2]]
    worlds.seen = 3
    journal.append(FACTS[3:])
    assert shown(tmp_path / NAME) == [0, *FACTS[:2], 3, *FACTS[3:]]


@pytest.mark.parametrize("what", ["file", "directory", "directory, with a file in its place for a while"])
def test_a_deleted_journal_is_made_again(tmp_path: Path, worlds: Worlds, what: str) -> None:
    """It begins with a World: earlier facts are gone."""
    folder = tmp_path / "state"
    with Journal(folder) as journal:
        journal.start_with(worlds.now)
        journal.append(FACTS[:2])
        (folder / NAME).unlink()
        if what != "file":
            folder.rmdir()
        if what.endswith("while"):
            folder.touch()
            for _ in range(2):
                with pytest.raises(StateUnwritable, match="is there"):
                    journal.append(FACTS[:2])
            folder.unlink()
        worlds.seen = 2
        journal.append(FACTS[2:3])
        worlds.seen = 3
        journal.append(FACTS[3:])
    assert shown(folder / NAME) == [2, *FACTS[2:3], *FACTS[3:]]


@pytest.mark.parametrize("call", ["open", "rename"])
def test_a_file_that_cannot_be_changed_over_is_told_and_tried_again(
    tmp_path: Path, worlds: Worlds, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fails(*args: object, **named: object) -> object:
        raise OSError(errno.EROFS, "Read-only file system")

    with Journal(tmp_path, 500) as journal:
        journal.start_with(worlds.now)
        for worlds.seen in range(3):
            journal.append([due(worlds.seen)])
        worlds.seen = 3
        with monkeypatch.context() as patched:
            patched.setattr(os, call, fails)
            with pytest.raises(StateUnwritable, match="read-only"):
                journal.append([due(n) for n in range(3, 6)])
        worlds.seen = 6
        journal.append([due(n) for n in range(6, 9)])
    assert shown(tmp_path / NAME) == [6, due(6), due(7), due(8)]
    assert shown(tmp_path / PREVIOUS)[0] == 0


def test_a_link_in_the_place_of_the_journal_is_not_written_through(tmp_path: Path, worlds: Worlds) -> None:
    (tmp_path / "target").write_text("untouched")
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / NAME).symlink_to(tmp_path / "target")
    with Journal(tmp_path / "state") as journal:
        journal.start_with(worlds.now)
        with pytest.raises(StateUnwritable, match="symbolic link"):
            journal.append(FACTS)
    assert (tmp_path / "target").read_text() == "untouched"
    with pytest.raises(StateUnwritable, match="is there"):
        Journal(tmp_path / "target")


def test_no_descriptor_is_left_open(tmp_path: Path, worlds: Worlds) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    with Journal(tmp_path, 300) as journal:
        journal.start_with(worlds.now)
        for number in range(20):
            journal.append([due(number)])
    journal.close()
    assert sorted(os.listdir("/proc/self/fd")) == before
