"""The root of projection directories: every container's files, by id and by name."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from sidecar.projection.projections import Projections
from state.cpuset import EMPTY, CPUSet
from state.errors import ProjectionError
from state.lease import LEASE_SECONDS
from state.projection import Projection, Sharing, read
from tests.state.raw_inotify import RawInotify
from tests.support.planted import plant, unplant

A, B, C = "a" * 64, "b" * 64, "c" * 64
a, b, c = A[:12], B[:12], C[:12]


def opened(root: Path) -> Projections:
    return Projections(root, clock=lambda: 1767323045.678)


def told(container: str, cpus: str, *, name: str = "voice", settled: bool = True) -> Projection:
    return Projection(
        container=container,
        name=name,
        policy="static",
        sharing=Sharing.EXCLUSIVE,
        cpus=CPUSet.parse(cpus),
        desired=CPUSet.parse(cpus),
        settled=settled,
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cpuset-sidecar"


@pytest.fixture
def projections(root: Path) -> Projections:
    return opened(root)


def test_a_container_finds_itself_by_id_and_by_name(projections: Projections, root: Path) -> None:
    projections.write(A, ["voice"], told(A, "2-3"))
    for place in (f"by-id/{a}", "by-name/voice", f"by-name/voice/by-id/{a}"):
        found = read(root / place)
        assert found.projection.says_the_same_as(msgspec.structs.replace(told(A, "2-3"), lease_seconds=LEASE_SECONDS))
        assert found.generation == 1
        assert found.updated_at == "2026-01-02T03:04:05.678Z"
        assert (root / place / "cpuset").read_text() == "2-3\n"


def test_the_modes_are_right_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        opened(tmp_path / "root").write(A, ["voice"], told(A, "2-3"))
    finally:
        os.umask(before)
    modes = {
        str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "root").rglob("*")
    }
    assert modes.pop("root/.staging") == 0o700
    for path, mode in modes.items():
        assert mode == (0o644 if path.endswith(("cpuset", "status.json")) or "lease" in path else 0o755), path


def test_a_watcher_sees_one_event_a_file_and_nothing_when_nothing_changed(projections: Projections, root: Path) -> None:
    projections.write(A, ["voice"], told(A, "2-3", settled=False))
    with RawInotify(root / "by-id" / a) as by_id, RawInotify(root / "by-name" / "voice") as by_name:
        for watcher in (by_id, by_name):
            projections.write(A, ["voice"], told(A, "2-3", settled=False))
            assert watcher.events() == []
        projections.write(A, ["voice"], told(A, "2-3"))
        for watcher in (by_id, by_name):
            assert watcher.events() == ["MOVED_TO status.json"]
        projections.write(A, ["voice"], told(A, "2-5"))
        for watcher in (by_id, by_name):
            assert watcher.events() == ["MOVED_TO status.json", "MOVED_TO cpuset"]


def test_the_number_goes_on_after_a_restart_and_only_the_lease_is_new(root: Path) -> None:
    first = opened(root)
    for cpus in ("2", "2-3", "2-4"):
        first.write(A, ["voice"], told(A, cpus))
    second = opened(root)
    with RawInotify(root / "by-id" / a) as watcher:
        second.write(A, ["voice"], told(A, "2-4"))
        assert watcher.events() == ["MOVED_TO lease"]
    second.write(A, ["voice"], told(A, "2-5"))
    assert read(root / "by-id" / a).generation == 4


def test_the_number_of_a_name_goes_on_from_one_container_to_the_next(projections: Projections, root: Path) -> None:
    """A watcher of a name across a recreated container sees growing generations."""
    numbers = []
    for container in (C, B, A):
        projections.write(container, ["voice"], told(container, "2-3"))
        numbers.append(read(root / "by-name" / "voice").generation)
        projections.remove(container)
        numbers.append(read(root / "by-name" / "voice").generation)
    assert numbers == sorted(set(numbers))


def test_a_name_that_is_no_longer_used_is_kept_and_says_so(projections: Projections, root: Path) -> None:
    """It may be mounted; a mount of a removed directory would stay stale indefinitely."""
    projections.write(A, ["voice"], told(A, "2-3"))
    inode = (root / "by-name" / "voice").stat().st_ino
    projections.remove(A)
    assert not (root / "by-id" / a).exists()
    assert os.listdir(root / "by-name" / "voice" / "by-id") == []
    left = read(root / "by-name" / "voice")
    assert (left.sharing, left.cpus, left.container, left.name) == (Sharing.UNMANAGED, EMPTY, "", "voice")
    assert not (root / "by-name" / "voice" / "cpuset").exists()
    projections.write(B, ["voice"], told(B, "4-5"))
    assert read(root / "by-name" / "voice").cpus == CPUSet.parse("4-5")
    assert (root / "by-name" / "voice").stat().st_ino == inode


def test_replicas_share_a_name_and_the_first_stands_for_it(projections: Projections, root: Path) -> None:
    """No later claim takes it over, whatever the id: not its files, and not when an acknowledgement is looked for."""
    voice = root / "by-name" / "voice"
    projections.write(B, ["voice"], told(B, "4-5"))
    projections.write(C, ["voice"], told(C, "6-7"))
    assert sorted(os.listdir(voice / "by-id")) == [b, c]
    assert read(voice).container == B
    assert read(voice / "by-id" / c).cpus == CPUSet.parse("6-7")
    projections.write(A, ["voice"], told(A, "2-3"))
    assert (read(voice).container, read(voice / "by-id" / a).container) == (B, A)
    assert projections.claims.shared() == {"voice": (b, c, a)}
    projections.write(B, ["voice"], told(B, "4"))
    assert (voice / "cpuset").read_text() == "4\n"
    projections.remove(C)
    assert read(voice).container == B
    projections.remove(B)
    assert read(voice).container == A


def test_the_first_of_a_name_is_the_first_after_a_restart_too(root: Path) -> None:
    """The order of claims is recorded where no workload can write."""
    first = opened(root)
    first.write(B, ["voice"], told(B, "4-5"))
    first.write(A, ["voice"], told(A, "2-3"))
    again = opened(root)
    again.write(A, ["voice"], told(A, "2"))
    again.write(B, ["voice"], told(B, "4"))
    assert (read(root / "by-name" / "voice").container, again.claims.of("voice")) == (B, (b, a))


def test_the_heir_of_a_name_is_known_after_a_restart_too(root: Path) -> None:
    first = opened(root)
    first.write(A, ["voice"], told(A, "2-3"))
    first.write(B, ["voice"], told(B, "4-5"))
    before = read(root / "by-name" / "voice").generation
    opened(root).remove(A)
    after = read(root / "by-name" / "voice")
    assert (after.container, after.generation > before) == (B, True)


def test_a_container_that_changes_its_names_leaves_the_former(projections: Projections, root: Path) -> None:
    projections.write(A, ["old", "kept"], told(A, "2-3"))
    projections.write(A, ["kept", "new"], told(A, "2-3"))
    assert read(root / "by-name" / "old").sharing is Sharing.UNMANAGED
    assert read(root / "by-name" / "kept").cpus == CPUSet.parse("2-3")
    assert read(root / "by-name" / "new").cpus == CPUSet.parse("2-3")


def test_what_is_withdrawn_is_in_no_file_any_more(projections: Projections, root: Path) -> None:
    projections.write(A, ["voice"], told(A, "2-5"))
    projections.withdraw(A, CPUSet.parse("0-3"))
    for place in (f"by-id/{a}", "by-name/voice", f"by-name/voice/by-id/{a}"):
        found = read(root / place)
        assert (found.cpus, found.settled, found.generation) == (CPUSet.parse("2-3"), False, 2)
        assert (root / place / "cpuset").read_text() == "2-3\n"


def test_withdrawing_what_is_not_named_touches_nothing(projections: Projections, root: Path) -> None:
    projections.write(A, ["voice"], told(A, "2-3"))
    with RawInotify(root / "by-id" / a) as watcher:
        projections.withdraw(A, CPUSet.parse("2-7"))
        projections.withdraw(B, CPUSet.of(0))
        assert watcher.events() == []


def test_withdrawing_everything_leaves_no_cpuset_file(projections: Projections, root: Path) -> None:
    """It must name neither the CPUs that it is losing nor those that it lacks yet."""
    projections.write(A, ["voice"], told(A, "2-3"))
    projections.withdraw(A, CPUSet.parse("4-5"))
    assert not (root / "by-id" / a / "cpuset").exists()
    assert not (root / "by-name" / "voice" / "cpuset").exists()
    projections.write(A, ["voice"], told(A, "4-5"))
    assert (root / "by-name" / "voice" / "cpuset").read_text() == "4-5\n"


def test_withdrawing_right_after_a_restart_reaches_every_file(root: Path) -> None:
    opened(root).write(A, ["voice"], told(A, "2-5"))
    opened(root).withdraw(A, CPUSet.parse("2-3"))
    for place in (f"by-id/{a}", "by-name/voice", f"by-name/voice/by-id/{a}"):
        assert (root / place / "cpuset").read_text() == "2-3\n"


def test_a_withdrawal_that_failed_is_tried_again(projections: Projections, root: Path) -> None:
    projections.write(A, ["voice"], told(A, "2-5"))
    cpuset = root / "by-name" / "voice" / "cpuset"
    plant(cpuset)
    with pytest.raises(ProjectionError):
        projections.withdraw(A, CPUSet.parse("2-3"))
    assert (root / "by-id" / a / "cpuset").read_text() == "2-3\n"
    unplant(cpuset)
    cpuset.write_text("2-5\n")
    projections.withdraw(A, CPUSet.parse("2-3"))
    assert cpuset.read_text() == "2-3\n"


def test_what_cannot_be_rewritten_is_withheld(
    projections: Projections, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk nothing can be written, but untrue files can be removed."""
    places = [root / f"by-id/{a}", root / "by-name/voice", root / f"by-name/voice/by-id/{a}"]
    projections.write(A, ["voice"], told(A, "2-5"))

    def is_full(*arguments: object, **named: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", is_full)
        with pytest.raises(ProjectionError, match="no space left"):
            projections.write(A, ["voice"], told(A, "2-7"))
        assert {(place / "cpuset").read_text() for place in places} == {"2-5\n"}
        with pytest.raises(ProjectionError, match="no space left"):
            projections.withdraw(A, CPUSet.parse("2-3"))
    assert [os.path.lexists(place / name) for place in places for name in ("cpuset", "status.json")] == [False] * 6
    projections.withdraw(A, CPUSet.parse("2-3"))
    assert {(place / "cpuset").read_text() for place in places} == {"2-3\n"}
    assert {read(place).generation > 1 for place in places} == {True}


def test_only_the_retained_stay(projections: Projections, root: Path) -> None:
    for container, cpus in ((A, "2"), (B, "3"), (C, "4")):
        projections.write(container, ["voice"], told(container, cpus))
    projections.retain([B])
    assert os.listdir(root / "by-id") == [b]
    assert os.listdir(root / "by-name" / "voice" / "by-id") == [b]
    assert read(root / "by-name" / "voice").container == B


def test_leftovers_of_an_earlier_run_are_found_and_strange_files_left_alone(root: Path) -> None:
    opened(root).write(A, ["voice"], told(A, "2"))
    for strange in ("by-id/README", "by-id/nothex", "by-name/.hidden"):
        (root / strange).mkdir()
    opened(root).retain([])
    assert sorted(os.listdir(root / "by-id")) == ["README", "nothex"]
    assert os.listdir(root / "by-name" / "voice" / "by-id") == []


@pytest.mark.parametrize("what", ["everything", "by-id", "by-name/voice", ".staging", "files"])
def test_what_was_deleted_under_us_is_made_again(projections: Projections, root: Path, what: str) -> None:
    projections.write(A, ["voice"], told(A, "2-3"))
    match what:
        case "everything":
            shutil.rmtree(root)
        case "files":
            for path in [*root.rglob("cpuset"), *root.rglob("status.json")]:
                path.unlink()
        case _:
            shutil.rmtree(root / what)
    projections.write(A, ["voice"], told(A, "2-3"))
    for place in (f"by-id/{a}", "by-name/voice", f"by-name/voice/by-id/{a}"):
        assert (root / place / "cpuset").read_text() == "2-3\n"
        assert read(root / place).generation == 1


def test_a_tampered_file_is_put_right(projections: Projections, root: Path) -> None:
    projections.write(A, ["voice"], told(A, "2-3"))
    (root / "by-name" / "voice" / "cpuset").write_text("0-63\n")
    (root / "by-id" / a / "status.json").write_text("rubbish")
    projections.write(A, ["voice"], told(A, "2-3"))
    assert (root / "by-name" / "voice" / "cpuset").read_text() == "2-3\n"
    assert read(root / "by-id" / a).generation == 1


def test_a_number_that_a_workload_wrote_makes_ours_grow_beyond_it(projections: Projections, root: Path) -> None:
    projections.write(A, ["voice"], told(A, "2-3"))
    status = root / "by-name" / "voice" / "status.json"
    status.write_text(json.dumps(json.loads(status.read_bytes()) | {"generation": 900}))
    projections.write(A, ["voice"], told(A, "2-3"))
    assert {read(root / p).generation for p in (f"by-id/{a}", "by-name/voice", f"by-name/voice/by-id/{a}")} == {901}


@pytest.mark.parametrize("kind", ["symlink", "dangling", "file", "fifo"])
@pytest.mark.parametrize("place", ["by-name/voice", "by-name/voice/by-id", f"by-name/voice/by-id/{a}"])
def test_what_is_planted_is_replaced_and_is_never_followed(
    projections: Projections, root: Path, tmp_path: Path, place: str, kind: str
) -> None:
    """In the place of a directory."""
    outside = tmp_path / "outside"
    outside.mkdir()
    planted = root / place
    planted.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "symlink":
            planted.symlink_to(outside)
        case "dangling":
            planted.symlink_to(tmp_path / "nowhere")
        case "file":
            planted.write_text("")
        case _:
            os.mkfifo(planted)
    projections.write(A, ["voice"], told(A, "2-3"))
    assert os.listdir(outside) == []
    assert not (tmp_path / "nowhere").exists()
    for at in (f"by-id/{a}", "by-name/voice", f"by-name/voice/by-id/{a}"):
        assert (root / at / "cpuset").read_text() == "2-3\n"
        assert (root / at).resolve() == root.resolve() / at
    opened(root).retain([A])


def test_a_planted_link_is_not_followed_when_removing(projections: Projections, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "cpuset").write_text("precious")
    projections.write(A, ["voice"], told(A, "2-3"))
    shutil.rmtree(root / "by-name" / "voice" / "by-id")
    (root / "by-name" / "voice" / "by-id").symlink_to(outside.parent)
    shutil.rmtree(root / "by-id" / a)
    (root / "by-id" / a).symlink_to(outside)
    projections.remove(A)
    assert (outside / "cpuset").read_text() == "precious"
    assert not (root / "by-id" / a).is_symlink()


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/etc", "-x", "x" * 65, "a\n", "ä"])
def test_a_bad_name_is_refused_before_anything_is_written(projections: Projections, root: Path, name: str) -> None:
    with pytest.raises(ProjectionError, match="not a name for a projection"):
        projections.write(A, ["voice", name], told(A, "2-3"))
    assert os.listdir(root) == [".staging"]


@pytest.mark.parametrize("container", ["", "abc", "../../etc/passwd", "A" * 64, "a" * 11, "a" * 65])
def test_a_bad_id_is_refused(projections: Projections, root: Path, container: str) -> None:
    with pytest.raises(ProjectionError, match="not a container's id"):
        projections.write(container, [], told(A, "2-3"))
    assert os.listdir(root) == [".staging"]


def test_a_root_that_is_a_link_or_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").write_text("")
    for name in ("link", "file"):
        with pytest.raises(ProjectionError, match="is there"):
            opened(tmp_path / name)


def test_what_was_told_is_corrected_and_what_was_not_stays_untold(projections: Projections, root: Path) -> None:
    """A correction makes no directory: during a release all are removed."""
    projections.write(A, ["voice"], told(A, "2-3"))
    projections.correct(A, msgspec.structs.replace(told(A, "2-3"), sharing=Sharing.SHARED, settled=False))
    assert read(root / "by-name" / "voice").sharing is Sharing.SHARED
    assert read(root / "by-id" / a).cpus == CPUSet.of(2, 3)
    projections.retain([])
    projections.correct(A, told(A, "2-3"))
    assert os.listdir(root / "by-id") == []


def test_a_correction_that_cannot_be_written_leaves_no_wrong_file(
    projections: Projections, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is better than one that is no longer true."""
    projections.write(A, [], told(A, "2-3"))
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(os, "write", Mock(side_effect=full))
    with pytest.raises(ProjectionError):
        projections.correct(A, msgspec.structs.replace(told(A, "2-3"), sharing=Sharing.SHARED, settled=False))
    assert not (root / "by-id" / a / "status.json").exists()


def test_no_descriptor_is_left_open(projections: Projections, root: Path) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    for cpus in ("2", "3", "4"):
        projections.write(A, ["voice"], told(A, cpus))
        projections.withdraw(A, CPUSet.of(0))
    (root / "by-name" / "voice" / "status.json").unlink()
    (root / "by-name" / "voice" / "by-id" / b).symlink_to("/")
    projections.write(B, ["voice"], told(B, "5"))
    projections.retain([])
    assert sorted(os.listdir("/proc/self/fd")) == before
