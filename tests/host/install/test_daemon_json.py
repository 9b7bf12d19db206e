"""The Docker daemon's configuration file: keys are set and removed, all else stays, unclear files are left alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.failures import ConfigError
from sidecar.host.install.daemon_json import (
    as_before,
    decode_settings,
    encode_settings,
    is_put_back,
    read_daemon_json,
    see_that_writable,
    take_back,
    value_at,
    with_value,
    without,
    write_daemon_json,
)
from sidecar.host.install.kept_copy import ABSENT, SUFFIX
from tests.support.own_mounts import with_own_mounts

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_SETTINGS = st.dictionaries(st.text(max_size=8), _VALUES, max_size=5)


@given(_SETTINGS)
def test_what_is_written_reads_the_same_in_the_same_order(settings: dict[str, Any]) -> None:
    """No foreign key or value is lost or moved."""
    again = decode_settings(encode_settings(settings), "daemon.json")
    assert again == settings
    assert list(again) == list(settings)


@given(_SETTINGS, st.lists(st.text(max_size=5), min_size=1, max_size=3))
def test_a_key_that_was_set_and_removed_leaves_what_was_there(settings: dict[str, Any], keys: list[str]) -> None:
    """Install and remove are inverse, if the key was unset and no table was empty before."""
    if any(value_at(settings, keys[:depth]) is not None for depth in range(1, len(keys) + 1)) or keys[0] in settings:
        return
    assert without(with_value(settings, keys, "mine"), keys) == settings


@pytest.mark.parametrize("text", [r"\ud800", r"a\udfff\ud83d\ude00", r"\udc00\ud800"])
def test_half_a_character_stays_as_it_was_written(text: str) -> None:
    """JSON may name one, and UTF-8 has no bytes for it."""
    settings = decode_settings(f'{{"x": "{text}"}}'.encode(), "daemon.json")
    assert json.loads(encode_settings(settings)) == json.loads(f'{{"x": "{text}"}}')


def test_one_runtime_is_added_beside_others_and_taken_out_again() -> None:
    """An entry of a table comes and goes alone; the table goes with its last entry."""
    before = {"runtimes": {"kata": {"path": "/usr/bin/kata"}}, "debug": True}
    after = with_value(before, ("runtimes", "cpuset"), {"path": "/usr/local/bin/cpuset-runc"})
    assert value_at(after, ("runtimes", "cpuset", "path")) == "/usr/local/bin/cpuset-runc"
    assert value_at(after, ("runtimes", "kata")) == {"path": "/usr/bin/kata"}
    assert without(after, ("runtimes", "cpuset")) == before
    assert without({"runtimes": {"cpuset": {}}}, ("runtimes", "cpuset")) == {}
    assert without(before, ("runtimes", "nobody")) == before


def test_a_table_where_something_else_stands_is_refused() -> None:
    """A file that dockerd itself would refuse is not made worse."""
    with pytest.raises(ConfigError, match=r"'runtimes' .* is not a table"):
        with_value({"runtimes": "runc"}, ("runtimes", "cpuset"), {})


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b'{"debug": true,}', "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b'{"debug": true, "debug": false}', "has a key twice: 'debug'"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": "\xff"}', "is not JSON in UTF-8"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_what_is_not_understood_is_said_and_left_alone(tmp_path: Path, content: bytes, word: str) -> None:
    """A hand-written mistake is for its author to correct."""
    path = tmp_path / "daemon.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=word) as error:
        read_daemon_json(str(path))
    assert str(path) in str(error.value)
    assert path.read_bytes() == content


def test_all_else_stays_with_its_indentation_and_mode_and_a_backup_is_kept(tmp_path: Path) -> None:
    """The file after a change differs in the key alone; the old one is next to it, byte for byte."""
    path = tmp_path / "daemon.json"
    before = b'\xef\xbb\xbf{\n    "log-driver": "journald",\n    "insecure": ["na\xc3\xafve"]\n}\n'
    path.write_bytes(before)
    path.chmod(0o600)
    found = read_daemon_json(str(path))
    written = write_daemon_json(found, with_value(found.settings, ("cgroup-parent",), "pool.slice"))
    assert written == (str(path), True, f"{path}{SUFFIX}")
    assert Path(written.backup).read_bytes() == before
    assert path.stat().st_mode & 0o777 == 0o600
    expected = '{\n    "log-driver": "journald",\n    "insecure": [\n        "naïve"\n    ],\n    "cgroup-parent": '
    assert path.read_text() == expected + '"pool.slice"\n}\n'


def test_a_file_that_is_not_there_is_made_and_goes_again(tmp_path: Path) -> None:
    """Without a file dockerd runs on its defaults: so it does again after the key is removed."""
    path = tmp_path / "etc" / "docker" / "daemon.json"
    written = write_daemon_json(read_daemon_json(str(path)), {"cgroup-parent": "pool.slice"})
    assert written == (str(path), True, "")
    assert json.loads(path.read_text()) == {"cgroup-parent": "pool.slice"}
    assert Path(f"{path}{SUFFIX}").read_bytes() == ABSENT
    removed(path, "cgroup-parent")
    assert os.listdir(path.parent) == []


def with_key(path: Path, key: str, value: str) -> str:
    """Set a key, and return the copy that was made."""
    found = read_daemon_json(str(path))
    return write_daemon_json(found, with_value(found.settings, (key,), value)).backup


def removed(path: Path, key: str) -> str:
    """Remove a key, and return the copy that stays."""
    found = read_daemon_json(str(path))
    return "".join(each.backup for each in take_back(found, without(found.settings, (key,))))


@pytest.mark.parametrize("before", ['{"debug":  true}', "{}", "", '{\n\t"a": 1\n}'])
@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_what_was_there_before_is_put_back_byte_for_byte(tmp_path: Path, before: str, order: tuple[str, str]) -> None:
    """The first copy is never overwritten, and goes with the last key of ours, in whatever order they go."""
    path = tmp_path / "daemon.json"
    path.write_text(before)
    assert with_key(path, "one", "1") == f"{path}{SUFFIX}"
    assert with_key(path, "two", "2") == ""
    for key in order:
        removed(path, key)
    assert path.read_text() == before
    assert os.listdir(tmp_path) == ["daemon.json"]


def test_what_somebody_changed_between_two_of_our_changes_is_kept_too(tmp_path: Path) -> None:
    """Under the next number; each copy goes when the file returns to it."""
    path = tmp_path / "daemon.json"
    path.write_text('{"debug":  true}')
    with_key(path, "one", "1")
    by_hand = '{"debug": true,   "one": "1", "theirs": 1}'
    path.write_text(by_hand)
    assert with_key(path, "two", "2") == f"{path}{SUFFIX}.2"
    assert removed(path, "two") == ""
    assert path.read_text() == by_hand
    assert removed(path, "one") == f"{path}{SUFFIX}"
    assert json.loads(path.read_text()) == {"debug": True, "theirs": 1}
    assert Path(f"{path}{SUFFIX}").read_text() == '{"debug":  true}'


@pytest.mark.parametrize("before", ['{"runtimes":{}}', '{"debug":  true,\t"runtimes": {}}', '{"debug":  true}', ""])
def test_a_table_that_was_empty_before_is_empty_again(tmp_path: Path, before: str) -> None:
    """And one that was missing is missing: byte for byte, also if the removal was ended before the copy was gone."""
    path = tmp_path / "daemon.json"
    path.write_text(before)
    found = read_daemon_json(str(path))
    write_daemon_json(found, with_value(found.settings, ("runtimes", "cpuset"), {"path": "/x"}))
    found = read_daemon_json(str(path))
    assert is_put_back(found)
    settings = as_before(found, without(found.settings, ("runtimes", "cpuset")), "runtimes")
    assert settings == json.loads(before or "{}")
    path_of_copy = Path(f"{path}{SUFFIX}")
    copy = path_of_copy.read_bytes()
    list(take_back(found, settings))
    assert path.read_text() == before
    assert os.listdir(tmp_path) == ["daemon.json"]
    # The removal was ended before this.
    path_of_copy.write_bytes(copy)
    found = read_daemon_json(str(path))
    assert not is_put_back(found)
    list(take_back(found, as_before(found, found.settings, "runtimes"), {"runtimes": {}, **found.settings}))
    assert path.read_text() == before
    assert os.listdir(tmp_path) == ["daemon.json"]
    assert is_put_back(read_daemon_json(str(path)))


@pytest.mark.parametrize("before", ['{"debug":  true}', '{"runtimes": {}}', ""])
def test_a_removal_that_was_ended_in_between_is_known_and_goes_on(tmp_path: Path, before: str) -> None:
    """It had written its table empty, for dockerd to read, and not yet the content of before."""
    path = tmp_path / "daemon.json"
    path.write_text(before)
    found = read_daemon_json(str(path))
    settings = with_value(found.settings, ("runtimes", "cpuset"), {"path": "/x"})
    write_daemon_json(found, settings)
    found = read_daemon_json(str(path))
    assert as_before(found, found.settings, "runtimes") == found.settings
    next(iter(take_back(found, json.loads(before or "{}"), {"runtimes": {}, **json.loads(before or "{}")})))
    found = read_daemon_json(str(path))
    rest = as_before(found, found.settings, "runtimes")
    assert rest == json.loads(before or "{}")
    list(take_back(found, rest))
    assert path.read_text() == before
    assert os.listdir(tmp_path) == ["daemon.json"]
    path.write_text('{"runtimes": {}}')
    found = read_daemon_json(str(path))
    assert as_before(found, found.settings, "runtimes") == found.settings


def test_a_removal_that_was_ended_leaves_no_empty_table_beside_what_another_program_set(tmp_path: Path) -> None:
    """The copy has what was there before the other program: it stays, and the table goes."""
    path = tmp_path / "daemon.json"
    path.write_text('{"debug": true}')
    found = read_daemon_json(str(path))
    write_daemon_json(found, with_value(found.settings, ("runtimes", "cpuset"), {"path": "/x"}))
    path.write_text(json.dumps({"log-level": "warn", "runtimes": {}}, indent=2) + "\n")
    found = read_daemon_json(str(path))
    rest = as_before(found, found.settings, "runtimes")
    assert rest == {"log-level": "warn"}
    assert [each.backup for each in take_back(found, rest)] == [f"{path}{SUFFIX}"]
    assert json.loads(path.read_text()) == rest


def test_nothing_is_written_where_nothing_changes(tmp_path: Path) -> None:
    """Installing twice leaves one backup: that of the file before the first time."""
    path = tmp_path / "daemon.json"
    path.write_text("{}")
    found = read_daemon_json(str(path))
    assert write_daemon_json(found, {}) == (str(path), False, "")
    assert sorted(os.listdir(tmp_path)) == ["daemon.json"]


def test_what_another_tool_wrote_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    """Two tools change the same file: the second one notices."""
    path = tmp_path / "daemon.json"
    path.write_text("{}")
    found = read_daemon_json(str(path))
    path.write_text('{"debug": true}')
    with pytest.raises(ConfigError, match="changed in the meantime"):
        write_daemon_json(found, {"cgroup-parent": "pool.slice"})
    assert path.read_text() == '{"debug": true}'


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """Some systems keep the file elsewhere: that one is written."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "real.json").write_text('{"debug": true}')
    (tmp_path / "daemon.json").symlink_to("kept/real.json")
    found = read_daemon_json(str(tmp_path / "daemon.json"))
    write_daemon_json(found, with_value(found.settings, ("cgroup-parent",), "pool.slice"))
    assert (tmp_path / "daemon.json").is_symlink()
    assert json.loads((tmp_path / "kept" / "real.json").read_text())["cgroup-parent"] == "pool.slice"


def test_a_table_that_is_null_is_one_without_entries() -> None:
    """As dockerd reads it."""
    assert with_value({"runtimes": None}, ("runtimes", "x"), 1) == {"runtimes": {"x": 1}}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
def test_the_file_and_its_copy_stay_with_their_user_and_group(tmp_path: Path) -> None:
    """Admins of that group go on editing it."""
    path = tmp_path / "daemon.json"
    path.write_text("{}")
    path.chmod(0o664)
    os.chown(path, 1000, 42)
    write_daemon_json(read_daemon_json(str(path)), {"debug": True})
    for name in ("daemon.json", f"daemon.json{SUFFIX}"):
        found = (tmp_path / name).stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1000, 42, 0o664)
    list(take_back(read_daemon_json(str(path)), {}))
    assert (path.read_text(), path.stat().st_uid, path.stat().st_gid) == ("{}", 1000, 42)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")
@pytest.mark.parametrize(
    ("mount", "said"),
    [
        ('mount --bind "{at}/daemon.json" "{at}/daemon.json"', "daemon.json is mounted by itself"),
        ('mount --bind "{at}" "{at}" && mount -o remount,bind,ro "{at}"', "is on a read-only file system"),
    ],
)
def test_a_file_that_cannot_be_replaced_is_known_before(tmp_path: Path, mount: str, said: str) -> None:
    """In a mount namespace of its own; with a space in the path, which the kernel writes otherwise."""
    at = tmp_path / "a folder"
    at.mkdir()
    (at / "daemon.json").write_text("{}")
    see_that_writable(read_daemon_json(str(at / "daemon.json")))
    program = (
        "import sys\nfrom sidecar.host.install.daemon_json import read_daemon_json, see_that_writable\n"
        "see_that_writable(read_daemon_json(sys.argv[1]))"
    )
    done = with_own_mounts(mount.format(at=at), "-c", program, f"{at}/daemon.json")
    assert said in done.stderr
    assert "nothing was changed" in done.stderr
