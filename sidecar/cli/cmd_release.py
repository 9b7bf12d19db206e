"""`release`: give everything back, and leave."""

from __future__ import annotations

import argparse

from sidecar.cli.flags import add_config, config_of

_DESCRIPTION = """Give everything back: every container that the sidecar changed gets its original cpuset and
quota, and the books are emptied. The daemon must not be running. An engine cannot clear a cpuset, so a container that
had none is given all CPUs, written out, until it is made anew."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    parser = subparsers.add_parser(
        "release",
        help="give everything back: original cpusets and quotas",
        description=_DESCRIPTION,
        epilog="example:\n  cpuset-sidecar release\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_config(parser, ("engine", "state_dir", "projections", "cgroup", "shared_slice", "log_level", "log_format"))
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Release, and say how it went."""
    config = config_of(args)
    # Only here: other commands do not pay for the daemon's imports.
    from sidecar import daemon

    return daemon.release(config)
