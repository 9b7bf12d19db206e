"""`state`: the books, as they are on disk."""

from __future__ import annotations

import argparse
import os
import sys

from sidecar.cli.flags import add_config, add_json, config_of, print_json
from sidecar.cli.table import table
from state import files
from state.checkpoint import LIMIT, NAME, PREVIOUS, decode_checkpoint
from state.errors import StateError
from state.model import Originals, State


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    parser = subparsers.add_parser(
        "state",
        help="the books: who was granted what",
        description="The books as they are in the checkpoint: who was granted what, who was refused, and the\n"
        "settings that containers had before. Reads only; it needs no daemon.",
        epilog="examples:\n  cpuset-sidecar state\n  cpuset-sidecar state --json\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_json(parser)
    add_config(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print the newest books. StateError where there are none, or they cannot be read."""
    state = read_books(config_of(args).state_dir)
    if args.json:
        print_json(state)
    else:
        sys.stdout.write("\n".join(rendered(state)) + "\n")
    return 0


def read_books(state_dir: str) -> State:
    """The newest books on disk, which are left exactly as they are."""
    if not os.path.lexists(state_dir):
        raise StateError(f"there is no {state_dir}: no daemon has run with this state_dir (--state-dir says another)")
    with files.directory(state_dir) as at:
        # Between the two renames of a commit, only the previous file is there, and it is the newest.
        for name in (NAME, PREVIOUS):
            content = files.read_bounded(at, name, LIMIT)
            if content is not None:
                break
        else:
            raise StateError(f"there are no books in {state_dir}: no daemon has run with this state_dir")
    try:
        return decode_checkpoint(content)
    except StateError as error:
        raise StateError(f"{name} in {state_dir} cannot be used: {error}") from error


def rendered(state: State) -> list[str]:
    """The CPUs, then the grants, refusals and original settings."""
    lines = [
        f"policy {state.policy}, {state.grants} grants so far",
        f"online     {state.online or 'none'}",
        f"reserved   {state.reserved or 'none'}" + (" (strict: not in the shared pool)" if state.strict else ""),
        f"exclusive  {state.exclusive or 'none'}",
        f"shared     {state.shared or 'none'}",
    ]
    grants = sorted(state.assignments.values(), key=lambda each: each.since)
    rows = [(a.name, a.container[:12], str(len(a.cpus)), str(a.cpus), str(a.original)) for a in grants]
    lines += ["", *table(("GRANTED", "ID", "CPUS", "NOW", "AT FIRST"), rows)] if rows else []
    refused = [(r.name, r.container[:12], r.code.value, r.reason) for _, r in sorted(state.refusals.items())]
    lines += ["", *table(("REFUSED", "ID", "CODE", "REASON"), refused)] if refused else []
    before = [(id[:12], _settings(originals)) for id, originals in sorted(state.originals.items())]
    lines += ["", *table(("ID", "SETTINGS BEFORE"), before)] if before else []
    return lines


def _settings(originals: Originals) -> str:
    fields = {name: getattr(originals, name) for name in originals.__struct_fields__}
    return ", ".join(f"{name} {value}" for name, value in fields.items() if value) or "none"
