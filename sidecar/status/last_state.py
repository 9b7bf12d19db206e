"""The status document of a daemon that is gone or stalled: what it last knew, without what only one that works can
claim. Pure.
"""

from __future__ import annotations

import msgspec

from sidecar.status.document import ContainerStatus, Status
from state.cpuset import EMPTY

replace = msgspec.structs.replace


def last_word(status: Status, *, is_running: bool | None = False) -> str:
    """Return the sentence that comes before everything that a daemon said which is gone, or runs and is stalled."""
    said_at = status.updated_at or "an unknown time"
    if is_running:
        return f"The daemon is stopped, stalled or stuck. This is what it last said, at {said_at}:"
    return f"No daemon is running. This is what the last one said, at {said_at}:"


def unvouched(status: Status, *, is_running: bool | None = False) -> Status:
    """Return the document without any claim that only a running daemon can make: nothing is ready, settled or alone,
    nothing is on its way, and each explanation is told as the last word of the daemon.
    """
    said = last_word(status, is_running=is_running)
    return replace(status, is_ready=False, containers=tuple(_last_known(each, said) for each in status.containers))


def _last_known(each: ContainerStatus, said: str) -> ContainerStatus:
    return replace(
        each,
        is_settled=False,
        is_alone=False,
        pending=EMPTY,
        waits_for="",
        explanation=(said, *each.explanation) if each.explanation else (),
    )
