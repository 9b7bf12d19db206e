"""The map of the machine for a screen: whole where there is room, else folded to a character for each core. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from sidecar.cli.machine_drawing import Paint, draw, marks_of, short_legend
from sidecar.cli.top.cell_text import cells_of, cut_to
from sidecar.status.document import Status
from sidecar.status.machine_map import Core

_MORE: Final = "m shows the whole map"

_LABEL_GAP: Final = "  "


def map_lines(status: Status, width: int, height: int, paint: Paint) -> list[str]:
    """Return the map in at most `height` lines; where it is not whole, the last one says so."""
    marks = marks_of(status)
    whole = draw(status.machine, marks, paint, width)
    legend = short_legend(status, paint, width)
    if len(whole) + len(legend) <= height:
        return [*whole, *legend]
    shown = list(_folded_map(status, marks, width, paint))
    end = "   ".join([*legend, _MORE])
    return [*shown[: height - 1], cut_to(end, width)] if height > 0 else []


def whole_map(status: Status, width: int, paint: Paint) -> list[str]:
    """Return the map with all numbers, and what its marks mean."""
    return [*draw(status.machine, marks_of(status), paint, width), "", *short_legend(status, paint, width)]


def _folded_map(status: Status, marks: Mapping[int, str], width: int, paint: Paint) -> Iterator[str]:
    """Yield lines of a character for each core whose CPUs are alike; the CPUs of others stand in brackets."""
    labelled = [
        (f"socket {package.id} node {node.id}", [core for cache in node.caches for core in cache.cores])
        for package in status.machine.packages
        for node in package.nodes
    ]
    widest = max((len(label) for label, _ in labelled), default=0)
    for label, cores in labelled:
        begin = f"{label:<{widest}}{_LABEL_GAP}"
        line, size = begin, len(begin)
        for core in cores:
            text = _core(core, marks, paint)
            if size > len(begin) and size + cells_of(text) > width:
                yield line
                line, size = " " * len(begin), len(begin)
            line, size = line + text, size + cells_of(text)
        yield line


def _core(core: Core, marks: Mapping[int, str], paint: Paint) -> str:
    there = [marks.get(cpu, "?") for cpu in core.cpus]
    if len(set(there)) == 1:
        return paint(there[0], there[0])
    return f"({''.join(paint(mark, mark) for mark in there)})"
