"""The processes that run here, by their command lines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

_LIMIT: Final = 64 * 1024
"""Bytes of a command line that are read: that of a monitor or a shim has some kilobytes."""


def command_lines(proc: str, program: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the process and the command line of whatever runs a program whose name begins so."""
    for pid in os.listdir(proc):
        if not pid.isdecimal():
            continue
        with suppress(OSError), open(f"{proc}/{pid}/cmdline", "rb") as file:
            words = file.read(_LIMIT).decode(errors="replace").split("\0")
            if os.path.basename(words[0]).startswith(program):
                yield pid, words


def word_after(words: Sequence[str], flag: str) -> str:
    """Return the word after a flag; "" if it is not given."""
    places = [place for place, word in enumerate(words[:-1]) if word == flag]
    return words[places[0] + 1] if places else ""
