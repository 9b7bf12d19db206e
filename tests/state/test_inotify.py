"""The traps of pyinotify and inotify(7), each sprung on the real thing."""

from __future__ import annotations

import fcntl
import os
import resource
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from state.inotify import Deaf, Ears, Inotify, nearest_directory


@pytest.fixture
def ear() -> Iterator[Inotify]:
    made = Inotify()
    yield made
    made.close()


@pytest.fixture
def ears() -> Iterator[Ears]:
    made = Ears()
    yield made
    made.close()


def hears(ear: Inotify | Ears) -> bool:
    """Return whether there are events to drain: the kernel queues an event before the causing call returns."""
    return bool(select.select([ear.fd], [], [], 0)[0])


def test_a_change_is_heard_once_and_then_forgotten(ear: Inotify, tmp_path: Path) -> None:
    assert ear.listen(str(tmp_path))
    assert not hears(ear)
    (tmp_path / "new").write_text("x")
    assert hears(ear)
    assert not ear.drain()
    assert not hears(ear)


def test_reading_by_others_is_not_heard(ear: Inotify, tmp_path: Path) -> None:
    (tmp_path / "cpuset").write_text("0")
    ear.listen(str(tmp_path))
    (tmp_path / "cpuset").read_text()
    os.listdir(tmp_path)
    assert not hears(ear)


def test_draining_silence_is_no_error(ear: Inotify, tmp_path: Path) -> None:
    assert not ear.drain()
    ear.listen(str(tmp_path))
    assert not ear.drain()


def test_the_descriptor_neither_blocks_nor_is_inherited(ear: Inotify) -> None:
    assert not os.get_blocking(ear.fd)
    assert fcntl.fcntl(ear.fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    with pytest.raises(BlockingIOError):
        os.read(ear.fd, 4096)


def test_listening_to_the_same_directory_again_changes_nothing(ear: Inotify, tmp_path: Path) -> None:
    for _ in range(3):
        assert ear.listen(str(tmp_path))
    (tmp_path / "x").touch()
    assert hears(ear)
    assert not ear.drain()


def test_only_the_latest_directory_is_heard(ear: Inotify, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    ear.listen(str(tmp_path / "one"))
    ear.listen(str(tmp_path / "two"))
    ear.drain()
    (tmp_path / "one" / "x").touch()
    assert not hears(ear)
    (tmp_path / "two" / "x").touch()
    assert hears(ear)


@pytest.mark.parametrize("name", ["missing", "file", "\udcff"])
def test_what_cannot_be_listened_to_is_said(
    ear: Inotify, tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert not ear.listen(str(tmp_path / name))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("what", ["deleted", "moved"])
def test_a_directory_that_goes_is_heard_as_lost(
    ear: Inotify, tmp_path: Path, what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "here").mkdir()
    ear.listen(str(tmp_path / "here"))
    if what == "deleted":
        (tmp_path / "here").rmdir()
    else:
        (tmp_path / "here").rename(tmp_path / "there")
    assert ear.drain()
    assert not ear.drain()
    assert capfd.readouterr().err == ""
    (tmp_path / "here").mkdir()
    assert ear.listen(str(tmp_path / "here"))
    ear.drain()
    (tmp_path / "here" / "x").touch()
    assert hears(ear)


def test_more_events_than_the_kernel_keeps_are_heard_as_lost(ear: Inotify, tmp_path: Path) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 100_000:
        pytest.skip(f"the kernel keeps {most} events: too many to fill here")
    ear.listen(str(tmp_path))
    (tmp_path / "a").touch()
    for _ in range(most // 4 + 1):
        os.rename(tmp_path / "a", tmp_path / "b")
        os.rename(tmp_path / "b", tmp_path / "a")
    assert ear.drain()
    (tmp_path / "c").touch()
    assert hears(ear)
    assert not ear.drain()


def test_a_name_that_is_not_utf8_is_heard_as_lost_and_no_error(ear: Inotify, tmp_path: Path) -> None:
    ear.listen(str(tmp_path))
    (tmp_path / "before").touch()
    os.mkdir(os.fsencode(tmp_path) + b"/\xff\xfe")
    (tmp_path / "after").touch()
    assert ear.drain()
    (tmp_path / "later").touch()
    assert hears(ear)
    assert not ear.drain()


def test_where_no_more_instances_are_available_it_is_deaf() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, before[1]))
    try:
        with pytest.raises(Deaf, match="inotify is not available"):
            Inotify()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_closing_gives_the_descriptor_back_and_may_be_repeated(tmp_path: Path) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    ear = Inotify()
    ear.listen(str(tmp_path))
    ear.close()
    ear.close()
    assert sorted(os.listdir("/proc/self/fd")) == before


def folder(path: Path) -> str:
    path.mkdir()
    return str(path)


def test_it_is_told_in_which_of_many_directories_something_changed(ears: Ears, tmp_path: Path) -> None:
    one, two = ears.listen(folder(tmp_path / "one")), ears.listen(folder(tmp_path / "two"))
    assert one != two
    (tmp_path / "two" / "ack").write_text("x")
    assert ears.drain() == frozenset((two,))
    assert ears.drain() == frozenset()
    (tmp_path / "one" / "ack").write_text("x")
    (tmp_path / "two" / "ack").write_text("y")
    assert ears.drain() == frozenset((one, two))


def test_a_directory_is_listened_to_as_it_is_open(ears: Ears, tmp_path: Path) -> None:
    """Whatever has its name afterwards; and the descriptor may be closed at once."""
    there = folder(tmp_path / "there")
    at = os.open(there, os.O_RDONLY | os.O_DIRECTORY)
    number = ears.listen(f"/proc/self/fd/{at}")
    assert ears.listen(there) == number
    os.close(at)
    (tmp_path / "there").rename(tmp_path / "kept")
    ears.drain()
    folder(tmp_path / "there")
    (tmp_path / "there" / "ack").write_text("x")
    assert ears.drain() == frozenset()
    (tmp_path / "kept" / "ack").write_text("x")
    assert ears.drain() == frozenset((number,))


def test_a_directory_that_was_left_is_not_heard(ears: Ears, tmp_path: Path) -> None:
    one, two = ears.listen(folder(tmp_path / "one")), ears.listen(folder(tmp_path / "two"))
    assert one is not None
    ears.leave(one)
    ears.drain()
    (tmp_path / "one" / "ack").write_text("x")
    (tmp_path / "two" / "ack").write_text("x")
    assert ears.drain() == frozenset((two,))
    ears.leave(one)
    assert ears.listen(str(tmp_path / "nowhere")) is None


def test_more_events_than_the_kernel_keeps_may_be_anywhere(ears: Ears, tmp_path: Path) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 100_000:
        pytest.skip(f"the kernel keeps {most} events: too many to fill here")
    ears.listen(folder(tmp_path / "one"))
    two = ears.listen(folder(tmp_path / "two"))
    (tmp_path / "one" / "a").touch()
    for _ in range(most // 4 + 1):
        os.rename(tmp_path / "one" / "a", tmp_path / "one" / "b")
        os.rename(tmp_path / "one" / "b", tmp_path / "one" / "a")
    assert ears.drain() is None
    (tmp_path / "two" / "c").touch()
    assert ears.drain() == frozenset((two,))


def test_importing_it_neither_warns_nor_touches_the_log() -> None:
    """Run in a process of its own, since this one has imported it already."""
    program = (
        "import state.inotify, pyinotify, logging\n"
        "pyinotify.log.error('heard by nobody')\n"
        "assert not pyinotify.log.handlers\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_program_that_imported_pyinotify_before_keeps_its_log() -> None:
    program = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import pyinotify, state.inotify\n"
        "assert pyinotify.log.handlers\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_nearest_directory_is_found(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert nearest_directory(str(tmp_path)) == str(tmp_path)
    assert nearest_directory(str(tmp_path / "a" / "b")) == str(tmp_path)
    assert nearest_directory(str(tmp_path / "file" / "b")) == str(tmp_path)
    assert nearest_directory("/") == "/"
