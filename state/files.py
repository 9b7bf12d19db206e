"""Files that are replaced whole: written beside, synced if asked, moved into place by one rename; never through a link.

Everything works relative to an open directory, so that a directory cannot be swapped for a link between two steps. The
last component of a name is never followed as a link. A planted link is an error if it stands in place of a directory
or of a file that is read; it is replaced if a file is written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from state.errors import FileUnreadable, FileUnwritable

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FRESH: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a planted named pipe must not wait for its other end.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOUND: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_NAMED: Final = os.O_PATH | os.O_CLOEXEC
_AGAIN: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC

_CHUNK: Final = 16 * 1024
"""Bytes read at a time. A buffer for the longest content would be mapped and unmapped for each short one."""

_SENTENCES: Final = {
    errno.ENOSPC: "there is no space left; free some",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "it is on a read-only file system",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ELOOP: "a symbolic link is there, which is not followed",
    errno.EMLINK: "a symbolic link is there, which is not followed",
    errno.ENOTDIR: "something that is not a directory is there",
    errno.EISDIR: "a directory is there",
    errno.ENOENT: "there is no such file or directory",
    errno.EOPNOTSUPP: "the file system has no hard links",
    errno.EXDEV: "the directory for temporary files is on another file system",
}

_LINKLESS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What link(2) says of a file of one's own where the file system has no hard links."""


def reason(error: OSError) -> str:
    """Return what went wrong, in words for people."""
    said = _SENTENCES.get(error.errno or 0) or error.strerror or str(error)
    return f"{said} (try it as root)" if error.errno in (errno.EACCES, errno.EPERM) and os.geteuid() else said


def is_there(path: str | os.PathLike[str]) -> bool:
    """Return whether anything has this path. Raise FileUnreadable where this user may not know that."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise FileUnreadable(f"cannot look for {os.fspath(path)}: {reason(error)}") from error
    return True


def open_directory(
    name: str | os.PathLike[str], *, at: int | None = None, create: bool = False, mode: int = 0o755
) -> int:
    """Return the descriptor of a directory, relative to the directory `at` if given; the caller closes it.

    With `create`, a missing directory is made with exactly `mode`. Raise FileUnwritable if it cannot be made, and
    FileUnreadable if it is missing or something else stands in its place, such as a symbolic link.
    """
    with contextlib.suppress(FileNotFoundError):
        return _opened_directory(name, at)
    if not create:
        raise FileUnreadable(f"cannot open the directory {os.fspath(name)}: {_SENTENCES[errno.ENOENT]}")
    made = False
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, mode, dir_fd=at)
            made = True
        directory = _opened_directory(name, at)
    except OSError as error:
        raise FileUnwritable(f"cannot make the directory {os.fspath(name)}: {reason(error)}") from error
    if made:
        # mkdir(2) takes the umask off the mode.
        os.fchmod(directory, mode)
    return directory


@contextmanager
def directory(
    name: str | os.PathLike[str], *, at: int | None = None, create: bool = False, mode: int = 0o755
) -> Iterator[int]:
    """Open a directory as `open_directory` does, and close it at the end of the block."""
    opened = open_directory(name, at=at, create=create, mode=mode)
    try:
        yield opened
    finally:
        os.close(opened)


def move_over(name: str, wanted: str, *, source: int, target: int) -> None:
    """Rename a file of the directory `source` to `wanted` in `target`. A directory that was planted there is renamed
    within `target`, to a dotted name. Raise OSError.
    """
    try:
        os.rename(name, wanted, src_dir_fd=source, dst_dir_fd=target)
    except IsADirectoryError:
        move_aside(target, wanted)
        os.rename(name, wanted, src_dir_fd=source, dst_dir_fd=target)


def move_aside(at: int, name: str) -> None:
    """Give a planted directory a dotted name, in the directory where it is. Raise OSError."""
    planted = os.stat(name, dir_fd=at, follow_symlinks=False)
    os.rename(name, f".{name}-{planted.st_ino}", src_dir_fd=at, dst_dir_fd=at)


def replace(
    at: int,
    name: str,
    content: bytes,
    *,
    staging: int | None = None,
    sync: bool = False,
    mode: int = 0o644,
    owner: tuple[int, int] | None = None,
) -> None:
    """Make `content` the whole content of the file `name` in the directory `at`, in one step. With `owner`, a user and
    a group, it is theirs, as far as this process may give files away.

    1. Write a fresh file, in `staging` (a directory of the same file system) or else in `at` under a dotted name.
    2. With `sync`, bring its content to the disk.
    3. Rename it over `name`: a reader sees the old or the new; a watcher of `at` sees, with `staging`, one IN_MOVED_TO.
    4. With `sync`, bring the rename to the disk.

    Raise FileUnwritable if any of it fails; up to step 3 the old content stands, and no temporary file is left behind.
    """
    beside = at if staging is None else staging
    with write_beside(beside, name, content, sync=sync, mode=mode, owner=owner) as temporary:
        os.rename(temporary, name, src_dir_fd=beside, dst_dir_fd=at)  # (3)
        if sync:
            os.fsync(at)  # (4)


@contextmanager
def write_beside(
    at: int, name: str, content: bytes, *, sync: bool, mode: int, owner: tuple[int, int] | None = None
) -> Iterator[str]:
    """Do steps 1 and 2 of `replace`, and yield the temporary file's name; the block moves it into place.

    An OSError inside the block also becomes FileUnwritable and removes the temporary file.
    """
    temporary = f".{name}.new"
    try:
        _write_fresh(at, temporary, content, sync=sync, mode=mode, owner=owner)
        yield temporary
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=at)
        raise FileUnwritable(f"cannot write {name}: {reason(error)}") from error


def move(name: str, wanted: str, *, source: int, target: int) -> None:
    """Rename a file of the directory `source` to `wanted` in `target`, in one step.

    If that fails, remove the file and raise FileUnwritable.
    """
    try:
        move_over(name, wanted, source=source, target=target)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=source)
        raise FileUnwritable(f"cannot write {wanted}: {reason(error)}") from error


def link(at: int, name: str, wanted: str) -> None:
    """Give a file of the directory `at` one more name there. Raise OSError: EOPNOTSUPP without hard links."""
    try:
        os.link(name, wanted, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)
    except OSError as error:
        if error.errno in _LINKLESS:
            raise OSError(errno.EOPNOTSUPP, "") from error
        raise


def has_links(path: str | os.PathLike[str]) -> bool | None:
    """Return whether files in a directory can have two names; None if that cannot be tried.

    It is tried with a file that is removed at once.
    """
    first = f".links-{os.getpid()}"
    second = f"{first}-2"
    with contextlib.suppress(FileUnreadable), directory(path) as at:
        try:
            _write_fresh(at, first, b"", sync=False, mode=0o600)
            link(at, first, second)
        except OSError as error:
            return False if error.errno == errno.EOPNOTSUPP else None
        finally:
            for name in (first, second):
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=at)
        return True
    return None


def read_bounded(at: int, name: str, limit: int) -> bytes | None:
    """Return the content of a regular file of at most `limit` bytes in the directory `at`; None if there is no file.

    Raise FileUnreadable for a link, a pipe, a device, a directory, a longer file, or one without read permission.
    """
    try:
        opened = _opened_regular(at, name)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FileUnreadable(f"cannot read {name}: {reason(error)}") from error
    try:
        return _read_regular(opened, name, limit)
    except OSError as error:
        raise FileUnreadable(f"cannot read {name}: {reason(error)}") from error
    finally:
        os.close(opened)


def read_named(path: str, limit: int) -> bytes:
    """Read a regular file that people name, through links, of at most `limit` bytes.

    FileUnreadable, with the reason alone, for a pipe, a device, a directory, a longer file, or one that is not there.
    No more than `limit` + 1 bytes are read, even if the file grows meanwhile.
    """
    try:
        found = os.open(path, _NAMED)
        try:
            return _content_of(found, path, limit)
        finally:
            os.close(found)
    except OSError as error:
        raise FileUnreadable(reason(error)) from error
    except ValueError as error:
        raise FileUnreadable("a file's name cannot contain a null character") from error


def remove(at: int, name: str) -> bool:
    """Remove the file `name` (or a link of that name) from the directory `at`. Return False if there was none."""
    try:
        os.unlink(name, dir_fd=at)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise FileUnwritable(f"cannot remove {name}: {reason(error)}") from error
    return True


def _opened_directory(name: str | os.PathLike[str], at: int | None) -> int:
    """Open a directory. Raise FileNotFoundError if there is none, and FileUnreadable for everything else."""
    try:
        return os.open(name, _DIRECTORY, dir_fd=at)
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:
        # With O_DIRECTORY the kernel also reports ENOTDIR for a symbolic link.
        raise FileUnreadable(
            f"cannot open the directory {os.fspath(name)}: a symbolic link or a file is there"
        ) from error
    except OSError as error:
        raise FileUnreadable(f"cannot open the directory {os.fspath(name)}: {reason(error)}") from error


def _write_fresh(
    at: int, name: str, content: bytes, *, sync: bool, mode: int, owner: tuple[int, int] | None = None
) -> None:
    try:
        opened = os.open(name, _FRESH, mode, dir_fd=at)
    except FileExistsError:
        # Left by a crash, or planted: either way it is not ours to write through.
        os.unlink(name, dir_fd=at)
        opened = os.open(name, _FRESH, mode, dir_fd=at)
    try:
        if owner:
            with contextlib.suppress(PermissionError):
                os.fchown(opened, *owner)
        os.fchmod(opened, mode)
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(opened, rest) :]
        if sync:
            os.fsync(opened)
    finally:
        os.close(opened)


def _opened_regular(at: int, name: str) -> int:
    """Open a file once it is known to be regular: merely opening a planted device may already do harm."""
    found = os.open(name, _FOUND, dir_fd=at)
    try:
        mode = os.fstat(found).st_mode
        if stat.S_ISLNK(mode):
            raise FileUnreadable(f"cannot read {name}: {_SENTENCES[errno.ELOOP]}")
        if not stat.S_ISREG(mode):
            raise FileUnreadable(f"cannot read {name}: it is not a regular file")
        with contextlib.suppress(FileNotFoundError):
            return os.open(f"/proc/self/fd/{found}", _AGAIN)
    finally:
        os.close(found)
    # There is no /proc here.
    return os.open(name, _READ, dir_fd=at)


def _read_regular(opened: int, name: str, limit: int) -> bytes:
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        raise FileUnreadable(f"cannot read {name}: it is not a regular file")
    content = _up_to(opened, limit)
    if content is None:
        raise FileUnreadable(f"cannot read {name}: it is longer than {limit} bytes")
    return content


def _content_of(found: int, path: str, limit: int) -> bytes:
    """Return the content of the file at this descriptor, which is opened for reading only if it is regular."""
    mode = os.fstat(found).st_mode
    if stat.S_ISDIR(mode):
        raise FileUnreadable("it is a directory, not a regular file")
    if not stat.S_ISREG(mode):
        raise FileUnreadable("it is not a regular file")
    try:
        opened = os.open(f"/proc/self/fd/{found}", _AGAIN)
    except FileNotFoundError:
        # There is no /proc here.
        opened = os.open(path, _AGAIN)
    try:
        content = _up_to(opened, limit)
    finally:
        os.close(opened)
    if content is None:
        raise FileUnreadable(f"it is longer than {limit} bytes")
    return content


def _up_to(opened: int, limit: int) -> bytes | None:
    """Return the rest of an open file; None if it has more than `limit` bytes."""
    content = bytearray()
    while len(content) <= limit:
        chunk = os.read(opened, min(limit + 1 - len(content), _CHUNK))
        if not chunk:
            return bytes(content)
        content += chunk
    return None
