"""Files are replaced as a whole, or not at all, and never through a link."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from state import files
from state.errors import FileUnreadable, FileUnwritable


@pytest.fixture
def at(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "here").mkdir()
    with files.directory(tmp_path / "here") as opened:
        yield opened


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "here"


@pytest.mark.parametrize("sync", [False, True])
def test_a_file_is_replaced_with_the_wanted_mode_whatever_the_umask(at: int, here: Path, sync: bool) -> None:
    before = os.umask(0o077)
    try:
        files.replace(at, "cpuset", b"0-1\n", sync=sync)
        files.replace(at, "cpuset", b"2-3\n", sync=sync, mode=0o640)
    finally:
        os.umask(before)
    assert (here / "cpuset").read_bytes() == b"2-3\n"
    assert stat.S_IMODE((here / "cpuset").stat().st_mode) == 0o640
    assert os.listdir(here) == ["cpuset"]


def test_a_reader_that_holds_the_old_file_keeps_the_old_content(at: int, here: Path) -> None:
    """Nothing is written in place."""
    files.replace(at, "cpuset", b"0-1\n")
    with (here / "cpuset").open("rb") as reader:
        files.replace(at, "cpuset", b"2\n")
        assert reader.read() == b"0-1\n"


def test_a_link_in_the_place_of_the_file_is_replaced_and_its_target_is_left_alone(
    at: int, here: Path, tmp_path: Path
) -> None:
    target = tmp_path / "precious"
    target.write_text("untouched")
    (here / "cpuset").symlink_to(target)
    files.replace(at, "cpuset", b"0\n")
    assert target.read_text() == "untouched"
    assert not (here / "cpuset").is_symlink()
    assert (here / "cpuset").read_bytes() == b"0\n"


@pytest.mark.parametrize("kind", ["symlink", "hardlink", "fifo"])
def test_what_is_planted_under_the_temporary_name_is_never_written_through(
    at: int, here: Path, tmp_path: Path, kind: str
) -> None:
    target = tmp_path / "precious"
    target.write_text("untouched")
    planted = here / ".cpuset.new"
    match kind:
        case "symlink":
            planted.symlink_to(target)
        case "hardlink":
            os.link(target, planted)
        case _:
            os.mkfifo(planted)
    files.replace(at, "cpuset", b"0\n")
    assert target.read_text() == "untouched"
    assert os.listdir(here) == ["cpuset"]


def test_a_directory_in_the_place_of_the_file_is_an_error_that_leaves_nothing_behind(at: int, here: Path) -> None:
    (here / "cpuset").mkdir()
    with pytest.raises(FileUnwritable, match="cannot write cpuset: a directory is there"):
        files.replace(at, "cpuset", b"0\n")
    assert os.listdir(here) == ["cpuset"]


def test_staging_keeps_temporary_files_out_of_the_directory(at: int, here: Path, tmp_path: Path) -> None:
    with files.directory(tmp_path / ".staging", create=True, mode=0o700) as staging:
        files.replace(at, "cpuset", b"0\n", staging=staging)
        (here / "status.json").mkdir()
        with pytest.raises(FileUnwritable):
            files.replace(at, "status.json", b"{}", staging=staging)
    assert stat.S_IMODE((tmp_path / ".staging").stat().st_mode) == 0o700
    assert os.listdir(tmp_path / ".staging") == []
    assert (here / "cpuset").read_bytes() == b"0\n"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "no space left"),
        (errno.EROFS, "read-only file system"),
        (errno.EACCES, "permission denied"),
        (errno.EDQUOT, "quota"),
    ],
)
@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename"])
def test_a_failing_call_keeps_the_old_content_and_says_why(
    at: int, here: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, words: str
) -> None:
    files.replace(at, "cpuset", b"0-1\n")

    def fails(*args: object, **named: object) -> object:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fails)
        with pytest.raises(FileUnwritable, match=words):
            files.replace(at, "cpuset", b"2-3\n", sync=True)
    assert (here / "cpuset").read_bytes() == b"0-1\n"
    assert os.listdir(here) == ["cpuset"]


def test_short_writes_are_continued(at: int, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """write(2) may take less than it was given."""
    real = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda opened, content: real(opened, bytes(content[:3])))
        files.replace(at, "cpuset", b"0-1,4-5,8\n")
    assert (here / "cpuset").read_bytes() == b"0-1,4-5,8\n"


def test_half_a_write_that_the_kernel_stops_leaves_nothing_behind(at: int, here: Path) -> None:
    """A file size limit stops a write in the middle, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(FileUnwritable, match="File too large"):
            files.replace(at, "cpuset", b"0," * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert os.listdir(here) == []


def test_reading_is_bounded(at: int, here: Path) -> None:
    (here / "ack").write_bytes(b"x" * 100)
    assert files.read_bounded(at, "ack", 100) == b"x" * 100
    with pytest.raises(FileUnreadable, match="longer than 99 bytes"):
        files.read_bounded(at, "ack", 99)
    assert files.read_bounded(at, "missing", 99) is None


@pytest.mark.timeout(10)
def test_reading_never_follows_a_link_nor_waits_for_a_pipe(at: int, here: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    (here / "link").symlink_to(secret)
    (here / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(here / "pipe")
    (here / "folder").mkdir()
    with pytest.raises(FileUnreadable, match="symbolic link"):
        files.read_bounded(at, "link", 10)
    with pytest.raises(FileUnreadable, match="symbolic link"):
        files.read_bounded(at, "dangling", 10)
    for name in ("pipe", "folder"):
        with pytest.raises(FileUnreadable, match="not a regular file"):
            files.read_bounded(at, name, 10)


def test_what_is_not_a_regular_file_is_not_even_opened(at: int, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a device may already do harm (a watchdog, a tape); a container may create one in a volume."""
    os.mkfifo(here / "pipe")
    os.mknod(here / "socket", stat.S_IFSOCK | 0o600)
    opened: list[int] = []
    really = os.open

    def watched(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        opened.append(flags)
        return really(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", watched)
    for name in ("pipe", "socket"):
        with pytest.raises(FileUnreadable, match="not a regular file"):
            files.read_bounded(at, name, 10)
    assert len(opened) == 2
    assert all(flags & os.O_PATH for flags in opened)


def test_reading_works_without_proc(at: int, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container that has none, for instance; links and pipes are refused there too."""
    really = os.open

    def without_proc(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(path)
        return really(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", without_proc)
    (here / "cpuset").write_text("0\n")
    os.mkfifo(here / "pipe")
    assert files.read_bounded(at, "cpuset", 10) == b"0\n"
    with pytest.raises(FileUnreadable, match="not a regular file"):
        files.read_bounded(at, "pipe", 10)


def test_a_link_where_a_directory_is_expected_is_an_error(at: int, here: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (here / "link").symlink_to(outside)
    (here / "dangling").symlink_to(tmp_path / "nowhere")
    (here / "file").write_text("")
    for name in ("link", "file", "dangling"):
        for create in (False, True):
            with pytest.raises(FileUnreadable, match="link or a file is there"):
                files.open_directory(name, at=at, create=create)
    assert not (tmp_path / "nowhere").exists()


def test_a_missing_directory_is_made_only_when_asked(at: int, here: Path) -> None:
    with pytest.raises(FileUnreadable, match="no such file or directory"):
        files.open_directory("new", at=at)
    before = os.umask(0o077)
    try:
        os.close(files.open_directory("new", at=at, create=True))
    finally:
        os.umask(before)
    assert stat.S_IMODE((here / "new").stat().st_mode) == 0o755
    with pytest.raises(FileUnwritable, match="cannot make the directory"):
        files.open_directory("none/such", at=at, create=True)


def test_descriptors_are_not_inherited(at: int) -> None:
    assert not os.get_inheritable(at)


def test_removing_says_whether_there_was_anything(at: int, here: Path) -> None:
    (here / "cpuset").write_text("0")
    (here / "folder").mkdir()
    assert files.remove(at, "cpuset")
    assert not files.remove(at, "cpuset")
    with pytest.raises(FileUnwritable, match="a directory is there"):
        files.remove(at, "folder")


@pytest.mark.timeout(10)
def test_a_file_that_people_name_is_regular_and_bounded(at: int, here: Path) -> None:
    """A link is followed; all else is refused at once, and never more than the limit is read."""
    (here / "file").write_bytes(b"x" * 100)
    (here / "link").symlink_to(here / "file")
    os.mkfifo(here / "pipe")
    assert files.read_named(str(here / "link"), 100) == b"x" * 100
    for name, limit, said in (
        (f"{here}/file", 99, "it is longer than 99 bytes"),
        (f"{here}/pipe", 99, "it is not a regular file"),
        ("/dev/zero", 99, "it is not a regular file"),
        (str(here), 99, "it is a directory, not a regular file"),
        (f"{here}/nowhere", 99, "there is no such file or directory"),
        ("a\0b", 99, "a file's name cannot contain a null character"),
    ):
        with pytest.raises(FileUnreadable) as caught:
            files.read_named(name, limit)
        assert str(caught.value) == said


def test_a_named_file_that_grows_without_end_is_read_up_to_the_limit(
    at: int, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One byte more than the limit says that it is too long."""
    (here / "log").write_bytes(b"x")
    asked: list[int] = []

    def grows(_: int, most: int) -> bytes:
        asked.append(most)
        return b"x" * min(most, 7)

    monkeypatch.setattr(os, "read", grows)
    with pytest.raises(FileUnreadable, match="longer than 20 bytes"):
        files.read_named(str(here / "log"), 20)
    assert asked == [21, 14, 7]


@pytest.mark.parametrize("code", [errno.EPERM, errno.EMLINK, errno.ENOSPC])
def test_a_directory_is_asked_for_hard_links_and_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Only the error of a file system without them means that there are none."""
    assert files.has_links(tmp_path) is True
    assert files.has_links(tmp_path / "missing") is None

    def failing(*_: object, **__: object) -> None:
        raise OSError(code, "")

    monkeypatch.setattr(os, "link", failing)
    assert files.has_links(tmp_path) is (None if code == errno.ENOSPC else False)
    assert os.listdir(tmp_path) == []
