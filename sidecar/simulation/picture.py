"""A history as a picture: each CPU a line, in the machine's order, coloured by its owner over time. Pure: SVG as text.

1. The CPUs are in the order of sockets, nodes, caches and cores; groups are slightly apart.
2. Each CPU's time is cut into stretches of one owner and one way: it runs there; it runs there and is leaving
   (hatched); it was granted the CPU and is not there yet (pale).
3. Equal stretches of neighbouring CPUs are one rectangle. The same history gives the same bytes.
4. Names and titles are the text of others: what is unprintable in them is written out, and most of it is no XML at all.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from sidecar.log import printable
from sidecar.simulation.happenings import Frame, Happening, What
from sidecar.status.machine_map import machine_of
from sidecar.words.counts import named
from state.topology import Topology

_COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#66a61e")
"""Distinguishable for most colour-blind people (Okabe and Ito), in the order in which containers first get CPUs."""

_SHARED, _RESERVED, _OFFLINE = "#e4e4e4", "#c4c4c4", "#ffffff"
_LEFT, _PLOT, _RIGHT, _LINE = 96, 800, 16, 13
"""Pixels: the labels, the time, the margin, and a line of text."""

_GAP: Final = 4
_HEIGHT: Final = 440
"""Approximate height of all CPUs together, in pixels."""

_MARKED: Final = {
    What.CREATED: "{} arrives",
    What.NOT_STARTED: "{} does not start",
    What.STOPPED: "{} ends",
    What.REMOVED: "{} is removed",
    What.RESIZE: "resize {}",
    What.DEFRAGMENT: "defragment",
    What.RELOAD: "reload: {1}",
    What.RELEASE: "release {}",
    What.OFFLINE: "{} offline",
    What.ONLINE: "{} online",
    What.SIDECAR_CRASHED: "sidecar killed",
    What.SIDECAR_STARTED: "sidecar starts",
    What.DEMAND: "{} would use {}",
}


class How(enum.Enum):
    """How a container has a CPU."""

    RUNS = "runs"
    LEAVES = "leaves"
    COMES = "comes"


class Owner(NamedTuple):
    """What has a CPU: a container's name, or "" for the shared pool (or the reserved CPUs, or none)."""

    name: str
    how: How = How.RUNS
    colour: str = _SHARED


class Stretch(NamedTuple):
    """An owner from one time to another."""

    begins: float
    ends: float
    owner: Owner


def picture(
    title: str, machine: Topology, frames: Sequence[Frame], log: Sequence[Happening], ends: float, begins: float = 0.0
) -> str:
    """Return the history from `begins` to `ends` seconds as SVG."""
    names = list(dict.fromkeys(e.name for frame in frames for e in frame.holdings if e.granted is not None))
    colours = {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(names)}
    groups = list(_groups(machine))
    count = sum(len(cpus) for _, cpus in groups)
    size = max(2.0, min(14.0, _HEIGHT / count))
    marks = list(_marks(log, begins, ends))
    top = 30 + _LINE * (1 + max((row for _, _, row in marks), default=0)) + 6

    def x(time: float) -> float:
        return _LEFT + (time - begins) / max(ends - begins, 1e-9) * _PLOT

    body: list[str] = []
    y = float(top)
    for label, cpus in groups:
        rows = [list(_stretches(cpu, frames, colours, begins, ends)) for cpu in cpus]
        if label:
            body.append(_text(_LEFT - 6, y + size * len(cpus) / 2 + 4, label, anchor="end"))
        body += _rectangles(rows, y, size, x)
        y += size * len(cpus) + _GAP
    bottom = y - _GAP
    for at, words, row in marks:
        body.append(_line(x(at), top - 4 - row * _LINE, bottom))
        body.append(_text(x(at) + 3, top - 7 - row * _LINE, words, size=10))
    body += _axis(begins, ends, bottom, x)
    body += _legend(colours, bottom + 40)
    height = bottom + 40 + _LINE * (2 + (len(colours) + 4) // 5)
    return _document(title, _LEFT + _PLOT + _RIGHT, height, colours, body)


def _groups(machine: Topology) -> Iterator[tuple[str, list[int]]]:
    # 1. The machine's order.
    shown = machine_of(machine)
    for package in shown.packages:
        for node in package.nodes:
            for number, cache in enumerate(node.caches):
                parts = [f"socket {package.id}"] if len(shown.packages) > 1 else []
                parts += [f"node {node.id}"] if len(package.nodes) > 1 else []
                if len(node.caches) > 1:
                    parts = [*(parts if number == 0 else []), f"L{number}"]
                yield " ".join(parts), [cpu for core in cache.cores for cpu in core.cpus]


def _owner(cpu: int, frame: Frame, colours: dict[str, str]) -> Owner:
    """Return the owner of a CPU (2)."""
    if cpu not in frame.online:
        return Owner("", colour=_OFFLINE)
    for each in frame.holdings:
        if each.granted is None:
            continue
        if cpu in each.cpus and (cpu in each.granted or cpu in each.leaving):
            how = How.LEAVES if cpu in each.leaving else How.RUNS
            return Owner(each.name, how, colours[each.name])
    for each in frame.holdings:
        if each.granted is not None and cpu in each.granted:
            return Owner(each.name, How.COMES, colours[each.name])
    return Owner("", colour=_RESERVED if cpu in frame.reserved else _SHARED)


def _stretches(
    cpu: int, frames: Sequence[Frame], colours: dict[str, str], begins: float, ends: float
) -> Iterator[Stretch]:
    times = [frame.at for frame in frames[1:]] + [ends]
    current: Stretch | None = None
    for frame, until in zip(frames, times, strict=True):
        start, until = max(frame.at, begins), min(until, ends)
        if until <= start:
            continue
        owner = _owner(cpu, frame, colours)
        if current and current.owner == owner:
            current = current._replace(ends=until)
            continue
        if current:
            yield current
        current = Stretch(start, until, owner)
    if current:
        yield current


def _rectangles(rows: list[list[Stretch]], y: float, size: float, x: Callable[[float], float]) -> Iterator[str]:
    # 3. Equal neighbours are one.
    done: set[tuple[int, Stretch]] = set()
    for number, row in enumerate(rows):
        for stretch in row:
            if (number, stretch) in done:
                continue
            last = number
            while last + 1 < len(rows) and stretch in rows[last + 1]:
                last += 1
                done.add((last, stretch))
            yield _rectangle(stretch, y + number * size, (last + 1 - number) * size, x)


def _rectangle(stretch: Stretch, y: float, height: float, x: Callable[[float], float]) -> str:

    left, right = x(stretch.begins), x(stretch.ends)
    owner, style = stretch.owner, f'fill="{stretch.owner.colour}"'
    if owner.how is How.LEAVES:
        style = f'fill="url(#l{owner.colour[1:]})"'
    elif owner.how is How.COMES:
        style += ' fill-opacity="0.3"'
    return f'<rect x="{_n(left)}" y="{_n(y)}" width="{_n(max(right - left, 0.5))}" height="{_n(height)}" {style}/>'


def _marks(log: Sequence[Happening], begins: float, ends: float) -> Iterator[tuple[float, str, int]]:
    """Yield what people did, each with a row for its words so that they do not overlap."""
    taken: list[float] = []
    for each in log:
        words = _MARKED.get(What(each.what)) if each.what in set(What) else None
        if words is None or not begins <= each.at < ends or (each.at == 0 and each.what == What.SIDECAR_STARTED):
            continue
        said = printable(words.format(each.container or named(each.cpus), each.why))
        left = (each.at - begins) / max(ends - begins, 1e-9) * _PLOT
        row = next((number for number, until in enumerate(taken) if until <= left), len(taken))
        taken[row : row + 1] = [left + 6 * len(said) + 8]
        yield each.at, said, row


def _axis(begins: float, ends: float, bottom: float, x: Callable[[float], float]) -> Iterator[str]:

    span = ends - begins
    step = next(
        (s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600) if span / s <= 12), 86400
    )
    time = -(-begins // step) * step
    while time <= ends + 1e-9:
        yield _line(x(time), bottom, bottom + 4)
        yield _text(x(time), bottom + 16, f"{time:g} s", anchor="middle", size=10)
        time = round(time + step, 6)


def _legend(colours: dict[str, str], y: float) -> Iterator[str]:
    named = [(name, f'fill="{colour}"') for name, colour in colours.items()]
    first = next(iter(colours.values()), _SHARED)
    named += [
        ("leaving, with notice", f'fill="url(#l{first[1:]})"' if colours else f'fill="{_SHARED}"'),
        ("given, not entered yet", f'fill="{first}" fill-opacity="0.3"'),
        ("shared", f'fill="{_SHARED}"'),
        ("reserved", f'fill="{_RESERVED}"'),
    ]
    for number, (words, style) in enumerate(named):
        left, top = _LEFT + number % 5 * 160, y + number // 5 * (_LINE + 4)
        yield f'<rect x="{left}" y="{_n(top - 9)}" width="12" height="10" {style}/>'
        yield _text(left + 17, top, words)


def _document(title: str, width: float, height: float, colours: dict[str, str], body: Sequence[str]) -> str:
    hatches = "".join(
        f'<pattern id="l{colour[1:]}" width="5" height="5" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="5" height="5" fill="#ffffff"/>'
        f'<rect width="2.5" height="5" fill="{colour}"/></pattern>'
        for colour in dict.fromkeys(colours.values())
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" '
        f'height="{_n(height)}" font-family="sans-serif" font-size="11" role="img">'
    )
    lines = [
        head,
        f"<title>{escape(printable(title))}</title>",
        f"<defs>{hatches}</defs>",
        f'<rect width="{_n(width)}" height="{_n(height)}" fill="#ffffff"/>',
        _text(_LEFT, 16, title, size=13),
        *body,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 11) -> str:
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" font-size="{size}" text-anchor="{anchor}" fill="#222222">'
        f"{escape(printable(words))}</text>"
    )


def _line(x: float, top: float, bottom: float) -> str:
    return (
        f'<line x1="{_n(x)}" x2="{_n(x)}" y1="{_n(top)}" y2="{_n(bottom)}" stroke="#222222" stroke-width="0.7" '
        'stroke-dasharray="2,2"/>'
    )


def _n(number: float) -> str:
    """Return a number with at most two decimals, without trailing zeros."""
    return f"{number:.2f}".rstrip("0").rstrip(".")
