"""`resize`: set the number of CPUs of a container, between its floor and its ceiling."""

from __future__ import annotations

import argparse
import sys

from sidecar.api.documents import ResizeBody, Sizing
from sidecar.cli.arguments import typed
from sidecar.cli.flags import add_config, add_json, config_of, print_json
from sidecar.log import printable
from sidecar.readers import whole
from sidecar.words.counts import agree, cpus, named
from state.cpuset import MAX_CPU

_DESCRIPTION = """Set the number of CPUs of a container. Its label must be cpuset.scale=manual, and the size between its
cpuset.min and cpuset.max. The command returns once this is decided: the container keeps CPUs that it loses until it
acknowledges or its notice is over; CPUs that it gains are free of others before it is told."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "resize",
        description=_DESCRIPTION,
        epilog="examples:\n  cpuset-sidecar resize batch 2\n  cpuset-sidecar resize batch 6 --json\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("container", help="its name, or the beginning of its ID")
    parser.add_argument("cpus", type=typed("N", whole(1, MAX_CPU)), metavar="N", help="the number of CPUs")
    add_json(parser)
    add_config(parser)
    parser.set_defaults(func=run, doing="waiting for the daemon")


def run(args: argparse.Namespace) -> int:
    """Order the size, and print the decision. SidecarError with the reason if it is refused."""
    # Only here: other commands do not pay for HTTP.
    from sidecar.cli.daemon_client import ask, container_route

    route = container_route(args.container, "resize")
    made = ask(config_of(args).state_dir, "POST", route, Sizing, ResizeBody(args.cpus))
    if args.json:
        print_json(made)
    else:
        sys.stdout.write("".join(f"{printable(line)}\n" for line in rendered(made)))
    return 0


def rendered(made: Sizing) -> list[str]:
    """Return what it has, what it will have, what is leaving and until when, and what was made of the number."""
    lines = [f"{made.name} has {cpus(len(made.granted))} ({made.granted}); it runs on {named(made.cpus)} now"]
    if made.leaving:
        are = agree(len(made.leaving.cpus), "is", "are")
        taken = f"  {named(made.leaving.cpus)} {are} leaving it (take {made.leaving.number})"
        if made.leaving.is_due:
            lines.append(f"{taken} now")
        else:
            lines.append(f"{taken}: until it acknowledges, or {made.leaving.notice_seconds:g} s from now")
    elif made.waits_for:
        lines.append(f"  it waits for {made.waits_for}")
    return [*lines, *(f"  {told}" for told in (made.rounded, made.short) if told)]
