"""The Docker daemon's configuration file: read, changed by single keys, and written back with everything else
unchanged.

dockerd reads it at its start, and part of it on SIGHUP; it refuses to start if the file is not JSON, or if a key is
both there and among its flags. So a file is changed only if it was understood: one that is not a JSON object, or has a
key twice, is left alone and reported.

A key is a path: ("cgroup-parent",), or ("runtimes", "cpuset") for one entry of a table.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

import msgspec

from sidecar.failures import ConfigError, StateUnwritable
from sidecar.host.install.kept_copy import FileAccess, KeptCopy, keep_copy, newest_copy, put_back
from state import codec, files
from state.errors import FileUnreadable

DAEMON_JSON: Final = "/etc/docker/daemon.json"
_LIMIT: Final = 1024 * 1024
"""Bytes of a daemon.json: a larger one is something else."""

_HALVES: Final = re.compile("[\ud800-\udfff]")

_INDENT: Final = re.compile(r'^([ \t]+)"', re.MULTILINE)

Keys = Sequence[str]


class DaemonJson(msgspec.Struct, frozen=True):
    """The file as it was found: its real path (links followed), its bytes (None: no file), and its settings."""

    path: str
    content: bytes | None
    settings: Mapping[str, Any]


class Written(NamedTuple):
    """The result of writing: the file, whether it changed, and the copy of the old content that was made, or that stays
    after a removal; "" for none.
    """

    path: str
    changed: bool
    backup: str


def read_daemon_json(path: str = DAEMON_JSON) -> DaemonJson:
    """Return the file at `path`; a missing or empty one has no settings. Raise ConfigError if it is no JSON object."""
    real = os.path.realpath(path)
    if not os.path.lexists(real):
        return DaemonJson(real, None, {})
    with files.directory(os.path.dirname(real)) as at:
        content = files.read_bounded(at, os.path.basename(real), _LIMIT)
    return DaemonJson(real, content, decode_settings(content or b"", real))


def decode_settings(content: bytes, path: str) -> dict[str, Any]:
    """Return the settings in a daemon.json, in order. Raise ConfigError, with the place, if it is not an object."""
    left_alone = "nothing was changed: correct it first"
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not JSON in UTF-8 (byte {error.start}): {left_alone}") from error
    if not text.strip():
        return {}
    try:
        settings = json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {codec.flaw(error)}: {left_alone}") from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{path} is not a JSON object: {left_alone}")
    return settings


def value_at(settings: Mapping[str, Any], keys: Keys) -> Any:
    """Return the value at a key; None if there is none."""
    found: Any = settings
    for key in keys:
        if not isinstance(found, Mapping) or key not in found:
            return None
        found = found[key]
    return found


def with_value(settings: Mapping[str, Any], keys: Keys, value: Any) -> dict[str, Any]:
    """Return the settings with this value at a key. Raise ConfigError if a needed table is something else."""
    first, *rest = keys
    changed = dict(settings)
    if not rest:
        changed[first] = value
        return changed
    inner = {} if settings.get(first) is None else settings[first]
    if not isinstance(inner, Mapping):
        raise ConfigError(f"{first!r} in the Docker daemon's configuration is not a table: correct it first")
    changed[first] = with_value(inner, rest, value)
    return changed


def without(settings: Mapping[str, Any], keys: Keys) -> dict[str, Any]:
    """Return the settings without a key, and without the tables that this leaves empty."""
    first, *rest = keys
    changed = dict(settings)
    if not rest:
        changed.pop(first, None)
    elif isinstance(inner := settings.get(first), Mapping) and value_at(inner, rest) is not None:
        if emptied := without(inner, rest):
            changed[first] = emptied
        else:
            del changed[first]
    return changed


def encode_settings(settings: Mapping[str, Any], like: bytes | None = None) -> bytes:
    """Return the settings as JSON, with the indentation of the bytes that they came from."""
    found = _INDENT.search((like or b"").decode("utf-8", "replace"))
    text = json.dumps(settings, indent=found[1] if found else 2, ensure_ascii=False) + "\n"
    # Half of a surrogate pair, which only an escape can write.
    return _HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode()


def see_that_writable(found: DaemonJson) -> None:
    """Raise ConfigError if the file could not be replaced, so that nothing else is written before that shows."""
    folder, nothing = os.path.dirname(found.path), "nothing was changed"
    if _is_mounted(found.path):
        raise ConfigError(
            f"{found.path} is mounted by itself, so that it cannot be replaced: {nothing}; mount its directory instead"
        )
    if os.path.isdir(folder) and not os.access(folder, os.W_OK):
        why = "is on a read-only file system" if os.statvfs(folder).f_flag & os.ST_RDONLY else "cannot be written"
        raise ConfigError(f"{folder} {why}: {nothing}")


def write_daemon_json(found: DaemonJson, settings: Mapping[str, Any]) -> Written:
    """Replace the file, in one step and synced, for a key that is set; what was there before is kept beside it.

    1. Nothing is done if the settings are the same.
    2. A file that changed since it was read is left alone: ConfigError.
    3. The old content is kept, with the old file's mode, unless it is ours and a copy is there.
    4. The new content takes its place.

    Raise StateError or StateUnwritable if it cannot be written: the old content stands.
    """
    if settings == found.settings:
        return Written(found.path, changed=False, backup="")  # (1)
    folder, name = os.path.split(found.path)
    if found.content is None:
        _make_above(folder)
    with _unchanged(found) as at:  # (2)
        access, copy = _access(found.path), newest_copy(at, name)
        kept = "" if copy and _is_ours(found, copy) else keep_copy(at, name, found.content, access)  # (3)
        _put(at, name, encode_settings(settings, found.content), access)  # (4)
    backup = os.path.join(folder, kept) if kept and found.content is not None else ""
    return Written(found.path, changed=True, backup=backup)


def take_back(
    found: DaemonJson, settings: Mapping[str, Any], meanwhile: Mapping[str, Any] | None = None
) -> Iterator[Written]:
    """Replace the file for a key that is removed: by the content of before, unless another program changed it.

    With `meanwhile`, first write these settings, and yield, so that the caller can have them read. Then write the final
    content and yield: `backup` names a copy that stays, because another program changed the file since.
    Raise as `write_daemon_json` does.
    """
    folder, name = os.path.split(found.path)
    with files.directory(folder) as at:
        copy = newest_copy(at, name)
    is_returning = copy is not None and _stands_on(found, copy) and _same(_settings_in(copy, found.path), settings)
    if meanwhile is not None:
        content = encode_settings(meanwhile, found.content)
        with _unchanged(found) as at:
            _put(at, name, content, _access(found.path))
        yield Written(found.path, changed=True, backup="")
        found = DaemonJson(found.path, content, meanwhile)
    with _unchanged(found) as at:
        if copy and is_returning:
            put_back(at, name, copy, _access(found.path))
        elif settings:
            _put(at, name, encode_settings(settings, found.content), _access(found.path))
        else:
            files.remove(at, name)
    stays = os.path.join(folder, copy.name) if copy and not is_returning else ""
    yield Written(found.path, changed=True, backup=stays)


def as_before(found: DaemonJson, settings: Mapping[str, Any], table: str) -> Mapping[str, Any]:
    """Return the settings with this table as it was before our first change, if it is empty or missing now: a removal
    that was ended may have left it empty, and one that was empty before is not to be missing.
    """
    copy = _copy_of(found)
    if settings.get(table) or copy is None:
        return settings
    before = _settings_in(copy, found.path)
    rest, rest_before = ({key: at for key, at in each.items() if key != table} for each in (settings, before))
    if rest == rest_before and not before.get(table):
        return before
    return settings if before.get(table) == {} else rest


def is_put_back(found: DaemonJson) -> bool:
    """Return whether nothing is left to put back: False if the file has the settings of before, and the copy of that is
    still there, since a removal was ended.
    """
    copy = _copy_of(found)
    return copy is None or not _same(_settings_in(copy, found.path), found.settings)


def _copy_of(found: DaemonJson) -> KeptCopy | None:
    """Return what the file was before our first change; None if it is not as we wrote it, or put it back."""
    folder, name = os.path.split(found.path)
    try:
        with files.directory(folder) as at:
            copy = newest_copy(at, name)
    except FileUnreadable:
        return None
    return copy if copy and _stands_on(found, copy) else None


def _stands_on(found: DaemonJson, copy: KeptCopy) -> bool:
    """Return whether the content is as we write it on top of this copy, or that of the copy."""
    return found.content == copy.content or _is_ours(found, copy)


def _is_ours(found: DaemonJson, copy: KeptCopy) -> bool:
    """Return whether the content is as we write it on top of this copy."""
    return found.content == encode_settings(found.settings, copy.content)


def _settings_in(copy: KeptCopy, path: str) -> Mapping[str, Any]:
    try:
        return decode_settings(copy.content or b"", path)
    except ConfigError:
        return {"": "an unreadable copy"}


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two files have the same settings, in the same order."""
    return encode_settings(one) == encode_settings(other)


@contextmanager
def _unchanged(found: DaemonJson) -> Iterator[int]:
    """Open the directory of a file. Raise ConfigError if the file is not as it was found."""
    folder, name = os.path.split(found.path)
    with files.directory(folder, create=True) as at:
        if files.read_bounded(at, name, _LIMIT) != found.content:
            raise ConfigError(f"{found.path} was changed in the meantime: nothing was written; run the command again")
        yield at


def _make_above(folder: str) -> None:
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
    except OSError as error:
        raise StateUnwritable(f"cannot make the directory above {folder}: {files.reason(error)}") from error


def _access(path: str) -> FileAccess:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return FileAccess()
    return FileAccess(stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid))


def _put(at: int, name: str, content: bytes, access: FileAccess) -> None:
    files.replace(at, name, content, sync=True, mode=access.mode, owner=access.owner)


def _is_mounted(path: str) -> bool:
    """Return whether something is mounted on this very path: the fifth field of a line, proc_pid_mountinfo(5)."""
    with suppress(OSError), open("/proc/self/mountinfo", "rb") as file:
        points = [line.split(b" ")[4] for line in file if line.count(b" ") > 4]
        return os.fsencode(path) in (re.sub(rb"\\([0-7]{3})", _escaped, each) for each in points)
    return False


def _escaped(found: re.Match[bytes]) -> bytes:
    return bytes((int(found[1], 8),))


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"it has a key twice: {twice!r}")
    return table


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
