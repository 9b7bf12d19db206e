"""What the commands that change files of the host have in common: their arguments, and what they say was done."""

from __future__ import annotations

import argparse
import os
import sys

import msgspec

from sidecar.cli.flags import add_json, print_json
from sidecar.failures import ConfigError
from sidecar.host.install.daemon_json import Written
from sidecar.log import printable


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What was changed, or with a dry run would be: files written and removed, and notes for people."""

    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_dry: bool = False


def add_installing(parser: argparse.ArgumentParser, *, undo: str = "undo it") -> None:
    """`--remove`, `--dry-run`, `--root`, `--daemon-json` and `--json`."""
    parser.add_argument("--remove", action="store_true", help=undo)
    parser.add_argument("--dry-run", action="store_true", help="change nothing, and print what would change")
    parser.add_argument(
        "--root", default="/", metavar="DIR", help="where the host's file system is mounted (default: /)"
    )
    parser.add_argument(
        "--daemon-json",
        default="",
        metavar="PATH",
        help="dockerd's configuration file (default: the one that dockerd uses)",
    )
    add_json(parser)


def root_of(args: argparse.Namespace) -> str:
    """Return where the host's file system is. ConfigError where that is no directory."""
    root = os.path.abspath(str(args.root))
    if not os.path.isdir(root):
        raise ConfigError(f"--root {root} is not a directory")
    return root


def stays(written: Written) -> str:
    """Return the note about a copy that a removal leaves behind."""
    return f"{written.path} was changed by another program since: the content of before stays in {written.backup}"


def print_done(args: argparse.Namespace, done: Done, unchanged: str = "") -> None:
    """Say what was done, to people or to a program; `unchanged` is said to people if that was nothing."""
    if args.json:
        print_json(done)
    else:
        unchanged = unchanged or ("nothing of it is installed" if args.remove else "everything is set up already")
        sys.stdout.write("".join(f"{printable(line)}\n" for line in rendered(done, unchanged)))


def rendered(done: Done, unchanged: str) -> list[str]:
    """Return what was done, a line each; `unchanged` is the reason if that was nothing."""
    would = "would be " if done.is_dry else ""
    lines = [f"{would}written: {path}" for path in done.written]
    lines += [f"{would}removed: {path}" for path in done.removed]
    return [*(lines or [f"nothing to change: {unchanged}"]), *done.notes]
