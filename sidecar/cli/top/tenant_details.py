"""The marked container in whole sentences: why it has its CPUs, what is on its way, its hour and its changes. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from sidecar.cli.cmd_status import pending_lines
from sidecar.cli.explained_tenant import rendered
from sidecar.cli.top.cell_text import bold, folded
from sidecar.cli.top.time_lines import changes_of, most_held, time_line
from sidecar.log import printable
from sidecar.status.document import ContainerStatus, Status
from sidecar.status.grant_history import HOUR, GrantChange, GrantHistory
from sidecar.status.sight import Sight
from sidecar.words.counts import counted, cpus, named

_INDENT: Final = "    "

_LABEL: Final = "last hour "


def tenant_details(
    each: ContainerStatus,
    status: Status,
    sight: Sight,
    now: datetime,
    history: GrantHistory | None,
    width: int,
    bars: str,
) -> list[str]:
    """Return the lines, the most pressing ones first."""
    head, *sentences = rendered(each, sight)
    lines = [bold(line) for line in folded(head, width)]
    if history and most_held(history, each.id) and width > len(_LABEL):
        lines.append(_hour(history, each.id, width, bars))
    lines += [line for said in (*_pressing(each, status, sight, now), *sentences) for line in _sentence(said, width)]
    if not history:
        return lines
    changes = changes_of(history, each.id)
    if changes:
        lines += ["", bold(f"{counted(len(changes), 'change')} in the last hour")]
    return [*lines, *(line for change in changes for line in _sentence(_change(change, history.until), width))]


def _pressing(each: ContainerStatus, status: Status, sight: Sight, now: datetime) -> Iterator[str]:
    """Yield what is on its way and what is wrong, unless the explanation says it."""
    alone = Status(machine=status.machine, containers=(each,))
    said = " ".join(each.explanation)
    yield from pending_lines(alone, now, sight, None)
    for text in (each.trouble, each.clash, each.refusal, *each.warnings):
        if text and text not in said:
            yield text


def _hour(history: GrantHistory, id: str, width: int, bars: str) -> str:
    most = f" {cpus(most_held(history, id))} at most"
    size = width - len(_LABEL) - len(most)
    if size < len(_LABEL):
        most, size = "", width - len(_LABEL)
    return f"{_LABEL}{time_line(history, id, size, HOUR, bars)}{most}"


def _change(change: GrantChange, now: float) -> str:
    holds = f"{named(change.cpus)} ({len(change.cpus)})" if change.cpus else "no CPUs of its own"
    return f"{age_of(now - change.at)} ago: {holds}{f': {change.reason}' if change.reason else ''}"


def age_of(seconds: float) -> str:
    """Return an age in words: `12 s`, `3 min`."""
    return f"{max(0.0, seconds):.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _sentence(text: str, width: int) -> list[str]:
    return folded(printable(text.strip()), width, _INDENT)
