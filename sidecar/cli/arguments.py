"""Arguments of commands: read as all that people type, with all mistakes told at once, and the nearest right word.

`typed` is for argparse's `type`: its mistakes are values too, and stand in the Namespace until `parse` finds them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, cast

from sidecar.config.config import Config, read_config
from sidecar.config.keys import KEYS, PATHS
from sidecar.log import printable
from sidecar.misreadings import ListKind, Misreading, Superfluous, TypedFlaw, Unknown
from sidecar.readers import Given, Reader, kept, misreading
from sidecar.words.misread import sentence
from state.mistakes import Flaw


def typed(name: str, read: Reader[Any, Any]) -> Callable[[str], object]:
    """What argparse makes of an argument's text: its value, or the Misreading of the argument of this name."""

    def take(text: str) -> object:
        found = read(text)
        return misreading(Given(name, text), cast(TypedFlaw, found)) if isinstance(found, Flaw) else found

    return take


def parse(
    parser: argparse.ArgumentParser,
    commands: Mapping[str, argparse.ArgumentParser],
    words: Sequence[str],
    environ: Mapping[str, str],
) -> argparse.Namespace:
    """The arguments of these words. SystemExit (2) with the usage and all mistakes on stderr.

    Where there is a mistake, those of the configuration's flags, variables and file are told as well.
    """
    name = next((word for word in words if not word.startswith("-")), "")
    if not words:
        parser.print_help(sys.stderr)
        parser.exit(2)
    if name and name not in commands:
        _end(parser, [Misreading(name=kept(name), flaw=Unknown(ListKind.COMMAND, tuple(commands)))])
    args, rest = parser.parse_known_args(words)
    mistakes = [*_unread(args), *_untaken(rest, commands.get(name, parser))]
    if mistakes:
        _end(commands.get(name, parser), [*mistakes, *_of_config(args, environ)])
    return args


def given_flags(args: argparse.Namespace) -> dict[str, str | None]:
    """The configuration's flags as they were given, None for the others; directories from where they were typed."""
    flags = {key: getattr(args, f"config_{key}", None) for key in KEYS}
    return {key: os.path.abspath(text) if key in PATHS and text else text for key, text in flags.items()}


def _unread(args: argparse.Namespace) -> Iterator[Misreading]:
    """The mistakes among the values."""
    for value in vars(args).values():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, Misreading):
                yield each


def _untaken(rest: Iterable[str], command: argparse.ArgumentParser) -> Iterator[Misreading]:
    """Words that no argument takes: unknown flags, and where there are none, the others."""
    rest = tuple(rest)
    flags = [each.partition("=")[0] for each in rest if each.startswith("-")]
    known = tuple(flag for flag in command._option_string_actions if flag.startswith("--"))  # noqa: SLF001  # no public name
    for flag in flags:
        yield Misreading(name=kept(flag), flaw=Unknown(ListKind.FLAG, known))
    for word in () if flags else rest:
        yield Misreading(given=kept(word), flaw=Superfluous())


def _of_config(args: argparse.Namespace, environ: Mapping[str, str]) -> tuple[Misreading, ...]:
    if not hasattr(args, "config"):
        return ()
    read = read_config(args.config, environ, given_flags(args))
    return () if isinstance(read, Config) else read


def _end(parser: argparse.ArgumentParser, mistakes: Iterable[Misreading]) -> NoReturn:
    """The usage, and a line for each mistake."""
    lines = [f"{parser.prog}: {printable(sentence(each))}\n" for each in mistakes]
    parser.print_usage(sys.stderr)
    parser.exit(2, "".join(lines))
