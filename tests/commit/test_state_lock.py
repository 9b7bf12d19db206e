"""One sidecar for one state directory."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.commit.state_lock import NAME, hold_lock
from sidecar.failures import AlreadyRunning, StateUnwritable
from sidecar.status.status_file import SHARED_MODE, is_daemon_running


def test_a_second_sidecar_is_refused_and_reads_which_process_holds_the_lock(tmp_path: Path) -> None:
    with (
        hold_lock(str(tmp_path)),
        pytest.raises(AlreadyRunning, match=f"process {os.getpid()}"),
        hold_lock(str(tmp_path)),
    ):
        pytest.fail("two sidecars hold one lock")


def test_the_lock_is_free_again_after_its_holder(tmp_path: Path) -> None:
    for _ in range(2):
        with hold_lock(str(tmp_path)):
            assert is_daemon_running(tmp_path)
        assert not is_daemon_running(tmp_path)


def test_the_directory_is_made_and_is_private(tmp_path: Path) -> None:
    with hold_lock(str(tmp_path / "deep" / "state")):
        assert (tmp_path / "deep" / "state").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o1777, 0o750, 0o770])
def test_a_directory_that_was_there_is_made_private(tmp_path: Path, mode: int) -> None:
    """Whatever made it: a volume, an administrator with the usual mask."""
    tmp_path.chmod(mode)
    with hold_lock(str(tmp_path)):
        assert tmp_path.stat().st_mode & 0o7777 == 0o700


def test_a_directory_that_is_open_to_the_api_group_stays_so(tmp_path: Path) -> None:
    """A command takes the lock, too, and does not know the configuration."""
    tmp_path.chmod(SHARED_MODE)
    with hold_lock(str(tmp_path)):
        assert tmp_path.stat().st_mode & 0o7777 == SHARED_MODE


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a directory away")
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    """Its owner could replace what is recorded there."""
    os.chown(tmp_path, 12345, -1)
    with pytest.raises(StateUnwritable, match="belongs to user 12345"), hold_lock(str(tmp_path)):
        pytest.fail("the directory of another user is used")


def test_a_lock_that_was_deleted_or_replaced_is_not_in_place(tmp_path: Path) -> None:
    """Deleting it under its holder would let a second sidecar in."""
    with hold_lock(str(tmp_path)) as lock:
        assert lock.is_in_place()
        (tmp_path / NAME).unlink()
        assert not lock.is_in_place()
        assert lock.is_free()
        with hold_lock(str(tmp_path)) as other:
            assert other.is_in_place()
            assert (lock.is_in_place(), lock.is_free()) == (False, False)


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateUnwritable, match="state directory"), hold_lock(str(tmp_path)):
        pytest.fail("followed a link")
    assert not (tmp_path / "elsewhere").exists()


def test_a_disk_without_a_byte_is_said(tmp_path: Path) -> None:
    """Nothing can be stored there: the output is the reason and the cure, not a traceback."""
    (tmp_path / NAME).touch()
    with limited_file_size(0), pytest.raises(StateUnwritable, match="make it writable"), hold_lock(str(tmp_path)):
        pytest.fail("went on without books")
    with hold_lock(str(tmp_path)):
        assert is_daemon_running(tmp_path)


@contextmanager
def limited_file_size(size: int) -> Iterator[None]:
    """Make every write beyond this size fail (setrlimit(2))."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    was = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, was)
