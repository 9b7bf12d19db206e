"""Which containers of Docker run under a runtime, by their shims: dockerd need not run for that.

Each running container has a process `containerd-shim-runc-v2 ... -id ID`, which works in the container's bundle. The
file `runtime` there names the program by which the shim enters, stops and removes the container.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

_SHIM: Final = "containerd-shim"
_LIMIT: Final = 64 * 1024
_SHORT: Final = 12


def shimmed(runtime: str, proc: str = "/proc") -> list[str]:
    """Return the short ids of the running containers that are stopped by the runtime at this path, sorted."""
    return sorted(container[:_SHORT] for container, at in _shims(proc) if at == runtime)


def _shims(proc: str) -> Iterator[tuple[str, str]]:
    """Yield the container and the runtime of each shim."""
    for pid in os.listdir(proc):
        if not pid.isdecimal():
            continue
        with suppress(OSError):
            with open(f"{proc}/{pid}/cmdline", "rb") as file:
                words = file.read(_LIMIT).decode(errors="replace").split("\0")
            if not os.path.basename(words[0]).startswith(_SHIM) or "-id" not in words[:-1]:
                continue
            with open(f"{proc}/{pid}/cwd/runtime", "rb") as file:
                yield words[words.index("-id") + 1], file.read(_LIMIT).decode(errors="replace").strip()
