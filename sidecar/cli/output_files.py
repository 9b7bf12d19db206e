"""Files that a command writes at its end: what speaks against one is found before the command does its work."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping

from sidecar.failures import SidecarError
from sidecar.misreadings import Misreading, SameFile
from sidecar.readers import kept
from state import files


def clashes(outputs: Mapping[str, str | None], inputs: Mapping[str, str | None]) -> Iterator[Misreading]:
    """Yield a mistake for each output that would replace an input, or an output before it.

    Both map the name of an argument to its file, None if it is not given.
    """
    seen = {name: file for name, file in inputs.items() if file}
    for name, file in outputs.items():
        if file:
            for other, taken in seen.items():
                if _is_same(file, taken):
                    yield Misreading(name=name, given=kept(file), flaw=SameFile(other))
                    break
            seen[name] = file


def check_writable(file: str) -> None:
    """Raise SidecarError if the file could not be written now. Nothing is changed."""
    try:
        _try(file)
    except (OSError, ValueError) as error:
        raise unwritable(file, error) from error


def unwritable(file: str, error: OSError | ValueError) -> SidecarError:
    """Return what is told of a file that cannot be written."""
    return SidecarError(f"{file} cannot be written: {files.reason(error) if isinstance(error, OSError) else error}")


def _is_same(one: str, other: str) -> bool:
    """Return whether two paths are one regular file, or would become one. A device or a pipe takes several outputs."""
    try:
        return os.path.samefile(one, other) and stat.S_ISREG(os.stat(one).st_mode)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)
    except ValueError:
        return False


def _try(file: str) -> None:
    try:
        mode = os.stat(file).st_mode
    except FileNotFoundError:
        folder = os.path.dirname(os.path.realpath(file))
        if not stat.S_ISDIR(os.stat(folder).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None
    else:
        # To open a pipe would wait for its reader, or be noticed by it.
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            os.close(os.open(file, os.O_WRONLY | os.O_CLOEXEC))
