"""`release`: restore all original settings, and exit."""

from __future__ import annotations

import argparse
import sys

from sidecar.cli.doctor.front_checks import fronts_here
from sidecar.cli.flags import add_config, add_json, config_of, last_daemons_config, print_json
from sidecar.commit.fallback_books import was_used
from sidecar.config.keys import KEYS
from sidecar.failures import Misuse, SidecarError
from sidecar.log import printable
from sidecar.words.counts import named
from sidecar.words.missing_records import nothing_to_release
from sidecar.words.released import fronts_stay

_DESCRIPTION = """Release everything: every container that the sidecar changed gets back its original cpuset and
quota, and the recorded state is emptied. The daemon must not be running. An engine cannot clear a cpuset, so a
container that had none is left with all CPUs listed explicitly until it is recreated. With a container's name only its
exclusive CPUs are released, by the running daemon, until its next start."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "release",
        description=_DESCRIPTION,
        epilog="examples:\n  cpuset-sidecar release\n  cpuset-sidecar release batch\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "container",
        nargs="?",
        help="release only this one, by its name or the beginning of its ID, until it is next started: the daemon must "
        "be running",
    )
    add_json(parser)
    add_config(parser, KEYS)
    parser.set_defaults(func=run, doing="restoring settings")


def run(args: argparse.Namespace) -> int:
    """Release every container, or one. Return 1 if one could not be released."""
    if args.container is not None:
        return _one(args)
    if args.json:
        raise Misuse(
            "--json is for one container: name it, or take --log-format json, since everything is released with a log"
        )
    config = last_daemons_config(args)
    if not was_used(config.state_dir):
        raise SidecarError(nothing_to_release(config.state_dir))
    # Only here: other commands do not pay for the daemon's imports.
    from sidecar import daemon

    code = daemon.release(config)
    if fronts := fronts_here():
        sys.stdout.write(f"{printable(fronts_stay(list(fronts)))}\n")
    return code


def _one(args: argparse.Namespace) -> int:
    """Have the daemon release one container, and print where that is. SidecarError with the reason if it is refused."""
    # Only here: a release of everything needs no client.
    from sidecar.cli.daemon_client import ask, container_route
    from sidecar.status.last_state import ContainerReading

    made = ask(config_of(args).state_dir, "POST", container_route(args.container, "release"), ContainerReading)
    if args.json:
        print_json(made)
        return 0
    moves = f"is being moved to {named(made.desired)}" if made.desired != made.cpus else f"runs on {named(made.cpus)}"
    line = f"{made.name} released its exclusive CPUs until it is next started, and {moves}"
    sys.stdout.write(f"{printable(line)}\n")
    return 0
