"""Which containers of Podman run under a runtime, by their monitors: Podman's service need not run for that.

Each running container of Podman, of root or of a user, has a process `conmon -c ID ... -r RUNTIME ... -n NAME`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

_MONITOR: Final = "conmon"
_LIMIT: Final = 64 * 1024
"""Bytes of a command line that are read: a monitor's has some kilobytes."""


def monitored(runtime: str, proc: str = "/proc") -> list[str]:
    """Return the names of the running containers that Podman stops by the runtime at this path, sorted."""
    found = [words for words in _monitors(proc) if _value(words, "-r") == runtime]
    return sorted({_value(words, "-n") or _value(words, "-c")[:12] for words in found})


def _monitors(proc: str) -> Iterator[Sequence[str]]:
    """Yield the command line of each monitor."""
    for pid in os.listdir(proc):
        if not pid.isdecimal():
            continue
        with suppress(OSError), open(f"{proc}/{pid}/cmdline", "rb") as file:
            words = file.read(_LIMIT).decode(errors="replace").split("\0")
            if os.path.basename(words[0]) == _MONITOR:
                yield words


def _value(words: Sequence[str], flag: str) -> str:
    """Return the word after a flag; "" if it is not given."""
    places = [place for place, word in enumerate(words[:-1]) if word == flag]
    return words[places[0] + 1] if places else ""
