"""The figures as SVG: box plots of every case on common axes, and one run over time. The same outcomes, the same bytes.

matplotlib draws; afterwards the colours of paper and ink are made to follow the reader's, light or dark: the page
brings its own paper, so it can be read on any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tests.bench.benefit.cases import CASES, Case
from tests.bench.benefit.load import Shape
from tests.bench.benefit.lockstep import Outcome
from tests.bench.benefit.study import Moment, chosen

PAPER: Final = ("#fdfdfc", "#16181d")
INK: Final = ("#24262b", "#e3e5e8")
FAINT: Final = ("#d5d7da", "#3a3d44")
"""In the light, and in the dark. What is drawn with the first becomes the second where the reader prefers dark."""

COLOURS: Final = {"none": "#8a8f98", "static": "#3f8fc4", "dynamic": "#d9822b"}
"""By the first word of a case; each can be told from the others, and from the paper, in light and dark."""

SETTINGS: Final = {
    "svg.hashsalt": "benefit",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), INK[0]),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), PAPER[0]),
    "grid.color": FAINT[0],
}

Values = Callable[[Outcome], Sequence[float]]

PANELS: Final[tuple[tuple[str, Values, bool], ...]] = (
    ("server: p99 of the response time, s", lambda one: [one.p99], True),
    ("batch job: work done, CPUs' worth", lambda one: [one.batch], False),
    ("takes: until the CPUs were left, s", lambda one: one.given_back, True),
)
"""Label of the axis, values of one run, whether the axis is logarithmic."""

TITLES: Final = {
    Shape.BURSTS: "bursts: the load jumps between 16 and 40 CPUs",
    Shape.WAVES: "waves: the load swings between 16 and 40 CPUs in 90 s",
}


def boxes(outcomes: Sequence[Outcome], cases: Sequence[Case] = CASES) -> Figure:
    """Draw a row of panels for each shape of load, with a box for each case."""
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(10.5, 7.2), layout="constrained")
        grid = figure.subplots(len(Shape), len(PANELS), sharey=True, sharex="col", squeeze=False)
        for row, shape in zip(grid, Shape, strict=True):
            row[0].set_title(TITLES[shape], loc="left", fontweight="bold", fontsize=10)
            for axes, (label, values, is_log) in zip(row, PANELS, strict=True):
                found = [[v for one in chosen(outcomes, case, shape) for v in values(one)] for case in cases]
                _draw(axes, found, cases)
                axes.set_xscale("log" if is_log else "linear")
                if is_log:
                    axes.set_xlim(0.08, 30)
                    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                else:
                    axes.set_xlim(left=0)
                if shape is list(Shape)[-1]:
                    axes.set_xlabel(label)
        seeds = len({one.seed for one in outcomes})
        figure.supxlabel(
            f"n = {seeds} seeds a box; in the right panels all takes of all seeds. Line: median. Box: quartiles. "
            "Whiskers: up to 1.5 times\nthe box beyond it. Dots: what lies outside. "
            "The same requests for every policy. Left panels: less is better; middle: more is better.",
            fontsize=8.5,
        )
        return figure


def _draw(axes: Any, found: list[list[float]], cases: Sequence[Case]) -> None:
    drawn = axes.boxplot(
        found,
        orientation="horizontal",
        widths=0.6,
        patch_artist=True,
        manage_ticks=False,
        medianprops={"color": INK[0], "linewidth": 1.6},
        whiskerprops={"color": INK[0]},
        capprops={"color": INK[0]},
        flierprops={"marker": ".", "markersize": 4, "markeredgecolor": INK[0], "markerfacecolor": INK[0]},
    )
    for box, case in zip(drawn["boxes"], cases, strict=True):
        box.set(facecolor=COLOURS[re.split(r"\W", case.name)[0]], edgecolor=INK[0])
    # The first case on top. All panels share this axis: what is set on one is set on all, and labels show on the left.
    axes.set_ylim(len(cases) + 0.6, 0.4)
    axes.set_yticks(range(1, len(cases) + 1), [case.name for case in cases])
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)


def timeline(moments: Sequence[Moment]) -> Figure:
    """Draw one run: what was asked for and what each container had; below it the requests in line."""
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(10.5, 4.6), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        at = [moment.at for moment in moments]
        above.plot(
            at, [moment.asked for moment in moments], color=COLOURS["none"], linewidth=0.8, label="asked of the server"
        )
        for name, colour in (("server", "dynamic"), ("batch", "static")):
            cpus = [getattr(moment, name) for moment in moments]
            above.plot(at, cpus, color=COLOURS[colour], linewidth=1.8, drawstyle="steps-pre", label=f"the {name} has")
        above.set(ylabel="CPUs", ylim=(0, None))
        above.legend(loc="upper right", ncols=3, frameon=False, labelcolor=INK[0])
        below.fill_between(at, [moment.line for moment in moments], color=COLOURS["dynamic"], linewidth=0)
        below.set(ylabel="requests in line", xlabel="time, s", xlim=(at[0], at[-1]), ylim=(0, None))
        for axes in (above, below):
            axes.grid()
            axes.set_axisbelow(True)
        return figure


def write(figure: Figure, path: Path) -> None:
    """Write an SVG without a date, which follows the reader's preference for light or dark."""
    with mpl.rc_context(SETTINGS):
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    text = re.sub(r"(<svg [^>]*>)", lambda found: found[1] + _night(), path.read_text(), count=1)
    path.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")


def _night() -> str:
    """Show light colours as their dark ones; a viewer without such rules shows the light ones."""
    rules = [
        f'[style*="{what}: {light}"]{{{what}:{dark}!important}}'
        for light, dark in (PAPER, INK, FAINT)
        for what in ("fill", "stroke")
    ]
    return f"<style>@media (prefers-color-scheme: dark) {{{' '.join(rules)}}}</style>"
