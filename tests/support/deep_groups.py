"""Groups nested as a tenant nests them: by descriptors, deeper than a stack and longer than a path."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class DeepGroup:
    """The innermost of them."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, name: str, text: str) -> None:
        """Write a file in it."""
        fd = os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=self._fd)
        with open(fd, "w") as file:
            file.write(text)

    def read(self, name: str) -> str:
        """Read a file in it."""
        with open(os.open(name, os.O_RDONLY, dir_fd=self._fd)) as file:
            return file.read()


@contextmanager
def nested(at: Path, names: Sequence[str]) -> Iterator[DeepGroup]:
    """Make a directory, and these inside it, each inside the one before; yield the innermost. On v1's cpusets each has
    all CPUs of the one above. All are removed at the end.
    """
    at.mkdir(exist_ok=True)
    fd = os.open(at, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in names:
            os.mkdir(name, dir_fd=fd)
            inside = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
            for file in ("cpuset.mems", "cpuset.cpus"):
                _inherit(file, fd, inside)
            os.close(fd)
            fd = inside
        yield DeepGroup(fd)
    finally:
        os.close(fd)
        # shutil.rmtree is a recursion.
        subprocess.run(["find", at, "-depth", "-type", "f", "-writable", "-delete"], check=False, capture_output=True)
        subprocess.run(["find", at, "-depth", "-type", "d", "-delete"], check=True)


def _inherit(file: str, above: int, group: int) -> None:
    try:
        with open(os.open(file, os.O_RDONLY, dir_fd=above)) as read:
            text = read.read()
    except FileNotFoundError:
        return
    with open(os.open(file, os.O_WRONLY | os.O_CREAT, dir_fd=group), "w") as write:
        write.write(text)
