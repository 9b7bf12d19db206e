"""How a workload reports that it has left the CPUs that are about to be taken: the file `ack` in its projection
directory.

The file holds the `generation` of the projection that was followed, as decimal text with a newline. It is written in
place. Only a whole number that equals the awaited one counts, so a partial write does no harm, and a shell can do the
same with `echo`. Writing in place also works if only the file, and not the directory, belongs to the workload.
"""

from __future__ import annotations

import errno
import os
from typing import Final

import msgspec

from state import files
from state.cpuset import CPUSet
from state.errors import ProjectionError, ProjectionMissing

NAME: Final = "ack"

# O_NOFOLLOW, O_NONBLOCK: a link or a pipe in place of the file is an error; it is neither written through nor waited
# for.
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_CURES: Final = {
    errno.EROFS: "it is mounted read-only; mount the container's own directory (by-name/<name>) without `:ro`",
    errno.EACCES: "permission denied; give the file itself, not the directory, to the workload's user",
    errno.EPERM: "permission denied; give the file itself, not the directory, to the workload's user",
}


class WrittenAck(msgspec.Struct, frozen=True, kw_only=True):
    """The result: `acknowledged` is the generation that was written, None if there was nothing to acknowledge."""

    acknowledged: int | None
    generation: int
    leaving: CPUSet
    directory: str


def write(directory: str | os.PathLike[str], generation: int) -> None:
    """Acknowledge this generation.

    Raise ProjectionMissing if there is no directory, and ProjectionError, with the cure, if it cannot be written.
    """
    if generation < 0:
        raise ProjectionError(f"{generation} is not a generation")
    where = os.fspath(directory)
    try:
        at = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ProjectionMissing(f"there is no projection directory {where}") from error
    except OSError as error:
        raise ProjectionError(f"cannot open the projection directory {where}: {files.reason(error)}") from error
    try:
        _write(at, f"{generation}\n".encode())
    except OSError as error:
        why = _CURES.get(error.errno or 0) or files.reason(error)
        raise ProjectionError(f"cannot write {where}/{NAME}: {why}") from error
    finally:
        os.close(at)


def _write(at: int, content: bytes) -> None:
    # 0644 and the umask: the user who runs the workload wants to see it as well.
    opened = os.open(NAME, _WRITE, 0o644, dir_fd=at)
    try:
        os.write(opened, content)
    finally:
        os.close(opened)
