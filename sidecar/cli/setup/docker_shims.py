"""Which containers of Docker run under a runtime, by their shims: dockerd need not run for that.

Each running container has a process `containerd-shim-runc-v2 ... -id ID`, which works in the container's bundle. The
file `runtime` there names the program by which the shim enters, stops and removes the container.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from sidecar.cli.setup.command_lines import command_lines, word_after

_SHIM: Final = "containerd-shim"
_LIMIT: Final = 4096
"""Bytes of a path."""


def shimmed(runtime: str, proc: str = "/proc") -> list[str]:
    """Return the short ids of the running containers that are stopped by the runtime at this path, sorted."""
    return sorted(container[:12] for container, at in _shims(proc) if at == runtime)


def _shims(proc: str) -> Iterator[tuple[str, str]]:
    """Yield the container and the runtime of each shim."""
    for pid, words in command_lines(proc, _SHIM):
        if container := word_after(words, "-id"):
            with suppress(OSError), open(f"{proc}/{pid}/cwd/runtime", "rb") as file:
                yield container, file.read(_LIMIT).decode(errors="replace").strip()
