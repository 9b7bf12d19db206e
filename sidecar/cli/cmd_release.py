"""`release`: restore all original settings, and exit."""

from __future__ import annotations

import argparse

from sidecar.cli.flags import add_config, last_daemons_config
from sidecar.config.keys import KEYS

_DESCRIPTION = """Release everything: every container that the sidecar changed gets back its original cpuset and
quota, and the recorded state is emptied. The daemon must not be running. An engine cannot clear a cpuset, so a
container that had none is left with all CPUs listed explicitly until it is recreated."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "release",
        help="release everything: restore original cpusets and quotas",
        description=_DESCRIPTION,
        epilog="example:\n  cpuset-sidecar release\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_config(parser, KEYS)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Release every container. Return 1 if one could not be released."""
    config = last_daemons_config(args)
    # Only here: other commands do not pay for the daemon's imports.
    from sidecar import daemon

    return daemon.release(config)
