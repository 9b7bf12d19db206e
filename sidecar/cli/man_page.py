"""The manual page, in the language of man(7), from the same parsers as `--help`. Pure."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping

from sidecar.words.exit_codes import EXIT_CODES


def man_page(program: argparse.ArgumentParser, commands: Mapping[str, argparse.ArgumentParser]) -> str:
    """Return the page: what the program is, each command with its arguments and examples, and the exit codes."""
    return "\n".join(_lines(program, commands)) + "\n"


def _lines(program: argparse.ArgumentParser, commands: Mapping[str, argparse.ArgumentParser]) -> Iterator[str]:
    name = program.prog
    yield f'.TH {name.upper()} 8 "" "" "{_text(name)}"'
    yield from (".SH NAME", f"{_text(name)} \\- {_text(str(program.description).rstrip('.'))}")
    yield from (".SH SYNOPSIS", f".B {_text(name)}", ".I COMMAND", "[\\fIarguments\\fR]")
    yield from (".SH DESCRIPTION", *_paragraphs(program.epilog))
    yield ".SH COMMANDS"
    for each, parser in commands.items():
        usage = " ".join(parser.format_usage().removeprefix("usage:").split())
        yield from (f".SS {_text(each)}", f".B {_text(usage)}", ".PP", *_paragraphs(parser.description))
        for action in parser._actions:  # noqa: SLF001  # no public name
            yield from _argument(action)
        yield from (".PP", *_paragraphs(parser.epilog))
    yield ".SH EXIT STATUS"
    for code, means in EXIT_CODES.items():
        yield from (".TP", f".B {code}", _text(means))


def _argument(action: argparse.Action) -> Iterator[str]:
    value = str(action.metavar or action.dest.upper()) if action.nargs != 0 else ""
    flags = ", ".join(f"\\fB{_text(flag)}\\fR" for flag in action.option_strings)
    shown = f"{flags} \\fI{_text(value)}\\fR".strip() if flags else f"\\fI{_text(value)}\\fR"
    yield from (".TP", shown, _text(action.help or ""))


def _paragraphs(text: str | None) -> Iterator[str]:
    """Yield a text as it stands: lines that are indented are examples."""
    if text:
        yield from (".nf", *(_text(line) for line in text.strip("\n").split("\n")), ".fi")


def _text(text: str) -> str:
    """Return a text in which nothing is a request or an escape."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("%%", "%")
    return re.sub(r"^([.'])", r"\\&\1", escaped)
