"""The checkpoint: the committed State is the loaded one, whatever happened in between."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from state import codec
from state.checkpoint import (
    KEPT_ASIDE,
    NAME,
    PREVIOUS,
    VERSION,
    CheckpointFile,
    Loaded,
    decode_checkpoint,
    encode_checkpoint,
)
from state.cpuset import CPUSet
from state.demand import Demand
from state.errors import CheckpointCorrupt, CheckpointTooNew, FileUnreadable, FileUnwritable
from state.key import ContainerKey
from state.model import Originals, State
from tests.support.keys import docker

FORMATS = Path(__file__).parent.parent / "data" / "checkpoints"


VOICE = docker("a" * 64)


def books(policy: str = "static", container: ContainerKey = VOICE) -> State:
    state = State(policy=policy, online=CPUSet.parse("0-7"), reserved=CPUSet.of(0))
    state = state.granted(Demand(container=container, name="voice", cpus=2), CPUSet.parse("2-3"))
    return state.remembering(container, Originals(cpuset="", nano_cpus=2_000_000_000))


def saved(directory: Path, *states: State) -> None:
    with CheckpointFile(directory) as checkpoint:
        for state in states:
            checkpoint.save(state)


def loaded(directory: Path) -> Loaded:
    with CheckpointFile(directory) as checkpoint:
        return checkpoint.load()


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    saved(tmp_path / "state", books("static"), books("none"))
    assert loaded(tmp_path / "state") == Loaded(state=books("none"))
    assert decode_checkpoint((tmp_path / "state" / PREVIOUS).read_bytes()) == books("static")
    assert sorted(os.listdir(tmp_path / "state")) == [NAME, PREVIOUS]
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state" / NAME).stat().st_mode & 0o777 == 0o600


def test_an_empty_directory_holds_no_books_and_that_is_no_fault(tmp_path: Path) -> None:
    assert loaded(tmp_path) == Loaded(state=None)


def test_the_file_is_plain_json_with_a_version(tmp_path: Path) -> None:
    saved(tmp_path, books())
    content = json.loads((tmp_path / NAME).read_bytes())
    assert list(content) == ["version", "checksum", "state"]
    assert content["version"] == VERSION
    assert content["state"]["assignments"]["docker:" + "a" * 64]["cpus"] == "2-3"


@pytest.mark.parametrize("path", sorted(FORMATS.glob("v*.json")), ids=lambda path: path.stem)
def test_every_format_ever_written_is_still_read(path: Path) -> None:
    """Files in tests/data stay as they are for good."""
    expected = json.loads((FORMATS / f"{path.stem}.expected").read_bytes())
    assert json.loads(codec.encode(decode_checkpoint(path.read_bytes()))) == expected


def test_the_present_format_has_not_drifted() -> None:
    """A change here needs a new version, a migration, and a new file in tests/data."""
    assert (
        encode_checkpoint(decode_checkpoint((FORMATS / f"v{VERSION}.json").read_bytes()))
        == (FORMATS / f"v{VERSION}.json").read_bytes()
    )


def test_a_change_of_any_byte_is_noticed() -> None:
    content = encode_checkpoint(books())
    for at in range(len(content)):
        for other in {content[at] ^ 1, content[at] ^ 0x20, 0x20, 0x30} - {content[at]}:
            with pytest.raises((CheckpointCorrupt, CheckpointTooNew)):
                decode_checkpoint(content[:at] + bytes([other]) + content[at + 1 :])
    for at in range(len(content)):
        with pytest.raises(CheckpointCorrupt):
            decode_checkpoint(content[:at])
        with pytest.raises(CheckpointCorrupt):
            decode_checkpoint(content[:at] + b" " + content[at:])
    with pytest.raises(CheckpointCorrupt):
        decode_checkpoint(content + b"\n")


def test_a_rightly_summed_file_of_another_shape_is_corrupt() -> None:
    from state.checkpoint import _framed

    for body in (b"[]", b"{}x", b'{"online":"7-1"}', b'{"online":4}', b"null", b'{"assignments":{"a":{}}}'):
        with pytest.raises(CheckpointCorrupt):
            decode_checkpoint(_framed(1, body))
    for body in (b"[]", b"null", b"{}", b'{"assignments":[{}]}', b'{"assignments":[7]}'):
        with pytest.raises(CheckpointCorrupt):
            decode_checkpoint(_framed(0, body))
    with pytest.raises(CheckpointCorrupt):
        decode_checkpoint(_framed(-1, b"{}"))


def test_a_corrupt_file_is_set_aside_and_the_one_before_is_used(tmp_path: Path) -> None:
    saved(tmp_path, books("static"), books("none"))
    (tmp_path / NAME).write_bytes(b"not json")
    found = loaded(tmp_path)
    assert found.state == books("static")
    assert "checkpoint.json cannot be used" in found.notes[0]
    assert "set aside as checkpoint.corrupt-1.json" in found.notes[0]
    assert "went back to checkpoint.previous.json" in found.notes[1]
    assert (tmp_path / "checkpoint.corrupt-1.json").read_bytes() == b"not json"


def test_two_corrupt_files_are_both_set_aside(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"one")
    (tmp_path / PREVIOUS).write_bytes(b"two")
    found = loaded(tmp_path)
    assert found.state is None
    assert len(found.notes) == 2
    assert (tmp_path / "checkpoint.corrupt-1.json").read_bytes() == b"one"
    assert (tmp_path / "checkpoint.corrupt-2.json").read_bytes() == b"two"


def test_a_newer_format_is_set_aside_whole_and_named(tmp_path: Path) -> None:
    from state.checkpoint import _framed

    content = _framed(VERSION + 1, b'{"everything":"different"}')
    (tmp_path / NAME).write_bytes(content)
    found = loaded(tmp_path)
    assert found.state is None
    assert f"format {VERSION + 1}" in found.notes[0]
    assert "update the program" in found.notes[0]
    assert (tmp_path / "checkpoint.newer-1.json").read_bytes() == content


def test_only_so_many_are_kept_aside_and_a_removal_is_said(tmp_path: Path) -> None:
    for number in range(1, KEPT_ASIDE + 3):
        (tmp_path / NAME).write_bytes(b"bad %d" % number)
        found = loaded(tmp_path)
        assert ("was removed" in found.notes[0]) == (number > KEPT_ASIDE)
    kept = sorted(os.listdir(tmp_path), key=lambda name: int(name.split("-")[1].split(".")[0]))
    assert kept == [f"checkpoint.corrupt-{n}.json" for n in range(3, KEPT_ASIDE + 3)]


def test_a_link_in_the_place_of_the_checkpoint_is_set_aside_unread(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(encode_checkpoint(books()))
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / NAME).symlink_to(tmp_path / "elsewhere")
    found = loaded(tmp_path / "state")
    assert found.state is None
    assert "symbolic link" in found.notes[0]


def test_a_directory_that_was_deleted_under_us_is_made_again(tmp_path: Path) -> None:
    with CheckpointFile(tmp_path / "state") as checkpoint:
        checkpoint.save(books("none"))
        shutil.rmtree(tmp_path / "state")
        checkpoint.save(books("static"))
        assert checkpoint.load().state == books("static")
    assert loaded(tmp_path / "state").state == books("static")


def test_a_file_in_the_place_of_the_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(FileUnreadable, match="a file is there"):
        CheckpointFile(tmp_path / "state")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename"])
def test_a_disk_that_fails_is_told_and_the_committed_books_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    def fails(*args: object, **named: object) -> object:
        raise OSError(number, os.strerror(number))

    with CheckpointFile(tmp_path) as checkpoint:
        checkpoint.save(books("none"))
        with monkeypatch.context() as patched:
            patched.setattr(os, call, fails)
            with pytest.raises(FileUnwritable, match=r"cannot write checkpoint\.json: .+"):
                checkpoint.save(books("static"))
        assert checkpoint.load() == Loaded(state=books("none"))
        checkpoint.save(books("static"))
        assert checkpoint.load() == Loaded(state=books("static"))


def test_content_is_on_the_disk_before_the_rename_and_the_rename_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no other system call is made: this is on the path of every placement."""
    done: list[str] = []

    def recorded(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: object, **named: object) -> object:
            done.append(name)
            return real(*args, **named)

        return call

    with CheckpointFile(tmp_path) as checkpoint:
        checkpoint.save(books())
        with monkeypatch.context() as patched:
            for name in ("open", "write", "fchmod", "fsync", "close", "rename", "unlink", "link", "stat", "listdir"):
                patched.setattr(os, name, recorded(name, getattr(os, name)))
            checkpoint.save(books())
    assert done == ["open", "fchmod", "write", "fsync", "close", "rename", "rename", "fsync"]


class PowerLoss(BaseException):
    """The machine stops here: nothing that follows takes effect."""


def test_a_crash_before_any_system_call_leaves_a_file_that_loads(tmp_path: Path) -> None:
    """Either the previous State or the new one, never neither, and without any error."""
    outcomes = []
    for calls in range(100):
        directory = tmp_path / str(calls)
        saved(directory, books("first"), books("before"))
        finished = saved_with_power_for(directory, books("after"), calls)
        found = loaded(directory)
        assert found.notes == ()
        assert found.state in (books("before"), books("after"))
        assert finished <= (found.state == books("after"))
        outcomes.append(found.state == books("after"))
        saved(directory, books("later"))
        assert loaded(directory) == Loaded(state=books("later"))
        if finished:
            break
    assert outcomes == sorted(outcomes)
    assert 7 <= len(outcomes) <= 12


def saved_with_power_for(directory: Path, state: State, calls: int) -> bool:
    """Save, with a power loss after this many system calls; return whether it completed."""
    left = calls

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: object, **named: object) -> object:
            nonlocal left
            if left == 0:
                raise PowerLoss
            left -= 1
            return real(*args, **named)

        return call

    checkpoint = CheckpointFile(directory)
    with pytest.MonkeyPatch.context() as patched:
        for name in ("open", "write", "fsync", "fchmod", "rename", "unlink"):
            patched.setattr(os, name, counted(getattr(os, name)))
        try:
            checkpoint.save(state)
        except PowerLoss:
            return False
        finally:
            checkpoint.close()
    return True


def test_brackets_without_end_are_a_corrupt_checkpoint() -> None:
    """However the JSON reader fails: it is set aside like any other."""
    with pytest.raises(CheckpointCorrupt):
        decode_checkpoint(b"[" * 100_000)
