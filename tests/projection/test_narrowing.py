"""Withdrawals from many containers at once: the same files as one by one, whatever workloads put in their place."""

from __future__ import annotations

import os
import resource
import shutil
import stat
from pathlib import Path

import pytest

from sidecar.projection.file_replacer import Replacer
from sidecar.projection.projections import Projections
from state.cpuset import EMPTY, CPUSet
from state.errors import ProjectionError
from state.projection import ProjectionDirectory, ProjectionFiles, read
from tests.projection.test_projections import A, B, C, a, b, c, told
from tests.state.raw_inotify import RawInotify

KEPT = CPUSet.parse("2-3")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cpuset-sidecar"


@pytest.fixture
def projections(root: Path, replacer: Replacer) -> Projections:
    made = Projections(root, clock=lambda: 1767323045.678, replacer=replacer)
    for each in (A, B, C):
        made.write(each, [], told(each, "2-5"))
    return made


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the containers whose files Python wrote."""
    found: list[str] = []
    honest = ProjectionDirectory.put

    def put(self: ProjectionDirectory, new: ProjectionFiles, last: ProjectionFiles | None = None) -> None:
        found.append(new.projection.container)
        honest(self, new, last)

    monkeypatch.setattr(ProjectionDirectory, "put", put)
    return found


def withdraw(projections: Projections, *containers: str, cpus: CPUSet = KEPT) -> list[str]:
    """Withdraw as the allocator does; return what is left to the writing one by one."""
    left = projections.withdraw_many([(each, cpus) for each in containers])
    for each in left:
        projections.withdraw(each, cpus)
    return left


def test_all_files_stop_naming_what_is_taken(projections: Projections, root: Path, replacer: Replacer) -> None:
    """With one more number, not settled, and with the same modes."""
    left = withdraw(projections, A, B, C)
    assert left == ([] if replacer.is_able else [A, B, C])
    for short in (a, b, c):
        found = read(root / "by-id" / short)
        assert (found.cpus, found.settled, found.generation) == (KEPT, False, 2)
        assert found.updated_at == "2026-01-02T03:04:05.678Z"
        assert (root / "by-id" / short / "cpuset").read_text() == "2-3\n"
        modes = {stat.S_IMODE((root / "by-id" / short / each).stat().st_mode) for each in ("cpuset", "status.json")}
        assert modes == {0o644}
    assert not [each for each in os.listdir(root / ".staging") if each.endswith(".new")]


def test_what_follows_goes_on_from_there(projections: Projections, root: Path) -> None:
    """Nothing is written where nothing is taken, and the next projection has the next number."""
    withdraw(projections, A, B)
    with RawInotify(root / "by-id" / a) as watcher:
        assert withdraw(projections, A, B, cpus=CPUSet.parse("2-7")) in ([], [A, B])
        assert watcher.events() == []
    projections.write(A, [], told(A, "2-5"))
    found = read(root / "by-id" / a)
    assert (found.cpus, found.generation, found.vouched) == (CPUSet.parse("2-5"), 3, found.vouched)
    assert projections.lost([A, B, C], reads_files=True) == []


def test_a_watcher_sees_one_move_of_each_file(projections: Projections, root: Path) -> None:
    """The status first."""
    with RawInotify(root / "by-id" / a) as watcher:
        withdraw(projections, A, B)
        assert watcher.events() == ["MOVED_TO status.json", "MOVED_TO cpuset"]


def test_a_number_that_a_workload_wrote_counts(projections: Projections, root: Path) -> None:
    """Also where many are withdrawn: the file is read before it is replaced."""
    status = root / "by-id" / a / "status.json"
    status.write_text(status.read_text().replace('"generation":1,', '"generation":700,'))
    assert A in withdraw(projections, A, B)
    assert [read(root / "by-id" / each).generation for each in (a, b)] == [701, 2]
    assert [read(root / "by-id" / each).cpus for each in (a, b)] == [KEPT, KEPT]


@pytest.mark.parametrize("planted", ["link", "pipe", "directory", "nothing", "longer"])
def test_what_was_planted_is_replaced_and_followed_nowhere(
    projections: Projections, root: Path, planted: str, written: list[str]
) -> None:
    status, precious = root / "by-id" / a / "status.json", root.parent / "precious"
    content = status.read_bytes()
    status.unlink()
    precious.write_bytes(content)
    match planted:
        case "link":
            status.symlink_to(precious)
        case "pipe":
            os.mkfifo(status)
        case "directory":
            status.mkdir()
        case "longer":
            status.write_bytes(content + b" ")
        case _:
            pass
    withdraw(projections, A, B)
    assert A in written
    assert [read(root / "by-id" / each).cpus for each in (a, b)] == [KEPT, KEPT]
    assert precious.read_bytes() == content


def test_a_directory_that_is_gone_or_a_link_is_made_again(projections: Projections, root: Path) -> None:
    elsewhere = root.parent / "elsewhere"
    (root / "by-id" / a).rename(elsewhere)
    (root / "by-id" / a).symlink_to(elsewhere)
    shutil.rmtree(root / "by-id" / c)
    withdraw(projections, A, B, C)
    assert [read(root / "by-id" / each).cpus for each in (b, c)] == [KEPT, KEPT]
    assert read(elsewhere).cpus == CPUSet.parse("2-5"), "no link is followed"


def test_a_file_that_a_crash_left_in_staging_is_in_no_way(projections: Projections, root: Path) -> None:
    for name in (".status.json.new", ".cpuset.new"):
        (root / ".staging" / name).write_text("left by a crash")
    withdraw(projections, A, B, C)
    assert [read(root / "by-id" / each).cpus for each in (a, b, c)] == [KEPT] * 3


def test_without_space_untrue_files_are_removed(projections: Projections, root: Path) -> None:
    """Whoever writes them: no file is better than a wrong one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(ProjectionError):
            withdraw(projections, A, B)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    for name in ("status.json", "cpuset"):
        assert not (root / "by-id" / a / name).exists() or (root / "by-id" / a / name).read_text() == "2-3\n"
    withdraw(projections, A, B)
    assert [read(root / "by-id" / each).cpus for each in (a, b)] == [KEPT, KEPT]
    assert [read(root / "by-id" / each).generation > 1 for each in (a, b)] == [True, True]


def test_a_root_that_is_gone_costs_no_more_than_the_withdrawal(projections: Projections, root: Path) -> None:
    """It is made again by the next write."""
    shutil.rmtree(root)
    root.write_text("no directory")
    assert projections.withdraw_many([(A, KEPT), (B, KEPT)]) == [A, B]
    root.unlink()
    withdraw(projections, A, B)
    assert [read(root / "by-id" / each).cpus for each in (a, b)] == [KEPT, KEPT]


def test_what_is_not_plain_is_left_to_the_rules(projections: Projections, root: Path) -> None:
    """A name, CPUs that leave, nothing that stays, another's directory, and what is not known."""
    projections.write(A, ["voice"], told(A, "2-5"))
    assert withdraw(projections, A, B, "d" * 64)[:1] == [A]
    for place in (f"by-id/{a}", "by-name/voice", f"by-name/voice/by-id/{a}"):
        assert read(root / place).cpus == KEPT
    assert withdraw(projections, C, B, cpus=CPUSet.parse("7")) == [C, B]
    assert not (root / "by-id" / c / "cpuset").exists()
    assert read(root / "by-id" / c).cpus == EMPTY
    twin = c + "f" * 52
    assert projections.withdraw_many([(twin, KEPT)]) == [twin]
