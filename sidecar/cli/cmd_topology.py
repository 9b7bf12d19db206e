"""`topology`: the machine as text, as a map, as JSON, or as a record that can be read elsewhere."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sidecar.cli.flags import add_json, print_json
from sidecar.cli.machine_drawing import draw
from sidecar.failures import Misuse
from sidecar.host.machine.machine_file import machine_in
from sidecar.host.machine.record import record
from sidecar.host.machine.sysfs import read_topology
from sidecar.status.machine_levels import whole_machine_of
from sidecar.status.machine_map import MachineMap
from sidecar.words.machine_text import described
from state import files
from state.errors import StateError
from state.topology import Topology

_EXAMPLES = """examples:
  cpuset-sidecar topology
  cpuset-sidecar topology --record machine.txt    one reviewable text file, for a bug report
  cpuset-sidecar topology --machine machine.txt   the same machine, read elsewhere
  cpuset-sidecar topology --machine cpus.json     a machine recorded by `lscpu -J -e`, or as hwloc's XML
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "topology",
        description="Print the machine as the sidecar sees it: sockets, nodes, caches, cores, CPUs, nearby devices.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--record", nargs="?", const="-", metavar="FILE", help="write the machine as text (default: stdout)"
    )
    either.add_argument(
        "--machine", metavar="FILE", help="show this machine instead: a record, or lscpu's JSON, or hwloc's XML"
    )
    parser.add_argument("--sys", default="/sys", metavar="DIR", help="where sysfs is (default: /sys)")
    add_json(parser)
    parser.set_defaults(func=run, doing="looking at the machine")


def run(args: argparse.Namespace) -> int:
    """Show or record the machine. StateError if it cannot be understood, Misuse of a record as JSON."""
    if args.record and args.json:
        raise Misuse("--record writes text that the machine is read from again, and no JSON: leave one of them out")
    if args.record:
        _record(args.sys, args.record)
        return 0
    topology = machine_in(args.machine) if args.machine else read_topology(args.sys)
    machine = whole_machine_of(topology)
    if args.json:
        print_json(machine)
    else:
        sys.stdout.write("\n".join(rendered(topology, machine)) + "\n")
    return 0


def rendered(topology: Topology, machine: MachineMap) -> list[str]:
    """Return the levels in words, what the machine did not report, and the map."""
    notes = [f"note: {note}" for note in topology.notes]
    return [*described(topology), *notes, "", *draw(machine, {})]


def _record(root: str, target: str) -> None:
    text = record(root)
    if target == "-":
        sys.stdout.write(text)
        return
    try:
        Path(target).write_text(text, encoding="ascii")
    except OSError as error:
        raise StateError(f"the record cannot be written to {target}: {files.reason(error)}") from error
