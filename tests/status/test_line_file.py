"""A file of lines: appended, read without what was cut off, replaced; readable for the group of the directory only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.status.event_file import LIMIT, event_file, event_of, shortened
from sidecar.status.grant_history import GrantChange
from sidecar.status.history_file import HistoryFile
from sidecar.status.line_file import LineFile
from sidecar.status.status_file import SHARED_MODE
from state.errors import StateError


def test_lines_are_added_and_one_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    """As by a daemon that was killed while it wrote."""
    file = LineFile(str(tmp_path), "lines", version=3, limit=1000)
    assert file.read() == []
    assert not file.append([b"1", b"2"])
    assert not file.append([b"3"])
    with open(tmp_path / "lines", "ab") as opened:
        opened.write(b"cut o")
    assert file.read() == [b"1", b"2", b"3"]
    assert (tmp_path / "lines").read_bytes().startswith(b'{"version":3}\n1\n')


def test_a_file_that_is_long_is_said_to_be(tmp_path: Path) -> None:
    file = LineFile(str(tmp_path), "lines", version=1, limit=100)
    assert file.append([b"x" * 200])
    file.replace([b"y"])
    assert file.read() == [b"y"]
    assert not file.append([b"z"])


def test_another_version_and_a_link_are_errors(tmp_path: Path) -> None:
    """Nothing is written through a link that somebody put there."""
    (tmp_path / "lines").write_bytes(b'{"version":9}\n')
    with pytest.raises(StateError, match="another version"):
        LineFile(str(tmp_path), "lines", version=1, limit=100).read()
    (tmp_path / "lines").unlink()
    (tmp_path / "lines").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="cannot be written"):
        LineFile(str(tmp_path), "lines", version=1, limit=100).append([b"1"])
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(("mode", "expected"), [(0o700, 0o600), (SHARED_MODE, 0o640)])
def test_the_group_of_a_shared_directory_may_read_what_is_shared(tmp_path: Path, mode: int, expected: int) -> None:
    """Events and the last hour, which the API shows the group as well; another file stays its owner's."""
    tmp_path.chmod(mode)
    events, hour = event_file(str(tmp_path)), HistoryFile(str(tmp_path))
    private = LineFile(str(tmp_path), "private", version=1, limit=100)
    change = GrantChange(at=1.0)
    for _ in range(2):
        events.append([b"{}"])
        hour.append([change])
        private.append([b"{}"])
        assert os.stat(tmp_path / "events.jsonl").st_mode & 0o777 == expected
        assert os.stat(tmp_path / "history.jsonl").st_mode & 0o777 == expected
        assert os.stat(tmp_path / "private").st_mode & 0o777 == 0o600
        events.replace([b"{}"])
        hour.replace([change])


def test_a_file_of_the_time_before_its_directory_was_shared_is_to_be_replaced(tmp_path: Path) -> None:
    """Once: a file system without modes would ask for it at each event."""
    event_file(str(tmp_path)).append([b"{}"])
    tmp_path.chmod(SHARED_MODE)
    file = event_file(str(tmp_path))
    assert file.append([b"{}"])
    assert not file.append([b"{}"])
    file.replace(file.read())
    assert os.stat(tmp_path / "events.jsonl").st_mode & 0o777 == 0o640
    assert not event_file(str(tmp_path)).append([b"{}"])


def test_the_last_events_are_kept() -> None:
    """Half of what the file may hold, so that it is not replaced at each event."""
    lines = [b"%07d" % number for number in range(LIMIT // 8)]
    kept = shortened(lines)
    assert kept == lines[-len(kept) :]
    assert len(kept) == LIMIT // 16
    assert shortened([b"x" * LIMIT]) == []


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"id":1}', b'{"id":"1","time":"x","level":"info"}', b"[" * 5000])
def test_what_is_no_event_is_left_out(line: bytes) -> None:
    assert event_of(line) is None
