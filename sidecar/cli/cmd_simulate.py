"""`simulate`: replay a scenario on an imagined or recorded machine, with the daemon's decisions."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from sidecar.cli.arguments import misused, typed
from sidecar.cli.flags import add_config, add_json, add_no_color, daemons_config
from sidecar.cli.machine_drawing import Paint, draw, legend, marks_of, plain
from sidecar.cli.output_files import check_writable, clashes, unwritable
from sidecar.cli.printout import printout, wrapped
from sidecar.cli.table import table
from sidecar.cli.this_machine import this_machine
from sidecar.host.machine.sysfs import read_topology
from sidecar.log import printable
from sidecar.readers import above_zero
from sidecar.simulation.happenings import Happening, What
from sidecar.simulation.picture import picture
from sidecar.simulation.scenario import Scenario, simulation_of
from sidecar.simulation.scenario_file import Host, scenario_in
from sidecar.simulation.summary import Summary, summary_of
from sidecar.simulation.virtual_host import Simulation
from sidecar.status.describe import status_of
from sidecar.status.document import Status
from sidecar.words.counts import counted
from sidecar.words.settings_text import settings_of
from state import codec

_DESCRIPTION = """Replay a scenario: containers that come and go, and their load, on a described or recorded machine.
The decisions are the daemon's own; the engine, the kernel and the workloads are models, and time is virtual.
Nothing on this host is changed, and with --like-this-host only its machine and settings are read."""

_EXAMPLES: Final = """examples:
  cpuset-sidecar simulate compose/scenarios/dynamic.toml
  cpuset-sidecar simulate compose/scenarios/load.toml --machine compose/machines/epyc.txt --svg load.svg
  cpuset-sidecar simulate compose/scenarios/two-cpus.toml --speed 5
  cpuset-sidecar simulate compose/scenarios/load.toml --json | jq 'select(.what == "grew")'
"""

_NAME: Final = 16
"""Columns of a container's name."""

_MARGIN: Final = 10 + 2 + _NAME + 2
"""Columns before the event: the time, the name, and a gap after each."""

_LEAST_ROOM: Final = 24
"""Columns for the event below which its further lines begin further left, or each would hold a word or two."""

_INDENT: Final = " " * 12


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "simulate",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scenario", metavar="SCENARIO", help="a TOML file")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--machine", metavar="FILE", help="a recorded machine instead of the scenario's")
    where.add_argument(
        "--like-this-host",
        action="store_true",
        help="this machine and the settings of the daemon that runs on it, instead of the scenario's",
    )
    parser.add_argument(
        "--speed",
        type=typed("--speed", above_zero(1_000_000, "10")),
        metavar="N",
        help="this many times faster than real time (default: at once)",
    )
    parser.add_argument("--svg", metavar="FILE", help="also draw which container has which CPUs when")
    parser.add_argument("--trace", metavar="FILE", help="also write the journal that the daemon would have written")
    add_json(parser)
    add_no_color(parser)
    add_config(parser)
    parser.set_defaults(func=partial(run, parser), doing="playing the scenario")


def run(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    """Print the history. Return 1 if a law was broken."""
    _check_outputs(parser, args)
    host, whose = _this_host(args) if args.like_this_host else (None, "")
    scenario = scenario_in(args.scenario, args.machine, host)
    _check_outputs(parser, args, scenario.recorded)
    trace: list[bytes] = []
    simulation = simulation_of(scenario, trace=trace.append if args.trace else None)
    paint, width = printout()
    if not args.json:
        notes = [settings_of(whose)] if whose else []
        notes += [f"it ends at {scenario.ends:g} s, and {_unplayed(scenario)}"] if _unplayed(scenario) else []
        heads = [scenario.title, *(f"note: {each}" for each in notes)]
        sys.stdout.write("".join("\n".join(wrapped(each, width)) + "\n\n" for each in heads))
    shown = 0
    for happenings in _played(simulation, scenario.ends, args.speed):
        if args.json:
            lines = [codec.encode(each).decode() for each in happenings]
            lines += [codec.encode(frame).decode() for frame in simulation.frames[shown:]]
            shown = len(simulation.frames)
        else:
            lines = [line for each in happenings for line in said(each, width)]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        if args.speed:
            sys.stdout.flush()
    figures = summary_of(simulation)
    if not args.json:
        ending = [*summarised(figures, width), "", *mapped(status_of(simulation.world), paint, width)]
        sys.stdout.write("\n" + "\n".join(ending) + "\n")
    if args.trace:
        _write(args.trace, b"".join(trace))
    if args.svg:
        _write(args.svg, drawn(scenario, simulation).encode())
    for sentence in figures.broken:
        sys.stderr.write(f"cpuset-sidecar: a law is broken: {printable(sentence)}\n")
    return 1 if figures.broken else 0


def _unplayed(scenario: Scenario) -> str:
    """Return how many events are not played because they are after its end; "" if all are."""
    late = sum(each.at > scenario.ends for each in scenario.events)
    verb = "are" if late > 1 else "is"
    return f"{late} of {counted(len(scenario.events), 'event')} {verb} not played" if late else ""


def _check_outputs(parser: argparse.ArgumentParser, args: argparse.Namespace, recorded: str = "") -> None:
    """Compare the files to be written with those that are read, also the machine that is `recorded` for the scenario.

    Raise SystemExit (2) if one would replace another, SidecarError if one cannot be written.
    """
    outputs = {"--svg": args.svg, "--trace": args.trace}
    inputs = {"SCENARIO": args.scenario, "--machine": args.machine, "--config": args.config, "[machine]": recorded}
    if wrong := tuple(clashes(outputs, inputs)):
        misused(parser, wrong)
    for file in filter(None, outputs.values()):
        check_writable(file)


def _this_host(args: argparse.Namespace) -> tuple[Host, str]:
    """Return this machine, with the settings that apply on it, and whose they are."""
    config, whose = daemons_config(args, this_machine)
    machine = read_topology()
    config.check_against(machine)
    return (machine, config), whose


def said(happening: Happening, width: int | None = None) -> list[str]:
    """Return a line of the history: the time, the container, the event and its reason; or several lines not wider than
    `width`, the further ones below the event where there is room.
    """
    words = [happening.what]
    words += [str(happening.cpus)] if happening.cpus else []
    words += [f"instead of {happening.was}"] if happening.was else []
    if happening.seconds is not None:
        what = "after the decision" if happening.what == What.IN_PLACE else "of notice"
        words.append(f"{happening.seconds:g} s {what}")
    text = " ".join(words) + (f": {happening.why}" if happening.why else "")
    before = f"{happening.at:10.3f}  {printable(happening.container):<{_NAME}}  "
    room = 0 if width is None else width - _MARGIN
    return wrapped(before + text, width, " " * _MARGIN if room >= _LEAST_ROOM else _INDENT)


def summarised(figures: Summary, width: int | None = None) -> list[str]:
    """Return the figures, and a table of the containers."""
    changes = counted(figures.moves, "change")
    takes = f"of takes, {figures.acknowledged} acknowledged and {figures.forced} forced"
    lines = [f"{figures.seconds:g} s: {changes} of size or place; {takes}"]
    if figures.waits_median is not None and figures.waits_most is not None:
        lines.append(
            f"from a decision until it was in place: {figures.waits_median:g} s in the median, "
            f"{figures.waits_most:g} s at most"
        )
    rows = [
        (
            each.name,
            f"{each.seconds:.1f}",
            f"{each.average:.1f}",
            f"{each.least}-{each.most}",
            f"{each.used:.1f}",
            str(each.moves),
            f"{max(each.waits):.3f}" if each.waits else "-",
        )
        for each in figures.containers
    ]
    head = ("NAME", "RAN (s)", "CPUS", "FROM-TO", "USED", "MOVES", "LONGEST WAIT (s)")
    return [*(part for line in lines for part in wrapped(line, width)), "", *table(head, rows, width)]


def mapped(status: Status, paint: Paint = plain, width: int | None = None) -> list[str]:
    """Return the map of the machine at the end."""
    return [*draw(status.machine, marks_of(status), paint, width), "", *legend(status, paint, width)]


def drawn(scenario: Scenario, simulation: Simulation) -> str:
    """Return the history as SVG."""
    return picture(scenario.title, simulation.machine, simulation.frames, simulation.log, scenario.ends)


def _played(simulation: Simulation, ends: float, speed: float | None) -> Iterable[Sequence[Happening]]:
    """Yield what happens, as it happens, an instant at a time."""
    began = time.monotonic()
    while (due := simulation.next_at) is not None and due <= ends:
        if speed:
            time.sleep(max(0.0, began + due / speed - time.monotonic()))
        yield simulation.advance(due)
    simulation.advance(ends)


def _write(file: str, content: bytes) -> None:
    try:
        with open(file, "wb") as opened:
            opened.write(content)
    except (OSError, ValueError) as error:
        raise unwritable(file, error) from error
