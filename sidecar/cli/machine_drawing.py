"""The machine as a map in text: sockets, nodes, caches, cores, CPUs, with a mark on each CPU for its holder. Pure.

    socket 0
      node 0   [0r 32r] [1A 33A] [2. 34.]

A level that divides nothing is not drawn: a machine of one socket, node and cache is one line of cores.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from sidecar.log import printable
from sidecar.status.document import SharingStatus, Status
from sidecar.status.machine_map import Core, MachineMap, Package
from sidecar.words.counts import cut

WIDTH: Final = 100

LETTERS: Final = string.ascii_uppercase + "".join(c for c in string.ascii_lowercase if c != "r")
"""Marks of exclusive containers; `r` is for reserved CPUs."""

MORE: Final = "*"
"""The mark of exclusive containers beyond the letters."""

ISOLATED: Final = "-"
"""The mark of isolated CPUs that no container holds, where the shared pool never has them."""

IDLE: Final = f"{ISOLATED} isolated, free"
"""What the mark means."""

_RESET: Final = "\x1b[0m"
_DIM: Final = "\x1b[2m"
_PALETTE: Final = tuple(f"\x1b[1;{code}m" for code in (32, 36, 35, 33, 34, 92, 96, 95, 93, 94))
_RED: Final = "\x1b[31m"

Paint = Callable[[str, str], str]
"""Colours a text by its mark."""


def plain(text: str, mark: str) -> str:  # noqa: ARG001 - the shape of a Paint
    """Return the text without colours."""
    return text


def coloured(text: str, mark: str) -> str:
    """Return each exclusive container in a colour of its own; the shared pool dim; strangers red."""
    if mark in LETTERS:
        return f"{_PALETTE[LETTERS.index(mark) % len(_PALETTE)]}{text}{_RESET}"
    return f"{_RED if mark == '#' else _DIM}{text}{_RESET}"


def letters_of(status: Status) -> dict[str, str]:
    """Return the ids of owners with letters, in the order of grants, so that a new grant changes no letter."""
    holders = sorted(
        (each for each in status.rows if each.sharing is SharingStatus.EXCLUSIVE),
        key=lambda each: (each.since, each.id),
    )
    return {each.id: LETTERS[n] if n < len(LETTERS) else MORE for n, each in enumerate(holders)}


def marks_of(status: Status) -> dict[int, str]:
    """Return the mark of each CPU number."""
    letters = letters_of(status)
    marks = dict.fromkeys(status.machine.online, ".")
    marks.update(dict.fromkeys(status.machine.isolated - status.shared, ISOLATED))
    marks.update(dict.fromkeys(status.reserved, "r"))
    for each in status.rows:
        marks.update(dict.fromkeys(each.pinned, "#"))
    for each in status.rows:
        if each.id in letters:
            marks.update(dict.fromkeys(each.desired, letters[each.id]))
    return marks


def legend(status: Status, paint: Paint = plain, width: int | None = WIDTH) -> list[str]:
    """Return what the marks mean, for those that occur, in lines not wider than `width`. Without one no name is cut."""
    letters = letters_of(status)
    words = [
        (letters[each.id], short_name(f"{letters[each.id]} {printable(each.name)}", width))
        for each in sorted(status.rows, key=lambda each: each.since)
        if letters.get(each.id, MORE) != MORE
    ]
    return _meanings([*words, *_others(status)], paint, width)


def short_legend(status: Status, paint: Paint = plain, width: int | None = WIDTH) -> list[str]:
    """Return the same without the letters of containers, which stand in a table beside the map."""
    return _meanings(_others(status), paint, width)


def _meanings(words: Iterable[tuple[str, str]], paint: Paint, width: int | None) -> list[str]:
    return list(_wrapped("", [(paint(text, mark), len(text)) for mark, text in words], width or WIDTH, gap="   "))


def _others(status: Status) -> list[tuple[str, str]]:
    """Return the marks that are no letters and occur, and what they mean."""
    marks = set(marks_of(status).values())
    reserved = "r reserved" if status.reserved.isdisjoint(status.shared) else "r reserved, shared"
    rest = ". shared" if status.policy != "none" else ". not managed"
    others = ((MORE, "* others"), (".", rest), (ISOLATED, IDLE), ("r", reserved), ("#", "# pinned by hand"))
    return [(mark, text) for mark, text in others if mark in marks]


def short_name(name: str, width: int | None) -> str:
    """Return a name for the legend, which a long one would fill; whole where the page has no width."""
    return name if width is None else cut(name, 40)


def draw(machine: MachineMap, marks: Mapping[int, str], paint: Paint = plain, width: int | None = WIDTH) -> list[str]:
    """Return the lines of the map, none wider than `width` (colours not counted); without one, than `WIDTH`."""
    lines: list[str] = []
    cell = max((len(str(cpu)) for cpu in machine.online), default=1)
    drawn = [(package, list(_rows(package))) for package in machine.packages]
    widest = max((len(label) for _, rows in drawn for label, _ in rows), default=0)
    for package, rows in drawn:
        if len(machine.packages) > 1 and len(rows) > 1:
            lines.append(f"socket {package.id}")
        for label, cores in rows:
            indent = "  " if len(machine.packages) > 1 and len(rows) > 1 else ""
            name = label if len(rows) > 1 else f"socket {package.id}"
            cells = [_core(cpus, cell, marks, paint) for cpus in cores]
            lines += _wrapped(f"{indent}{name:<{max(9, widest)}} ", cells, width or WIDTH)
    if machine.offline:
        lines.append(f"offline   {machine.offline}")
    if machine.isolated:
        lines.append(f"isolated by the kernel   {machine.isolated}")
    return lines


def _rows(package: Package) -> Iterator[tuple[str, list[tuple[int, ...]]]]:
    """Yield the rows of a socket: a label, and the CPUs of each core. A row is a cache, or a node not divided by
    caches.
    """
    for node in package.nodes:
        # A cache of its own for each core divides nothing that is not drawn anyway.
        is_divided = len(node.caches) > 1 and any(len(cache.cores) > 1 for cache in node.caches)
        groups = [cache.cores for cache in node.caches]
        together: tuple[Core, ...] = tuple(core for cores in groups for core in cores)
        rows = groups if is_divided else [together]
        for number, cores in enumerate(rows):
            parts = [f"node {node.id}"] if len(package.nodes) > 1 else []
            parts += [f"cache {node.caches[number].id}"] if is_divided else []
            yield " ".join(parts), [tuple(core.cpus) for core in cores]


def _core(cpus: tuple[int, ...], cell: int, marks: Mapping[int, str], paint: Paint) -> tuple[str, int]:
    """Return a core as text, and its width without colours."""
    words = [f"{cpu:>{cell}}{marks.get(cpu, '')}" for cpu in cpus]
    text = " ".join(paint(word, marks[cpu]) if cpu in marks else word for word, cpu in zip(words, cpus, strict=True))
    return f"[{text}]", len(" ".join(words)) + 2


def _wrapped(label: str, cells: list[tuple[str, int]], width: int, gap: str = " ") -> Iterator[str]:
    """Yield lines of cells, none wider than `width`: the first begins with the label, the others with spaces."""
    line, used = label, len(label)
    for text, size in cells:
        if used > len(label) and used + size + len(gap) > width:
            yield line
            line, used = " " * len(label), len(label)
        between = gap if used else ""
        line, used = f"{line}{between}{text}", used + size + len(between)
    yield line
