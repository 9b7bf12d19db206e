"""What is wrong, from the status document: what the daemon cannot do now, and the problems of each container and unit.
Pure.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

import msgspec

from sidecar.status.document import ContainerStatus, Status


class ProblemKind(enum.StrEnum):
    """What kind of problem it is, the most pressing first."""

    DAEMON = "daemon"
    """Something that the daemon cannot do now."""
    FAILED = "failed"
    """An order for the container failed."""
    REFUSED = "refused"
    """The container asked for exclusive CPUs and has none."""
    CLASH = "clash"
    """Another container is pinned by hand to its CPUs, and it cannot move."""
    LABEL = "label"
    """A label of the container has no effect, or has another one than it seems to ask for."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One problem as a clause; `container` is the name of the container that has it, "" for the daemon's own."""

    kind: ProblemKind
    container: str = ""
    text: str


def problems_of(status: Status) -> tuple[Problem, ...]:
    """Return all problems, the daemon's first, then those of each container in the document's order."""
    own = (Problem(kind=ProblemKind.DAEMON, text=each) for each in status.problems)
    return (*own, *(problem for each in status.rows for problem in _of(each)))


def _of(each: ContainerStatus) -> Iterator[Problem]:
    if each.trouble:
        yield Problem(kind=ProblemKind.FAILED, container=each.name, text=each.trouble)
    if each.refusal:
        yield Problem(kind=ProblemKind.REFUSED, container=each.name, text=each.refusal)
    if each.clash:
        yield Problem(kind=ProblemKind.CLASH, container=each.name, text=each.clash)
    for warning in each.warnings:
        # The refusal of a wrong label is that label's warning as well.
        if warning != each.refusal:
            yield Problem(kind=ProblemKind.LABEL, container=each.name, text=warning)
