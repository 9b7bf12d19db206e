"""The keys of `top`: one line of hints, and the page of help. Pure."""

from __future__ import annotations

from typing import Final

from sidecar.cli.top.cell_text import cells_of, cut_to
from sidecar.cli.top.view import Panel, View
from sidecar.log import printable

HELP: Final = (
    "up down j k     mark another container; so does a press of the mouse",
    "page-up b       a screen up; the wheel scrolls three lines",
    "page-down space a screen down",
    "home g, end G   the first, the last",
    "enter right     all about the marked one: why, what is on its way, its changes in the last hour",
    "d               measure for some seconds what else runs on its CPUs (root)",
    "m               the whole map of the machine",
    "/               filter by name, id, project, kind or state; Enter keeps the filter, Escape clears it",
    "o               only containers that have or ask for CPUs of their own, or all again",
    "s tab           sort by the next column; so does a press on its head",
    "r               the other way round",
    "p               pause, and go on",
    "ctrl-l          draw the screen again",
    "? h             this page",
    "escape q        back from a page",
    "q ctrl-c        end",
    "",
    "Map and table:  a letter is a container with CPUs of its own; r is reserved, . the shared pool,",
    "                # pinned by hand, - isolated and free, * more than there are letters for.",
    "HOUR:           how many CPUs it had in the last hour, at most in each part; now is at the right.",
    "                A dot is none, a space before anything was recorded.",
    "STATE:          settled: what was decided is in force. alone: no other container that can be seen may run there.",
)


def hints(view: View, width: int) -> str:
    """Return the keys that matter now, as many as there is room for: the most important ones first."""
    parts = ["q back", "up/down scroll", "d disturbed", "m map", "? help"]
    if view.panel is Panel.TABLE:
        parts = ["q end", "? help", "/ filter", "enter more", "d disturbed", "m map", "s sort", "o owners", "p pause"]
    if view.only_owners:
        parts.insert(0, "owners only (o)")
    if view.wanted:
        parts.insert(0, f"filter {printable(view.wanted)} (Escape clears)")
    line = ""
    for part in parts:
        if cells_of(line) + 2 + cells_of(part) > width:
            break
        line += f"  {part}" if line else f" {part}"
    return line or cut_to(parts[0], width)
