"""`defragment`: exchange CPUs for better placed ones, where containers allow it."""

from __future__ import annotations

import argparse
import sys

from sidecar.api.documents import Defragmented
from sidecar.cli.flags import add_config, add_json, config_of, print_json
from sidecar.log import printable
from sidecar.words.counts import named

_DESCRIPTION = """Exchange the CPUs of containers with the label cpuset.move=true for better placed ones, if fewer
containers then span NUMA nodes, or caches, or have a core in part. A round makes a few moves at most; ask again for
more."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "defragment",
        description=_DESCRIPTION,
        epilog="examples:\n  cpuset-sidecar defragment\n  cpuset-sidecar defragment --json\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_json(parser)
    add_config(parser)
    parser.set_defaults(func=run, doing="waiting for the daemon")


def run(args: argparse.Namespace) -> int:
    """Ask the daemon to do it, and print the moves made. No move is not a failure."""
    # Only here: other commands do not pay for HTTP.
    from sidecar.cli.daemon_client import ask

    made = ask(config_of(args).state_dir, "POST", "/v1/defragment", Defragmented)
    if args.json:
        print_json(made)
    else:
        sys.stdout.write("".join(f"{printable(line)}\n" for line in rendered(made)))
    return 0


def rendered(made: Defragmented) -> list[str]:
    """Return a line a move, or why there was none."""
    moves = [f"{each.name}: {named(each.lost)} for {each.gained}: {each.reason}" for each in made.moves]
    return [*moves, *made.notes]
