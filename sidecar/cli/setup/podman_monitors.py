"""Which containers of Podman run under a runtime, by their monitors: Podman's service need not run for that.

Each running container of Podman, of root or of a user, has a process `conmon -c ID ... -r RUNTIME ... -n NAME`.
"""

from __future__ import annotations

from typing import Final

from sidecar.cli.setup.command_lines import command_lines, word_after

_MONITOR: Final = "conmon"


def monitored(runtime: str, proc: str = "/proc") -> list[str]:
    """Return the names of the running containers that Podman stops by the runtime at this path, sorted."""
    found = [words for _, words in command_lines(proc, _MONITOR) if word_after(words, "-r") == runtime]
    return sorted({word_after(words, "-n") or word_after(words, "-c")[:12] for words in found})
