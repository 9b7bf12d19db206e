"""A machine from a file, in any of the common forms: a record, `lscpu -J`, or hwloc's XML."""

from __future__ import annotations

from typing import Final

from sidecar.host.machine.hwloc import read_hwloc
from sidecar.host.machine.lscpu import read_lscpu
from sidecar.host.machine.record import MAX_CHARACTERS, read_record
from state.errors import FileUnreadable, StateError
from state.files import read_named
from state.topology import Topology

_MAX_BYTES: Final = 4 * MAX_CHARACTERS
"""UTF-8 has up to four bytes a character. Each form has a lower limit of its own."""


def read_machine(text: str) -> Topology:
    """Return the machine that `text` describes; its first character determines the form.

    Raise StateError if it is none of them.
    """
    first = text.lstrip("\ufeff \t\r\n")[:1]
    if first == "<":
        return read_hwloc(text)
    if first == "{":
        return read_lscpu(text)
    return read_record(text)


def machine_in(file: str) -> Topology:
    """Return the machine that a file describes, in any of the forms. Raise StateError, with the file, if it is none."""
    try:
        content = read_named(file, _MAX_BYTES)
    except FileUnreadable as error:
        raise StateError(f"the record {file} cannot be read: {error}") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StateError(f"{file} is not a recorded machine: it is not text") from error
    try:
        return read_machine(text)
    except StateError as error:
        raise StateError(f"{file} cannot be used: {error}") from error
