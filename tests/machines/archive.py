"""The two files of the runner: machines in a tarball, each below `NAME/sys`, and their expectations."""

from __future__ import annotations

import contextlib
import errno
import json
import lzma
import os
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from state import files
from state.errors import StateError

Expected = Mapping[str, Any]
"""What other programs said of one machine: `hwloc` (sets by level, and counts) and `lscpu` (counts); either may be
missing.
"""

_MAX_BYTES: Final = 2 * 1024**3
_MAX_MEMBERS: Final = 4_000_000
"""A tarball beyond these is not one of machines."""

_UNREADABLE: Final = (OSError, EOFError, ValueError, OverflowError, tarfile.TarError, lzma.LZMAError, zlib.error)
"""What the standard library raises on a tarball that is none, or whose numbers are beyond a machine's."""

_OF_ONE_NAME: Final = (errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP)
"""What is wrong with one name, and not with the disk."""

_ABOVE_ROOT: Final = "/sys/"


class BadInput(Exception):
    """The files cannot be used; the message has the file and the reason."""


def unpacked(tarball: Path, directory: Path) -> dict[str, Path]:
    """Extract the machines, and return the root of each by its name. BadInput if it is no such tarball."""
    found: dict[str, Path] = {}
    links: list[tuple[PurePosixPath, str]] = []
    total = 0
    try:
        with tarfile.open(tarball) as packed:
            for number, member in enumerate(packed):
                path = PurePosixPath(member.name)
                name, mark, below = str(path).partition(_ABOVE_ROOT)
                if not mark or not name or not below or path.is_absolute() or ".." in path.parts:
                    continue
                total += member.size
                if number > _MAX_MEMBERS or total > _MAX_BYTES:
                    raise BadInput(f"{tarball} is too large to be a collection of machines")
                if member.issym():
                    links.append((path, member.linkname))
                elif not _is_extracted(packed, member, directory / path):
                    continue
                found[name] = directory / name / "sys"
            # Last of all, and none through another one, so that nothing is ever written through a link.
            for path, target in links:
                _link(directory, path, target)
    except _UNREADABLE as error:
        raise BadInput(f"{tarball} cannot be read: {_words(error)}") from error
    if not found:
        raise BadInput(f"{tarball} holds no machine: nothing in it is below NAME/sys/")
    return found


def _is_extracted(packed: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> bool:
    """Write a file or make a directory, unless another one is in its place; return whether that was done."""
    try:
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
            return True
        content = packed.extractfile(member) if member.isfile() else None
        if content is None:
            return False
        # In a tarball of machines, a directory comes before its files.
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.read())
    except (FileExistsError, NotADirectoryError, IsADirectoryError, ValueError, tarfile.ExtractError):
        return False
    except OSError as error:
        if error.errno in _OF_ONE_NAME:
            return False
        raise
    return True


def _link(directory: Path, path: PurePosixPath, target: str) -> None:
    """Make a link, if it stays within its machine as the kernel's links do: upwards first, then down. It may dangle."""
    parts = PurePosixPath(target).parts
    up = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
    depth = len(path.parts) - path.parts.index("sys") - 2
    if PurePosixPath(target).is_absolute() or ".." in parts[up:] or up > depth:
        return
    # An OSError or a NUL is this link's own fault; a directory on its way that is a link is not followed.
    with contextlib.suppress(StateError, OSError, ValueError), contextlib.ExitStack() as stack:
        at = stack.enter_context(files.directory(directory))
        for part in path.parent.parts:
            at = stack.enter_context(files.directory(part, at=at, create=True))
        os.symlink(target, path.name, dir_fd=at)


def expectations(file: Path) -> dict[str, Expected]:
    """Return what is expected of each machine, empty where nothing is. BadInput if the file has another form."""
    try:
        document = json.loads(file.read_bytes())
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {_words(error)}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{file} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise BadInput(f"{file} is not an object of machines by name")
    for name, expected in document.items():
        if problem := _problem(expected):
            raise BadInput(f"{file}: what is expected of {name} {problem}")
    return {name: expected or {} for name, expected in document.items()}


def _problem(expected: Any) -> str:
    """Return what is wrong with the expectations of one machine; "" if nothing is."""
    if expected is None:
        return ""
    if not isinstance(expected, dict):
        return "is neither null nor an object"
    for program in ("hwloc", "lscpu"):
        if not isinstance(expected.get(program, {}), dict):
            return f"by {program} is not an object"
    hwloc = expected.get("hwloc", {})
    for level in ("core", "die", "l3", "package"):
        if not _are_sets(hwloc.get(level, [])):
            return f"by hwloc has {level!r}, which is not a list of lists of CPUs"
    nodes = hwloc.get("numa", {})
    if not isinstance(nodes, dict) or not all(id.isdecimal() for id in nodes) or not _are_sets(list(nodes.values())):
        return "by hwloc has 'numa', which is not an object of CPUs by node"
    for where, counts in (("hwloc's counts", hwloc.get("counts", {})), ("lscpu", expected.get("lscpu", {}))):
        if not isinstance(counts, dict) or not all(isinstance(count, int) for count in counts.values()):
            return f"by {where} is not an object of numbers"
    return ""


def _are_sets(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(cpus, list) and all(isinstance(cpu, int) and 0 <= cpu <= 8191 for cpu in cpus) for cpus in value
    )


def _words(error: BaseException) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
