"""A State that cannot be written to its place: kept elsewhere, found there, and brought back."""

from __future__ import annotations

import hmac
from pathlib import Path

import pytest

from sidecar.commit.fallback_books import SparedCheckpoint, spared_state
from state.checkpoint import NAME, CheckpointFile, encode_checkpoint
from state.errors import FileUnwritable
from state.model import Originals, State
from tests.support.keys import docker


def books(number: int) -> State:
    """Return States that differ by number."""
    return State().remembering(docker(f"{number:064x}"), Originals(cpuset="", nano_cpus=number))


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "state", tmp_path / "spare"


def break_disk(monkeypatch: pytest.MonkeyPatch, broken: Path) -> None:
    """Make every write into this directory fail."""
    honest = CheckpointFile.save

    def save(self: CheckpointFile, state: State) -> None:
        if self._path == str(broken):
            raise FileUnwritable("cannot write checkpoint.json: no space left on device")
        honest(self, state)

    monkeypatch.setattr(CheckpointFile, "save", save)


def test_nothing_is_spared_where_the_books_can_be_written(places: tuple[Path, Path]) -> None:
    state, spare = places
    with SparedCheckpoint(str(state), str(spare)) as checkpoint:
        assert checkpoint.save(books(1)) == ""
        assert checkpoint.load().state == books(1)
    assert not spare.exists()


def test_the_newest_books_are_read_without_changing_a_file(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the spare while they are newer, and the sidecar's own."""
    state, spare = places
    assert spared_state(str(state), str(spare)) is None
    with SparedCheckpoint(str(state), str(spare)) as checkpoint:
        checkpoint.save(books(1))
        assert spared_state(str(state), str(spare)) is None
        with monkeypatch.context() as patch:
            break_disk(patch, state)
            checkpoint.save(books(2))
        before = {file: file.stat().st_mtime_ns for file in (*state.iterdir(), *spare.iterdir())}
        assert spared_state(str(state), str(spare)) == books(2)
        assert {file: file.stat().st_mtime_ns for file in (*state.iterdir(), *spare.iterdir())} == before
        (state / "spare.key").write_bytes(b"another")
        assert spared_state(str(state), str(spare)) is None


def test_books_of_a_full_disk_are_found_by_the_next_start(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are newer than those on the full disk, and return when there is room."""
    state, spare = places
    with SparedCheckpoint(str(state), str(spare)) as checkpoint:
        checkpoint.save(books(1))
        break_disk(monkeypatch, state)
        said = checkpoint.save(books(2))
    assert said == f"cannot write checkpoint.json: no space left on device; until then it is kept in {spare}"
    assert spare.stat().st_mode & 0o777 == 0o700
    with SparedCheckpoint(str(state), str(spare)) as checkpoint:
        loaded = checkpoint.load()
        assert loaded.state == books(2)
        assert loaded.notes == (f"the state was loaded from {spare}, because {state} could not be written",)
        monkeypatch.undo()
        assert checkpoint.save(books(3)) == ""
    assert not spare.exists()
    with SparedCheckpoint(str(state), str(spare)) as checkpoint:
        assert checkpoint.load().state == books(3)


def test_a_spare_that_is_older_is_not_believed(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The sidecar was killed after the State returned to its place, and before the spare was removed."""
    state, spare = places
    with SparedCheckpoint(str(state), str(spare)) as checkpoint:
        break_disk(monkeypatch, state)
        checkpoint.save(books(1))
        monkeypatch.undo()
    with CheckpointFile(state) as new:
        new.save(books(2))
    with SparedCheckpoint(str(state), str(spare)) as checkpoint:
        assert checkpoint.load().state == books(2)
        checkpoint.save(books(3))
    assert not spare.exists()


@pytest.mark.parametrize("is_whole", [True, False])
def test_planted_books_are_not_used(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, *, is_whole: bool
) -> None:
    """Workloads may have write access to the place of the spare; the seal is the sidecar's."""
    state, spare = places
    with SparedCheckpoint(str(state), str(spare)) as checkpoint:
        checkpoint.save(books(1))
        break_disk(monkeypatch, state)
        checkpoint.save(books(2))
        with CheckpointFile(spare) as planted:
            planted.save(books(3))
        if not is_whole:
            (spare / NAME).write_bytes(b"{")
        loaded = checkpoint.load()
    assert loaded.state == books(1)
    assert "or not the sidecar's own" in loaded.notes[0]


def test_books_that_are_swapped_after_they_were_verified_are_not_used(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was verified is what is read: a file is read once."""
    state, spare = places
    with SparedCheckpoint(str(state), str(spare)) as checkpoint:
        break_disk(monkeypatch, state)
        checkpoint.save(books(2))
    compare = hmac.compare_digest

    def swapped(*digests: bytes) -> bool:
        (spare / NAME).write_bytes(encode_checkpoint(books(666)))
        return compare(*digests)

    monkeypatch.setattr(hmac, "compare_digest", swapped)
    with SparedCheckpoint(str(state), str(spare)) as checkpoint:
        assert checkpoint.load().state == books(2)


def test_books_without_a_seal_are_not_used(places: tuple[Path, Path]) -> None:
    state, spare = places
    with SparedCheckpoint(str(state), str(spare)) as checkpoint:
        checkpoint.save(books(1))
        with CheckpointFile(spare) as planted:
            planted.save(books(2))
        assert checkpoint.load().state == books(1)


def test_books_that_can_be_written_nowhere(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is that of the State's own place."""
    state, spare = places

    def full(self: CheckpointFile, state: State) -> None:
        raise FileUnwritable(f"cannot write {self._path}")

    with SparedCheckpoint(str(state), str(spare)) as checkpoint:
        monkeypatch.setattr(CheckpointFile, "save", full)
        with pytest.raises(FileUnwritable, match=f"cannot write {state}$"):
            checkpoint.save(books(1))
