"""`topology`: the machine as text, as a map, as JSON, or as a record that can be read elsewhere."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sidecar.cli.drawing import draw
from sidecar.cli.flags import add_json, print_json
from sidecar.host.record import read_record, record
from sidecar.host.sysfs import read_topology
from sidecar.publish.status import Machine, machine_of
from state.errors import StateError
from state.topology import Topology

_EXAMPLES = """examples:
  cpuset-sidecar topology
  cpuset-sidecar topology --record machine.txt    one reviewable text file, for a bug report
  cpuset-sidecar topology --machine machine.txt   the same machine, read elsewhere
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    parser = subparsers.add_parser(
        "topology",
        help="the machine: sockets, nodes, caches, cores, CPUs",
        description="The machine as the sidecar sees it: sockets, nodes, caches, cores, CPUs.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--record", nargs="?", const="-", metavar="FILE", help="write the machine as text (default: stdout)"
    )
    parser.add_argument("--machine", metavar="FILE", help="show a recorded machine instead of this one")
    parser.add_argument("--sys", default="/sys", metavar="DIR", help="where sysfs is (default: /sys)")
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Show or record the machine. StateError where it is not one."""
    if args.record:
        _record(args.sys, args.record)
        return 0
    topology = read_record(_text(args.machine)) if args.machine else read_topology(args.sys)
    machine = machine_of(topology)
    if args.json:
        print_json(machine)
    else:
        sys.stdout.write("\n".join(rendered(topology, machine)) + "\n")
    return 0


def rendered(topology: Topology, machine: Machine) -> list[str]:
    """A line of counts, the map, and what the machine did not tell."""
    threads = sorted({len(core.cpus) for core in topology.cores})
    counts = [
        _count(len(topology.packages), "socket"),
        _count(len(topology.nodes), "node"),
        _count(len(topology.caches), "last-level cache"),
        f"{_count(len(topology.cores), 'core')} of {' or '.join(map(str, threads))} "
        + ("CPU" if threads == [1] else "CPUs"),
        f"{_count(len(topology.online), 'CPU')} online: {topology.online}",
    ]
    notes = [f"note: {note}" for note in topology.notes]
    return [", ".join(counts), *notes, "", *draw(machine, {})]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _record(root: str, target: str) -> None:
    text = record(root)
    if target == "-":
        sys.stdout.write(text)
        return
    try:
        Path(target).write_text(text, encoding="ascii")
    except OSError as error:
        raise StateError(f"the record cannot be written to {target}: {error.strerror}") from error


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="ascii")
    except OSError as error:
        raise StateError(f"the record {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StateError(f"{file} is not a recorded machine: it is not text") from error
