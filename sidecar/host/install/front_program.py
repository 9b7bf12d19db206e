"""The front as one compiled program (`sidecar/runtime/program`), which does what the script and its Python do.

It is built when the package is installed, if there is a C compiler with the library yajl (`setup.py`); without it,
fronts are the script. What a front goes by is written into its copy of the program, where the script has it as
text.
"""

from __future__ import annotations

import os
import subprocess
from importlib.resources import as_file
from importlib.resources import files as package_files
from typing import Final

from state.errors import FileUnreadable

NAME: Final = "cpuset-front"
"""The file in the package `sidecar.runtime`."""

INTERFACE: Final = b"cpuset-front 1\n"
"""What the program prints as its interface, and where the place begins that the installation writes to."""

_ROOM: Final = 8192
"""Bytes of that place."""

_ELF: Final = b"\x7fELF"


def find_program() -> bytes | None:
    """Return the compiled program; None if there is none, or none of this version that runs on this machine."""
    with as_file(package_files("sidecar.runtime").joinpath(NAME)) as path:
        return fitting_program(str(path))


def fitting_program(path: str) -> bytes | None:
    """Return the program at this path; None if there is none, or if it is none of this version and machine."""
    try:
        done = subprocess.run([path, "--interface"], capture_output=True, timeout=10, check=False)  # noqa: S603
        if done.stdout != INTERFACE:
            return None
        with open(path, "rb") as file:
            return file.read()
    except (OSError, subprocess.TimeoutExpired):
        return None


def front_program(program: bytes, settings: str, real: str, kind: str) -> bytes | None:
    """Return the program of a front with these settings; `real` and `kind` are what it goes by without them. None if
    they are too long for it.
    """
    told = INTERFACE + b"".join(os.fsencode(word) + b"\0" for word in (settings, real, kind))
    place = program.find(INTERFACE.ljust(_ROOM, b"\0"))
    if place < 0 or len(told) > _ROOM:
        return None
    return program[:place] + told.ljust(_ROOM, b"\0") + program[place + _ROOM :]


def is_compiled(path: str) -> bool:
    """Return whether the front at this path is the compiled program. FileUnreadable."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_ELF)) == _ELF
    except OSError as error:
        raise FileUnreadable(f"cannot read {path}: {error.strerror}") from error
