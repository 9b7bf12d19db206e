"""The files of one projection directory."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state import codec, files
from state.cpuset import EMPTY, CPUSet
from state.errors import ProjectionError, ProjectionMissing
from state.projection import (
    MAX_GENERATION,
    Projection,
    ProjectionDirectory,
    ProjectionFiles,
    Sharing,
    checked_name,
    read,
)
from tests.state.raw_inotify import RawInotify
from tests.support.planted import plant, unplant

FORMATS = Path(__file__).parent.parent / "data" / "projections"

TOLD = Projection(
    generation=7,
    container="a" * 64,
    name="voice",
    policy="static",
    sharing=Sharing.EXCLUSIVE,
    cpus=CPUSet.parse("2-3,8"),
    desired=CPUSet.parse("2-3,8"),
    original=CPUSet.parse("2-3"),
    settled=True,
    shared_pool=CPUSet.parse("0-1"),
    updated_at="2026-01-02T03:04:05.678Z",
)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@pytest.fixture
def directory(tmp_path: Path, here: Path) -> Iterator[ProjectionDirectory]:
    with files.directory(here) as at, files.directory(tmp_path / ".staging", create=True, mode=0o700) as staging:
        yield ProjectionDirectory(at, staging)


def test_what_was_written_is_read(directory: ProjectionDirectory, here: Path) -> None:
    directory.write(TOLD)
    assert read(here).projection == TOLD
    assert directory.told() == TOLD
    assert (here / "cpuset").read_text() == "2-3,8\n"
    assert sorted(os.listdir(here)) == ["cpuset", "status.json"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in here.iterdir()} == {0o644}


def test_the_status_has_exactly_the_promised_fields(directory: ProjectionDirectory, here: Path) -> None:
    directory.write(TOLD)
    status = json.loads((here / "status.json").read_bytes())
    promised = """version generation container name policy sharing cpus desired original leaving arriving
                  deadline_seconds settled alone never_alone shared_pool mems reason lease_seconds updated_at"""
    assert list(status) == promised.split()
    assert status["cpus"] == "2-3,8"
    assert status["leaving"] == ""


def test_a_watcher_sees_one_event_for_each_file_status_first(directory: ProjectionDirectory, here: Path) -> None:
    with RawInotify(here) as watcher:
        directory.write(TOLD)
        assert watcher.events() == ["MOVED_TO status.json", "MOVED_TO cpuset"]
        directory.write(TOLD.stamped(8, ""))
        assert watcher.events() == ["MOVED_TO status.json"]
        directory.write(TOLD.stamped(8, ""))
        assert watcher.events() == []


def test_where_no_cpus_can_be_named_there_is_no_cpuset_file(directory: ProjectionDirectory, here: Path) -> None:
    directory.write(TOLD)
    with RawInotify(here) as watcher:
        directory.write(TOLD.within(CPUSet.of(0)))
        assert watcher.events() == ["MOVED_TO status.json", "DELETE cpuset"]
    assert read(here).cpus == EMPTY


def test_what_was_written_last_is_known_by_its_bytes(directory: ProjectionDirectory, here: Path) -> None:
    """Anything else is read, and believed as far as it can be."""
    last = ProjectionFiles.of(TOLD)
    directory.put(last)
    assert directory.told(last) is last.projection
    other = TOLD.stamped(9, "")
    (here / "status.json").write_bytes(codec.encode(other))
    assert directory.told(last) == other


def test_other_cpus_than_last_time_are_one_event_as_well(directory: ProjectionDirectory, here: Path) -> None:
    """Where the status is the last one. Where it is another's, right content is left alone."""
    last, new = ProjectionFiles.of(TOLD), ProjectionFiles.of(TOLD.stamped(8, "").within(CPUSet.of(2)))
    directory.put(last)
    with RawInotify(here) as watcher:
        directory.told(last)
        directory.put(new, last)
        assert watcher.events() == ["MOVED_TO status.json", "MOVED_TO cpuset"]
        directory.told(last)
        directory.put(new, last)
        assert watcher.events() == []
        (here / "status.json").write_text("{}")
        watcher.events()
        directory.told(last)
        directory.put(new, last)
        assert watcher.events() == ["MOVED_TO status.json"]
    assert read(here).projection == new.projection


def test_tampered_cpus_are_put_right_where_they_are_as_last_time(directory: ProjectionDirectory, here: Path) -> None:
    last, new = ProjectionFiles.of(TOLD), ProjectionFiles.of(TOLD.stamped(8, ""))
    directory.put(last)
    (here / "cpuset").write_text("0-9\n")
    directory.told(last)
    directory.put(new, last)
    assert (here / "cpuset").read_text() == "2-3,8\n"


def test_a_projection_is_written_as_any_struct() -> None:
    """In one step, with every unprintable character escaped."""
    for each in (TOLD, Projection(), msgspec.structs.replace(TOLD, name="\x9b\u202e", deadline_seconds=1.5)):
        assert codec.encode_flat(each) == codec.encode(each)


def test_within_keeps_only_what_is_still_true() -> None:
    leaving = CPUSet.of(8)
    told = Projection(cpus=CPUSet.parse("2-3,8"), leaving=leaving, settled=True, arriving=CPUSet.of(9))
    assert told.within(CPUSet.parse("0-3")) == Projection(cpus=CPUSet.parse("2-3"), arriving=CPUSet.of(9))


@pytest.mark.parametrize("name", ["status.json", "cpuset"])
def test_a_link_that_was_planted_is_replaced_and_not_followed(
    directory: ProjectionDirectory, here: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "outside").write_text("untouched")
    (here / name).symlink_to(tmp_path / "outside")
    directory.write(TOLD)
    assert (tmp_path / "outside").read_text() == "untouched"
    assert read(here).projection == TOLD
    assert not (here / name).is_symlink()


@pytest.mark.parametrize("name", ["status.json", "cpuset"])
def test_a_directory_that_was_planted_is_moved_aside(directory: ProjectionDirectory, here: Path, name: str) -> None:
    """With what is in it, to a dotted name beside the files; an error if that is planted, too."""
    (here / name / "planted").mkdir(parents=True)
    directory.write(TOLD)
    assert read(here).projection == TOLD
    (here / name).unlink()
    plant(here / name)
    with pytest.raises(ProjectionError, match=f"cannot write {name}"):
        directory.write(TOLD)
    if name == "cpuset":
        with pytest.raises(ProjectionError, match="cannot remove cpuset"):
            directory.write(Projection())
        unplant(here / name)
        (here / name / "planted").mkdir(parents=True)
        directory.write(Projection())
        assert not (here / name).exists()


def test_what_cannot_be_believed_is_not_told(directory: ProjectionDirectory, here: Path) -> None:
    assert directory.told() is None
    for content in (b"", b"{", b"\xff", b"[]", codec.encode(TOLD.stamped(MAX_GENERATION + 1, ""))):
        (here / "status.json").write_bytes(content)
        assert directory.told() is None
    (here / "status.json").unlink()
    os.mkfifo(here / "status.json")
    assert directory.told() is None


def test_a_reader_is_lenient_about_other_versions(here: Path) -> None:
    (here / "status.json").write_text('{"version": 9, "cpus": "1", "sharing": "lent", "future": {"x": [1]}}')
    assert read(here).projection == Projection(version=9, cpus=CPUSet.of(1), sharing=Sharing.UNMANAGED)


@pytest.mark.parametrize("path", sorted(FORMATS.glob("*.json")), ids=lambda path: path.stem)
def test_every_format_ever_written_is_still_read(path: Path, here: Path) -> None:
    """Files in tests/data stay as they are for good."""
    (here / "status.json").write_bytes(path.read_bytes())
    assert read(here).projection == TOLD


def test_a_reader_says_what_is_wrong(here: Path, tmp_path: Path) -> None:
    with pytest.raises(ProjectionMissing, match=r"there is no status\.json in .*here"):
        read(here)
    with pytest.raises(ProjectionMissing, match=r"there is no projection directory .*nowhere"):
        read(tmp_path / "nowhere")
    (here / "status.json").write_text('{"cpus": "3-1"}')
    with pytest.raises(ProjectionError, match=r"not a projection: .*runs backwards.* `\$\.cpus`"):
        read(here)
    (here / "status.json").write_bytes(b" " * 300_000)
    with pytest.raises(ProjectionError, match="longer than"):
        read(here)
    with pytest.raises(ProjectionMissing):
        read(here / "status.json")


@pytest.mark.parametrize("name", ["a", "voice-1.eu_2", "0", "x" * 64])
def test_names_that_can_be_directories(name: str) -> None:
    assert checked_name(name) == name


@given(st.one_of(st.text(), st.sampled_from(["", ".", "..", "a/b", "-x", ".x", "x" * 65, "a\n", "a\0", "ä", "a b"])))
def test_no_other_name_gets_through(name: str) -> None:
    """No label reaches outside its own directory."""
    try:
        accepted = checked_name(name)
    except ProjectionError:
        return
    assert accepted == name
    assert name.isascii()
    assert 1 <= len(name) <= 64
    assert name[0].isalnum()
    assert all(letter.isalnum() or letter in "_.-" for letter in name)
