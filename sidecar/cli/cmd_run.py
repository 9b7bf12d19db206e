"""`run`: the daemon."""

from __future__ import annotations

import argparse

from sidecar.cli.flags import add_config, config_of, this_machine
from sidecar.config.keys import KEYS

_EXAMPLES = """examples:
  cpuset-sidecar run --policy static --reserved 0
  CPUSET_SIDECAR_POLICY=static CPUSET_SIDECAR_RESERVED=0 cpuset-sidecar run
  cpuset-sidecar run --config ./cpuset-sidecar.toml --log-format json
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command, with every key of the configuration as a flag."""
    parser = subparsers.add_parser(
        "run",
        help="the daemon: give labelled containers CPUs of their own",
        description="Run the daemon in the foreground until SIGTERM or Ctrl-C, which leave containers as they are.\n"
        "SIGHUP reads the configuration again.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_config(parser, KEYS)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Run the daemon until it is asked to stop."""
    config = config_of(args, this_machine)
    # Only here: a wrong configuration is reported first, and other commands skip the daemon's imports.
    from sidecar import daemon

    return daemon.run(config)
