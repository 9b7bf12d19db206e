"""The two files that the runner is given: machines in a tarball, each below `NAME/sys`, and what is said of them."""

from __future__ import annotations

import json
import lzma
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

Expected = Mapping[str, Any]
"""What other programs said of one machine: `hwloc` (sets by level, and counts) and `lscpu` (counts); either may be
missing.
"""

_MAX_BYTES: Final = 2 * 1024**3
_MAX_MEMBERS: Final = 4_000_000
"""A tarball beyond these is not one of machines."""

_ABOVE_ROOT: Final = "/sys/"


class BadInput(Exception):
    """The files cannot be used; the message says which, and why."""


def unpacked(tarball: Path, directory: Path) -> dict[str, Path]:
    """Extract the machines, and give the root of each by its name. BadInput if it is no such tarball."""
    found: dict[str, Path] = {}
    total = 0
    try:
        with tarfile.open(tarball) as packed:
            for number, member in enumerate(packed):
                name, mark, below = member.name.removeprefix("./").partition(_ABOVE_ROOT)
                if not mark or not name or not below:
                    continue
                total += member.size
                if number > _MAX_MEMBERS or total > _MAX_BYTES:
                    raise BadInput(f"{tarball} is too large to be a collection of machines")
                # Links may leave the machine, or dangle; what may not be extracted safely is not there.
                if member.isfile() or member.isdir() or member.issym():
                    try:
                        packed.extract(member, directory, filter="data")
                    except (tarfile.FilterError, FileExistsError, NotADirectoryError):
                        continue
                    found[name] = directory / name / "sys"
    except (OSError, EOFError, tarfile.TarError, lzma.LZMAError, zlib.error) as error:
        raise BadInput(f"{tarball} cannot be read: {_words(error)}") from error
    if not found:
        raise BadInput(f"{tarball} holds no machine: nothing in it is below NAME/sys/")
    return found


def expectations(file: Path) -> dict[str, Expected]:
    """What is expected of each machine, empty where nothing is. BadInput if the file does not say that."""
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
    """What is wrong with what is expected of one machine; "" where nothing is."""
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
