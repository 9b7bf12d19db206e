"""`ack`: a workload acknowledges that it has left the CPUs about to be taken, which ends its grace period."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

from sidecar.cli.arguments import typed
from sidecar.cli.flags import add_json, print_json
from sidecar.readers import whole
from state import ack
from state.errors import ProjectionError
from state.own_directory import default_directory
from state.projection import MAX_GENERATION, read

_DESCRIPTION: Final = """Acknowledge that this workload has left the CPUs that its projection lists as `leaving`.
They are taken at once, instead of at the end of the grace period. If no CPU is leaving, this does nothing."""

_EPILOG: Final = """examples:
  cpuset-sidecar ack
  cpuset-sidecar ack --dir /run/cpus 17
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "ack",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "generation",
        nargs="?",
        type=typed("GENERATION", whole(0, MAX_GENERATION)),
        metavar="GENERATION",
        help="the generation that was followed (default: the current one)",
    )
    parser.add_argument(
        "--dir",
        metavar="DIR",
        help="the projection directory; by default $CPUSET_SIDECAR_DIR, or /run/cpuset-sidecar/by-id/$HOSTNAME",
    )
    add_json(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Acknowledge, and print the result. ProjectionError if that fails."""
    directory = os.path.abspath(args.dir or default_directory(os.environ))
    now = read(directory)
    wanted: int = now.generation if args.generation is None else args.generation
    if wanted > now.generation:
        raise ProjectionError(f"{directory} is at generation {now.generation}: {wanted} cannot be acknowledged yet")
    if now.leaving:
        ack.write(directory, wanted)
    answer = ack.WrittenAck(
        acknowledged=wanted if now.leaving else None,
        generation=now.generation,
        leaving=now.leaving,
        directory=directory,
    )
    if args.json:
        print_json(answer)
    else:
        sys.stdout.write(f"{_sentence(answer)}\n")
    return 0


def _sentence(answer: ack.WrittenAck) -> str:
    if answer.acknowledged is None:
        return "nothing to acknowledge: no CPU is about to be taken"
    if answer.acknowledged < answer.generation:
        return f"acknowledged {answer.acknowledged}; newer: generation {answer.generation}, leaving {answer.leaving}"
    return f"acknowledged {answer.acknowledged}: leaving {answer.leaving}"
