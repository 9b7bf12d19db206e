"""What hostile workloads write into their directories, or leave there, costs no other its notices."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest

from sidecar.projection.belongings import SPARE_NAMES
from sidecar.projection.directories import ProjectionTree
from sidecar.projection.projections import Projections
from state.cpuset import EMPTY, CPUSet
from state.errors import ProjectionError
from state.projection import MAX_GENERATION, read
from tests.projection.test_projections import A, B, a, b, opened, told


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cpuset-sidecar"


@pytest.fixture
def projections(root: Path) -> Projections:
    return opened(root)


def test_a_directory_goes_with_all_that_its_container_left_there(projections: Projections, root: Path) -> None:
    """Through no link, and however deep."""
    projections.write(A, [], told(A, "2"))
    (root.parent / "precious").write_text("x")
    (root / "by-id" / a / "ack").write_text("1")
    (root / "by-id" / a / "link").symlink_to(root.parent)
    (root / "by-id" / a / "hard").hardlink_to(root.parent / "precious")
    (root / "by-id" / a / "/".join("deep" for _ in range(200))).mkdir(parents=True)
    projections.remove(A)
    assert os.listdir(root / "by-id") == []
    assert (root.parent / "precious").read_text() == "x"


def test_a_directory_that_could_not_be_removed_is_removed_later(
    projections: Projections, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system that was read-only for a while."""
    projections.write(A, [], told(A, "2"))

    def fails(*_: object) -> None:
        raise ProjectionError("it is on a read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(ProjectionTree, "remove", fails)
        with pytest.raises(ProjectionError, match="read-only"):
            projections.remove(A)
    projections.remove(A)
    assert os.listdir(root / "by-id") == []


def test_two_ids_that_begin_alike_share_no_directory(projections: Projections, root: Path) -> None:
    """It belongs to the first; the other one has none, which is reported, and takes nothing with it when it goes."""
    other = a + "0" * 52
    projections.write(A, [], told(A, "2-3"))
    with pytest.raises(ProjectionError, match=f"by-id/{a}: it belongs to {A}"):
        projections.write(other, [], told(other, "4"))
    projections.withdraw(other, CPUSet.parse("4"))
    assert list(projections.awaited(other, EMPTY)) == []
    with projections.directories(other) as opened:
        assert opened == ()
    projections.remove(other)
    assert (root / "by-id" / a / "cpuset").read_text() == "2-3\n"
    projections.remove(A)
    projections.write(other, [], told(other, "4"))
    assert (root / "by-id" / a / "cpuset").read_text() == "4\n"


@pytest.mark.parametrize("planted", [MAX_GENERATION + 1, MAX_GENERATION, MAX_GENERATION - 1, 2**41, 2**70])
def test_a_planted_number_uses_none_up(root: Path, planted: int) -> None:
    """Numbers only grow, after a restart too, and stay below the highest that readers take."""
    status = root / "by-id" / a / "status.json"
    last = 0
    for cpus in ("2", "3", "4", "5"):
        projections = opened(root)
        projections.write(A, [], told(A, cpus))
        assert last < read(root / "by-id" / a).generation <= 2**40 + 10_000
        last = read(root / "by-id" / a).generation
        status.write_bytes(status.read_bytes().replace(b'"generation":%d' % last, b'"generation":%d' % planted))


def test_names_that_no_container_uses_are_given_back(projections: Projections, root: Path) -> None:
    """Of those that come and go, a bounded number is kept: the last, and what containers have mounted."""
    for number in range(300):
        projections.write(A, [f"n{number:03}"], told(A, "2"))
        (root / f"by-name/n{number:03}/left").write_text("behind")
        projections.remove_spare_names(lambda: {"n007"})
    names = sorted(os.listdir(root / "by-name"))
    assert names == ["n007", *(f"n{number}" for number in range(300 - SPARE_NAMES, 300))]
    again = opened(root)
    again.retain([])
    again.remove_spare_names(lambda: frozenset())
    assert len(os.listdir(root / "by-name")) == SPARE_NAMES


def test_what_a_workload_fills_the_disk_with_is_removed(
    projections: Projections, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are told what leaves them all the same."""
    projections.write(A, ["voice"], told(A, "2-3"))
    projections.write(B, [], told(B, "4-5"))
    junk = root / "by-id" / b / "junk"
    (root / "by-id" / b / "ack").write_bytes(b"1" * 10_000)
    junk.write_text("x" * 100_000)
    write = os.write

    def on_a_full_disk(at: int, content: bytes) -> int:
        if junk.exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(at, content)

    monkeypatch.setattr(os, "write", on_a_full_disk)
    leaving = msgspec.structs.replace(told(A, "2-3"), leaving=CPUSet.parse("3"))
    projections.announce(A, ["voice"], leaving, grace_seconds=2.0)
    assert str(read(root / "by-name/voice").leaving) == "3"
    assert sorted(os.listdir(root / "by-id" / b)) == ["cpuset", "lease", "status.json"]
