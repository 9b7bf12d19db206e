"""The plain files of many directories, replaced in one call of `replacer.c`.

Before the CPUs of shared containers change, all their files stop naming what is taken, and an owner waits for that. Of
the time that one of them took, a third was the kernel's. `replacer.c` is compiled when the package is installed, if
there is a compiler. Without it, and for whatever is not plain, `Projections` writes each by itself: that has the rules
in full.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

INTERFACE: Final = 1
"""What `replacer_interface` of a fitting library returns."""

_LENGTHS: Final = struct.Struct("4I")


class Replacement(NamedTuple):
    """The two files of the directory `name`: the status that `was` written last, the next one, and the next CPUs."""

    name: str
    was: bytes
    status: bytes
    cpuset: bytes


class Replacer:
    """Replaces files with the library at this path; nothing without one."""

    def __init__(self, library: str | None) -> None:
        """Raise OSError if it cannot be loaded."""
        self._put = ctypes.CDLL(library).replacer_put if library else None

    @property
    def is_able(self) -> bool:
        """Whether there is a library."""
        return self._put is not None

    def put(self, above: int, staging: int, replacements: Sequence[Replacement]) -> list[bool]:
        """Replace the files of directories in the open one `above` by way of `staging`. Return for each whether it was
        done: if not, its status, or nothing of it, may be replaced.
        """
        count = len(replacements)
        done = (ctypes.c_int * count)(*[-1] * count)
        if self._put is not None and count:
            entries = b"".join(map(_entry, replacements))
            self._put(above, staging, entries, ctypes.c_size_t(count), done)
        return [not each for each in done]


def find_replacer(folder: str | Path = Path(__file__).parent) -> Replacer:
    """Return one with the compiled `replacer.c` of this version of the package, if there is one."""
    names: list[str] = []
    with suppress(OSError):
        names = sorted(name for name in os.listdir(folder) if name.startswith("replacer.") and name.endswith(".so"))
    for name in names:
        # Missing symbols are an AttributeError.
        with suppress(OSError, AttributeError):
            if ctypes.CDLL(path := f"{folder}/{name}").replacer_interface() == INTERFACE:
                return Replacer(path)
    return Replacer(None)


def _entry(of: Replacement) -> bytes:
    name = of.name.encode() + b"\0"
    lengths = _LENGTHS.pack(len(name), len(of.was), len(of.status), len(of.cpuset))
    return b"".join((lengths, name, of.was, of.status, of.cpuset))
