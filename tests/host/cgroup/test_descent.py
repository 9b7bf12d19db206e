"""Walks of what is nested inside a group: no depth and no name ends one, and no number of groups keeps it for long."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.host.cgroup import descent
from sidecar.host.cgroup.descent import Descent, processes_below
from tests.support.deep_groups import nested


def test_processes_are_found_in_groups_of_any_depth_and_of_any_length_of_path(tmp_path: Path) -> None:
    """Deeper than Python's stack, and with a longer path than the kernel takes."""
    with nested(tmp_path / "deep", ["a"] * 1500) as deep, nested(tmp_path / "long", ["b" * 250] * 40) as long:
        for group, last in ((deep, "7\n"), (long, "8\n0\n9\n")):
            group.write("cgroup.procs", last)
        assert processes_below(str(tmp_path)) == ({7, 8, 9}, True)


def test_groups_beside_each_other_are_all_read(tmp_path: Path) -> None:
    for path, process in (("a/b/c", 1), ("a/b", 2), ("a/d", 3), ("e", 4)):
        (tmp_path / path).mkdir(parents=True, exist_ok=True)
        (tmp_path / path / "cgroup.procs").write_text(f"{process}\n")
    (tmp_path / "elsewhere").symlink_to(tmp_path.parent)
    before = len(os.listdir("/proc/self/fd"))
    assert processes_below(str(tmp_path)) == ({1, 2, 3, 4}, True)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_walk_that_is_not_over_in_time_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent, "MOST_GROUPS", 10)
    for number in range(10):
        (tmp_path / str(number)).mkdir()
    assert processes_below(str(tmp_path))[1] is False
    (tmp_path / "0").rmdir()
    assert processes_below(str(tmp_path))[1] is True


def test_what_is_not_there_has_no_processes(tmp_path: Path) -> None:
    assert processes_below(str(tmp_path / "gone")) == (set(), True)


def test_a_place_stays_if_the_way_down_is_closed(tmp_path: Path) -> None:
    """A link is no group."""
    (tmp_path / "link").symlink_to("/")
    top = os.open(tmp_path, os.O_RDONLY)
    at = Descent(top)
    try:
        for name in (b"gone", b"link"):
            with pytest.raises(OSError):
                at.down(name)
        assert os.path.samestat(os.fstat(at.fd), os.fstat(top))
    finally:
        at.close()
        os.close(top)
