"""The leases of projection directories: what is renewed, whom it wakes, and what a workload can do to it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from sidecar.projection import leases
from sidecar.projection.directories import ProjectionTree
from sidecar.projection.projections import Projections
from state import lease
from state.cpuset import CPUSet
from state.errors import ProjectionError
from state.projection import Projection, Sharing, read_with_lease
from tests.state.raw_inotify import RawInotify
from tests.support.planted import plant, unplant

A, B = "a" * 64, "b" * 64
IN_ALL_EVENTS: Final = 0xFFF
OURS, NAMED, REPLICA = f"by-id/{A[:12]}", "by-name/voice", f"by-name/voice/by-id/{A[:12]}"
PLACES = (OURS, NAMED, REPLICA)


def told(cpus: str, container: str = A) -> Projection:
    return Projection(container=container, sharing=Sharing.EXCLUSIVE, cpus=CPUSet.parse(cpus))


class Root:
    """A root of projections, on a wall clock that the test moves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 1_800_000_000.0
        self.projections = Projections(path, clock=lambda: self.now)

    def write(self, cpus: str = "2", container: str = A) -> None:
        self.projections.write(container, ["voice"], told(cpus, container))

    def renew(self, seconds: float = lease.RENEW_SECONDS) -> None:
        """Let time pass, and renew all."""
        self.now += seconds
        self.projections.renew(self.projections.vouched())

    def counts(self, place: str = OURS) -> bool:
        return read_with_lease(self.path / place, self.now)[0].vouched

    def renew_for_a_minute(self) -> None:
        for _ in range(leases.CHECK_ROUNDS):
            self.renew()


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "root")


@pytest.mark.parametrize("place", PLACES)
def test_it_counts_as_long_as_it_is_renewed(root: Root, place: str) -> None:
    root.write()
    assert root.counts(place)
    for _ in range(5):
        root.renew()
        assert root.counts(place)
    root.now += lease.LEASE_SECONDS + 0.1
    assert not root.counts(place)


@pytest.mark.parametrize("place", PLACES)
def test_a_renewal_wakes_nobody(root: Root, place: str) -> None:
    """Whatever the watcher of the directory listens for."""
    root.write()
    before = os.stat(root.path / place / lease.NAME).st_mtime
    with RawInotify(root.path / place, IN_ALL_EVENTS) as watcher:
        root.renew_for_a_minute()
        assert watcher.events() == []
    assert os.stat(root.path / place / lease.NAME).st_mtime == before + 60


def test_only_a_directory_inside_another_shares_its_file(root: Root) -> None:
    """A workload with a writable directory cannot renew a lease outside of it, nor a replica that of another."""
    root.write()
    root.write("3", B)
    found: dict[int, set[str]] = {}
    for path in root.path.glob("by-*/**/lease"):
        found.setdefault(os.stat(path).st_ino, set()).add(str(path.parent.relative_to(root.path)))
    other = {f"by-id/{B[:12]}"}, {f"by-name/voice/by-id/{B[:12]}"}
    assert sorted(found.values(), key=sorted) == sorted([{OURS}, {NAMED, REPLICA}, *other], key=sorted)


def test_two_directories_that_share_a_lease_cost_one_renewal(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.write()
    renewed: list[tuple[str, ...]] = []
    honest = ProjectionTree.renew_lease

    def counted(tree: ProjectionTree, lease_of: tuple[str, ...], seconds: float) -> bool:
        renewed.append(lease_of)
        return honest(tree, lease_of, seconds)

    monkeypatch.setattr(ProjectionTree, "renew_lease", counted)
    root.renew()
    assert sorted(renewed) == [("by-id", A[:12]), ("by-name", "voice", "by-id", A[:12])]


def test_it_begins_after_the_files_and_wakes(root: Root) -> None:
    """Files of an earlier run are not vouched for before they are written again."""
    root.write()
    root.now += 1000
    again = Projections(root.path, clock=lambda: root.now)
    assert not root.counts()
    again.renew(again.vouched())
    assert not root.counts()
    with RawInotify(root.path / OURS) as watcher:
        again.write(A, ["voice"], told("3"))
        assert watcher.events() == ["MOVED_TO status.json", "MOVED_TO cpuset", "MOVED_TO lease"]
    assert root.counts()


def test_new_files_are_never_seen_unvouched(root: Root) -> None:
    (root.path / OURS).mkdir(parents=True)
    with RawInotify(root.path / OURS) as watcher:
        root.write()
        assert watcher.events() == ["MOVED_TO lease", "MOVED_TO status.json", "MOVED_TO cpuset"]


@pytest.mark.parametrize("place", PLACES)
def test_the_end_of_all_is_told_at_once(root: Root, place: str) -> None:
    root.write()
    with RawInotify(root.path / place) as watcher:
        root.projections.end_leases()
        assert watcher.events() == ["MOVED_TO lease"]
    assert not root.counts(place)
    assert os.listdir(root.path / ".staging") == []
    root.renew()
    assert not root.counts(place)


def test_one_that_ran_out_begins_anew_and_wakes(root: Root) -> None:
    """A reader that waits for it would otherwise not be notified."""
    root.write()
    with RawInotify(root.path / OURS) as watcher:
        root.renew(1000)
        assert watcher.events() == ["MOVED_TO lease"]
    assert root.counts()


def test_a_clock_that_is_set_back_heals_with_the_next_renewal(root: Root) -> None:
    root.write()
    root.now -= 3600
    assert not root.counts()
    root.renew()
    assert root.counts()


def test_a_name_without_a_container_is_not_vouched_for(root: Root) -> None:
    root.write()
    root.projections.remove(A)
    assert not root.counts(NAMED)
    root.renew()
    assert not root.counts(NAMED)
    assert os.listdir(root.path / ".staging") == []


def test_a_name_that_passes_to_the_next_container_stays_vouched_for(root: Root) -> None:
    root.write("2")
    root.write("3", B)
    root.projections.remove(A)
    root.renew()
    assert root.counts(NAMED)
    assert root.counts(f"by-name/voice/by-id/{B[:12]}")


def test_a_name_that_passes_to_one_that_was_not_written_yet_is_not_vouched_for(root: Root) -> None:
    """Its files are of an earlier run."""
    root.write("2")
    root.write("3", B)
    again = root.projections = Projections(root.path, clock=lambda: root.now)
    root.write("2")
    again.remove(A)
    root.renew()
    assert not root.counts(NAMED)
    root.write("3", B)
    assert root.counts(NAMED)


def test_a_directory_that_cannot_be_written_is_not_vouched_for(root: Root) -> None:
    """Its files are old. The others are vouched for, one that shared its lease by a new one."""
    root.write()
    plant(root.path / NAMED / "status.json")
    with pytest.raises(ProjectionError, match=r"cannot write status\.json"):
        root.write("3")
    assert root.counts(REPLICA)
    unplant(root.path / NAMED / "status.json")
    shutil.copy(root.path / OURS / "status.json", root.path / NAMED)
    root.renew()
    assert not root.counts(NAMED)
    assert root.counts(OURS)
    assert root.counts(REPLICA)
    root.write("3")
    assert root.counts(NAMED)


def removed(file: Path) -> None:
    file.unlink()


def linked(file: Path) -> None:
    file.unlink()
    (file.parent.parent / "elsewhere").write_text("precious")
    file.symlink_to(file.parent.parent / "elsewhere")


def piped(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def forged(file: Path) -> None:
    file.unlink()
    file.touch()
    os.utime(file, (2e9, 2e9))


def doubled(file: Path) -> None:
    os.link(file, file.parent / "more")
    os.link(file, file.parent / "and more")
    file.unlink()


def written(file: Path) -> None:
    file.write_text("x" * 100)
    os.utime(file, (2e9, 2e9))


@pytest.mark.parametrize("spoil", [removed, linked, piped, forged, doubled, written])
def test_what_a_workload_does_to_its_lease_is_mended_within_a_minute(root: Root, spoil: Callable[[Path], None]) -> None:
    """The others of the same container are not touched by it, and nothing is followed or waited for."""
    root.write()
    spoil(root.path / NAMED / lease.NAME)
    assert not root.counts(NAMED)
    for _ in range(leases.CHECK_ROUNDS):
        root.renew()
        assert root.counts(OURS)
        assert root.counts(REPLICA)
    assert root.counts(NAMED)
    outside = root.path / "by-name" / "elsewhere"
    assert not outside.exists() or outside.read_text() == "precious"


def test_a_lease_that_was_renamed_is_mended_when_the_files_are_written(root: Root) -> None:
    root.write()
    (root.path / NAMED / lease.NAME).rename(root.path / NAMED / "mine")
    root.renew_for_a_minute()
    assert not root.counts(NAMED)
    root.write("3")
    assert root.counts(NAMED)


def test_a_directory_in_its_place_is_left_and_reported(root: Root) -> None:
    root.write()
    plant(root.path / NAMED / lease.NAME)
    with pytest.raises(ProjectionError, match="by-name/voice: cannot write lease"):
        root.renew_for_a_minute()
    assert root.counts(OURS)
    assert not root.counts(NAMED)
    unplant(root.path / NAMED / lease.NAME)
    root.renew()
    assert root.counts(NAMED)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
def test_a_lease_that_was_given_away_is_replaced_or_renewed(root: Root) -> None:
    root.write()
    os.chown(root.path / NAMED / lease.NAME, 1234, 1234)
    root.renew_for_a_minute()
    assert root.counts(NAMED)


def test_a_lease_that_cannot_be_renewed_is_replaced_at_once(root: Root) -> None:
    root.write()
    for path in (root.path / ".staging").iterdir():
        path.unlink()
    root.renew()
    assert all(root.counts(place) for place in PLACES)


def test_a_directory_that_was_deleted_is_no_error_and_begins_with_its_files(root: Root) -> None:
    root.write()
    shutil.rmtree(root.path)
    root.renew()
    assert not (root.path / OURS).exists()
    root.write()
    assert root.counts()


def test_a_round_is_bounded_work(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """However a workload spoils its lease: one system call, and at most one look or attempt for each directory."""
    root.write()
    attempts: list[int] = []
    honest = ProjectionTree.share_lease

    def counted(tree: ProjectionTree, lease_of: tuple[str, ...], at: int) -> bool:
        attempts.append(os.fstat(at).st_ino)
        return honest(tree, lease_of, at)

    monkeypatch.setattr(ProjectionTree, "share_lease", counted)
    for _ in range(leases.CHECK_ROUNDS):
        (root.path / NAMED / lease.NAME).unlink(missing_ok=True)
        (root.path / NAMED / lease.NAME).symlink_to("loop")
        root.renew()
    assert attempts == [os.stat(root.path / NAMED).st_ino]


def test_without_hard_links_the_files_are_written_and_unvouched_and_the_error_says_why(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "")

    monkeypatch.setattr(os, "link", failing)
    for _ in range(2):
        with pytest.raises(ProjectionError, match="cannot write lease: the file system has no hard links"):
            root.write()
    assert str(read_with_lease(root.path / OURS, root.now)[0].cpus) == "2"
    assert not any(root.counts(place) for place in PLACES)
    assert os.listdir(root.path / ".staging") == []
