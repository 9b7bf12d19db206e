"""Arguments of commands: read as all that people type, with all mistakes told at once, and the nearest right word.

`typed` is for argparse's `type`: its mistakes are values too, which `parse` finds before argparse reads the words.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, cast

from sidecar.cli.word_scan import asks_for_help, flag_too_early, is_flag, scanned, unknown_flag
from sidecar.config.config import Config, read_config
from sidecar.config.keys import KEYS, PATHS
from sidecar.log import printable
from sidecar.misreadings import ListKind, Misreading, TypedFlaw, Unknown
from sidecar.readers import Given, Reader, kept, misreading
from sidecar.words.misread import sentence
from state.mistakes import Flaw


def typed(name: str, read: Reader[Any, Any]) -> Callable[[str], object]:
    """Return a reader for argparse: from an argument's text it makes the value, or the argument's Misreading."""

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
    """Return the arguments of these words. Raise SystemExit (2) with the usage and all mistakes on stderr.

    Where there is a mistake, those of the configuration's flags, variables and file are told as well.
    """
    if not words:
        parser.print_help(sys.stderr)
        parser.exit(2)
    flags: Mapping[str, object] = parser._option_string_actions  # noqa: SLF001  # no public name
    begins = next((number for number, word in enumerate(words) if not is_flag(word, flags)), len(words))
    name, before, after = "".join(words[begins : begins + 1]), words[:begins], words[begins + 1 :]
    if asks_for_help(parser, before):
        return parser.parse_args(words)
    command = commands.get(name)
    mistakes = [(command and flag_too_early(word, command)) or unknown_flag(word, flags) for word in before]
    if begins < len(words) and name not in commands:
        mistakes.append(Misreading(name=kept(name), flaw=Unknown(ListKind.COMMAND, tuple(commands))))
    if name not in commands:
        misused(parser, mistakes)
    scan = scanned(commands[name], after)
    mistakes += scan.mistakes
    if mistakes and not asks_for_help(commands[name], after):
        misused(commands[name], [*mistakes, *_of_config(commands[name], scan.texts, environ)])
    return parser.parse_args(words)


def given_flags(args: argparse.Namespace) -> dict[str, str | None]:
    """Return the configuration's flags as given, None for the others; directories from where they were typed."""
    flags = {key: getattr(args, f"config_{key}", None) for key in KEYS}
    return {key: os.path.abspath(text) if key in PATHS and text else text for key, text in flags.items()}


def _of_config(
    command: argparse.ArgumentParser, texts: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[Misreading, ...]:
    """Return the mistakes in the configuration under these flags, for a command that reads it."""
    if all(each.dest != "config" for each in command._actions):  # noqa: SLF001  # no public name
        return ()
    serves = bool(command.get_default("serves"))
    read = read_config(texts.get("config"), environ, given_flags(argparse.Namespace(**texts)), serves=serves)
    return () if isinstance(read, Config) else read


def misused(parser: argparse.ArgumentParser, mistakes: Iterable[Misreading]) -> NoReturn:
    """Print the usage, and a line for each mistake. Raise SystemExit (2)."""
    rejected(parser, map(sentence, mistakes))


def rejected(parser: argparse.ArgumentParser, sentences: Iterable[str]) -> NoReturn:
    """Print the usage, and these sentences on what is wrong with the arguments. Raise SystemExit (2)."""
    lines = [f"{parser.prog}: {printable(each)}\n" for each in sentences]
    parser.print_usage(sys.stderr)
    parser.exit(2, "".join(lines))
