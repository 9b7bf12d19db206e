"""A machine as one text file: `path: value` lines, sorted, to be read by people, kept as test data, attached to bugs.

The paths are those of sysfs below its root. A directory that holds nothing else is a line with a final slash.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from sidecar.host.sysfs import collect, understand
from state.errors import StateError
from state.topology import Topology

_LINE: Final = re.compile(r"(devices/(?:[A-Za-z0-9_]+/)*[A-Za-z0-9_]*): ?([^\x00-\x1f\x7f]*)")
_MAX_CHARACTERS: Final = 32 * 1024 * 1024
"""A machine of 8192 CPUs takes about 16 MiB."""


def record(root: str | Path = "/sys") -> str:
    """The machine below `root` as text. Equal machines give equal text. StateError if there is no machine."""
    files = collect(root, extras=True)
    understand(files)
    parents = {f"{path.rsplit('/', depth)[0]}/" for path in files if not path.endswith("/") for depth in (1, 2, 3)}
    lines = [f"{path}: {files[path]}".rstrip() for path in sorted(files, key=_natural) if path not in parents]
    return "".join(f"{line}\n" for line in lines)


def read_record(text: str) -> Topology:
    """The Topology of a recorded machine. StateError, naming the line, if it is not one."""
    return understand(_files(text))


def unpack(text: str, directory: str | Path) -> None:
    """Write a recorded machine below `directory` as sysfs has it. StateError, naming the line, if it is not one."""
    base = Path(directory)
    for path, value in _files(text).items():
        if path.endswith("/"):
            (base / path).mkdir(parents=True, exist_ok=True)
        else:
            (base / path).parent.mkdir(parents=True, exist_ok=True)
            (base / path).write_text(value + "\n", encoding="ascii")


def _files(text: str) -> dict[str, str]:
    if len(text) > _MAX_CHARACTERS:
        raise StateError(f"a record of {len(text)} characters is too long to be one machine")
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None or not line.isascii():
            raise StateError(
                f"line {number} of the record is {line[:60]!r}: expected `devices/...: value`, "
                "as `cpuset-sidecar topology --record` writes it"
            )
        found[match[1]] = match[2].strip()
    return found


def _natural(path: str) -> list[tuple[int, str]]:
    """Sort key that puts cpu2 before cpu10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path)]
