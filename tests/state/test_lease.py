"""When a lease counts, and how a reader finds that out."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from state import codec, files
from state.cpuset import CPUSet
from state.lease import AHEAD_SECONDS, LEASE_SECONDS, NAME, renewed_at, seconds_left
from state.projection import STATUS, Projection, read, read_with_lease
from state.watch import ProjectionWatch

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("age", "left"),
    [(0, 15), (14.5, 0.5), (15, 0), (1000, 0), (-AHEAD_SECONDS, 16), (-1.01, 0), (-1000, 0), (NOW, 0)],
)
def test_it_counts_for_its_seconds_and_never_from_the_future(age: float, left: float) -> None:
    """A workload that sets a time far ahead does not gain a lease for good."""
    assert seconds_left(NOW - age, 15.0, NOW) == pytest.approx(left)


def test_without_a_file_or_a_length_there_is_no_lease() -> None:
    assert seconds_left(None, 15.0, NOW) == seconds_left(NOW, None, NOW) == 0


def link(at: Path) -> None:
    (at.parent / "fresh").touch()
    (at / NAME).symlink_to(at.parent / "fresh")


@pytest.mark.parametrize(
    "plant",
    [link, lambda at: os.mkfifo(at / NAME), lambda at: (at / NAME).mkdir(), lambda at: None],
    ids=["link", "pipe", "directory", "nothing"],
)
def test_what_is_not_a_regular_file_is_no_lease(tmp_path: Path, plant: Callable[[Path], object]) -> None:
    """Whatever its time. Looking does not wait for the other end of a pipe."""
    (here := tmp_path / "here").mkdir()
    plant(here)
    with files.directory(here) as at:
        assert renewed_at(at) is None


def say(here: Path, cpus: str, *, lease_seconds: float | None = LEASE_SECONDS) -> None:
    projection = Projection(generation=1, cpus=CPUSet.parse(cpus), lease_seconds=lease_seconds)
    (here / STATUS).write_bytes(codec.encode(projection))


def renew(here: Path, seconds: float) -> None:
    (here / NAME).touch()
    os.utime(here / NAME, (seconds, seconds))


def test_a_reading_says_whether_it_is_vouched_for(tmp_path: Path) -> None:
    say(tmp_path, "2")
    assert not read(tmp_path).vouched
    renew(tmp_path, time.time())
    assert read(tmp_path).vouched
    renew(tmp_path, time.time() - LEASE_SECONDS - 1)
    assert not read(tmp_path).vouched


def test_a_file_cannot_say_of_itself_that_it_is_vouched_for(tmp_path: Path) -> None:
    (tmp_path / STATUS).write_text('{"cpus": "2", "vouched": true}')
    renew(tmp_path, time.time())
    assert not read(tmp_path).vouched


def test_files_of_a_version_without_leases_are_not_vouched_for(tmp_path: Path) -> None:
    say(tmp_path, "2", lease_seconds=None)
    renew(tmp_path, NOW)
    assert read_with_lease(tmp_path, NOW)[1] == 0


def test_the_lease_is_read_before_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise old files could be read, and then the lease of the new ones."""
    say(tmp_path, "2")
    renew(tmp_path, NOW - 100)
    honest = files.read_bounded

    def slow(at: int, name: str, limit: int) -> bytes | None:
        content = honest(at, name, limit)
        renew(tmp_path, NOW)
        return content

    monkeypatch.setattr(files, "read_bounded", slow)
    assert not read_with_lease(tmp_path, NOW)[0].vouched


def test_a_watcher_hears_that_a_lease_ran_out(tmp_path: Path) -> None:
    """No event says so, and its poll is far off. A renewal is no news."""
    say(tmp_path, "2", lease_seconds=0.3)
    renew(tmp_path, time.time())
    with ProjectionWatch(tmp_path, poll_seconds=1000) as watch:
        first = watch.wait(20)
        assert first is not None
        assert first.vouched
        renew(tmp_path, time.time())
        assert watch.wait(0.05) is None
        last = watch.wait(20)
        assert last is not None
        assert not last.vouched
        assert last.projection == first.projection


def test_a_watcher_of_files_that_nobody_vouches_for_is_not_busy(tmp_path: Path) -> None:
    """Files without CPUs are not reported; their ended lease must not make it look again and again."""
    say(tmp_path, "")
    renew(tmp_path, 0)
    with ProjectionWatch(tmp_path, poll_seconds=1000) as watch:
        used = time.thread_time()
        assert watch.wait(0.3) is None
        assert time.thread_time() - used < 0.1


def test_a_watcher_hears_that_a_lease_begins(tmp_path: Path) -> None:
    """It is moved into place, as by the daemon."""
    say(tmp_path, "2")
    with ProjectionWatch(tmp_path, poll_seconds=1000) as watch:
        first = watch.wait(20)
        assert first is not None
        assert not first.vouched
        (fresh := tmp_path.parent / "fresh.lease").touch()
        timer = threading.Timer(0.05, os.rename, (fresh, tmp_path / NAME))
        timer.start()
        found = watch.wait(20)
        timer.join()
        assert found is not None
        assert found.vouched
