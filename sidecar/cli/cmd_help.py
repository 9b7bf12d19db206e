"""`help`: the help of the program, or of one command."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Final

from sidecar.cli.arguments import typed
from sidecar.cli.man_page import man_page
from sidecar.misreadings import ListKind, Misreading, Unknown
from sidecar.readers import kept, word

_EXAMPLES: Final = """examples:
  cpuset-sidecar help
  cpuset-sidecar help run
  cpuset-sidecar help --schema status
  cpuset-sidecar help --man > /usr/local/share/man/man8/cpuset-sidecar.8
"""


_SCHEMAS: Final = Path(__file__).parent / "schemas"
_END: Final = ".schema.json"


def _schemas() -> list[str]:
    """Return the names of the schemas in the package."""
    return sorted(path.name.removesuffix(_END) for path in _SCHEMAS.glob(f"*{_END}"))


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its argument."""
    parser = subparsers.add_parser(
        "help",
        description="Print the help of a command, as COMMAND --help does; without one the list of commands.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )

    def known(word: str) -> str | Misreading:
        flaw = Unknown(ListKind.COMMAND, tuple(subparsers.choices))
        return word if word in subparsers.choices else Misreading(name=kept(word), flaw=flaw)

    parser.add_argument("command", nargs="?", type=known, metavar="COMMAND", help="a command")
    parser.add_argument("--man", action="store_true", help="print the manual page of all commands, for man")
    parser.add_argument(
        "--schema",
        type=typed("--schema", word(*_schemas())),
        metavar="NAME",
        help=f"a JSON Schema: {', '.join(_schemas())}",
    )
    parser.set_defaults(func=partial(run, subparsers))


def run(subparsers: argparse._SubParsersAction[argparse.ArgumentParser], args: argparse.Namespace) -> int:
    """Print the help."""
    if args.schema:
        sys.stdout.write((_SCHEMAS / f"{args.schema}{_END}").read_text())
    elif args.man:
        sys.stdout.write(man_page(args.program, subparsers.choices))
    elif args.command:
        subparsers.choices[args.command].print_help()
    else:
        args.program.print_help()
    return 0
