"""A command's words, held to its arguments: all mistakes at once, where argparse stops at the first."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from sidecar.misreadings import (
    Absent,
    GivenTwice,
    ListKind,
    Misplaced,
    Misreading,
    NeedlessValue,
    NoValue,
    Superfluous,
    UsedTogether,
)
from sidecar.misreadings import Unknown as UnknownWord
from sidecar.readers import closest, kept

_NEGATIVE: Final = re.compile(r"-\d+|-\d*\.\d+")
"""A number, which argparse takes for no flag."""


class Scan(NamedTuple):
    """The mistakes, and the texts of the flags that take a value, by the names of their fields."""

    mistakes: tuple[Misreading, ...]
    texts: Mapping[str, str]


def scanned(command: argparse.ArgumentParser, words: Sequence[str]) -> Scan:
    """Compare the words after a command's name with its arguments."""
    scan = _Scan(command)
    scan.read(words)
    return Scan((*scan.mistakes, *scan.clashes(), *scan.missing()), scan.texts)


def is_flag(word: str, known: Mapping[str, object]) -> bool:
    """Return whether argparse takes the word for a flag, known or not."""
    if word.partition("=")[0] in known:
        return True
    return len(word) > 1 and word.startswith("-") and not _NEGATIVE.fullmatch(word) and " " not in word


def unknown_flag(word: str, known: Mapping[str, object]) -> Misreading:
    """Return the mistake of a flag that is none of the known ones."""
    flags = tuple(flag for flag in known if flag.startswith("--"))
    return Misreading(name=kept(word.partition("=")[0]), flaw=UnknownWord(ListKind.FLAG, flags))


def flag_too_early(word: str, command: argparse.ArgumentParser) -> Misreading | None:
    """Return the mistake of a flag of this command that stands before it; None if it has no such flag."""
    flag = word.partition("=")[0]
    return Misreading(name=flag, flaw=Misplaced(command.prog.rpartition(" ")[2])) if flag in _flags(command) else None


def asks_for_help(parser: argparse.ArgumentParser, words: Sequence[str]) -> bool:
    """Return whether one of these words only prints something: the help, or the version."""
    return any(isinstance(_flags(parser).get(word), argparse._HelpAction | argparse._VersionAction) for word in words)  # noqa: SLF001  # no public names


class _Scan:
    """The state of one scan: what is still expected, and what was found."""

    def __init__(self, command: argparse.ArgumentParser) -> None:
        self._command = command
        self._flags = _flags(command)
        self._places = [each for each in command._actions if not each.option_strings]  # noqa: SLF001  # no public name
        self._seen: list[argparse.Action] = []
        self._meant: list[argparse.Action] = []
        self.mistakes: list[Misreading] = []
        self.texts: dict[str, str] = {}

    def read(self, words: Sequence[str]) -> None:
        """Read the words in their order, up to a program with arguments of its own."""
        rest, are_flags = list(words), True
        while rest:
            word = rest.pop(0)
            if are_flags and word == "--":
                are_flags = False
            elif are_flags and is_flag(word, self._flags):
                self._read_flag(word, rest)
            elif self._places and self._places[0].nargs == argparse.REMAINDER:
                return
            elif self._places:
                self._read_text(self._places.pop(0), word)
            else:
                self.mistakes.append(Misreading(given=kept(word), flaw=Superfluous()))

    def clashes(self) -> Iterator[Misreading]:
        """Yield the flags that exclude each other."""
        for group in self._command._mutually_exclusive_groups:  # noqa: SLF001  # no public name
            names = list(dict.fromkeys(_name(each) for each in self._seen if each in group._group_actions))  # noqa: SLF001
            if len(names) > 1:
                yield Misreading(name=names[0], flaw=UsedTogether(names[1]))

    def missing(self) -> Iterator[Misreading]:
        """Yield what must be given and is not, nor was meant by a word that is misspelt."""
        for place in self._places:
            if place.nargs is None:
                yield Misreading(flaw=Absent((_name(place),)))
        there = [*self._seen, *self._meant]
        for group in self._command._mutually_exclusive_groups:  # noqa: SLF001  # no public name
            actions = group._group_actions  # noqa: SLF001  # no public name
            if group.required and not any(each in there for each in actions):
                yield Misreading(flaw=Absent(tuple(map(_name, actions))))

    def _read_flag(self, word: str, rest: list[str]) -> None:
        name, equals, text = self._parts(word)
        if name not in self._flags:
            self.mistakes.append(unknown_flag(word, self._flags))
            meant = self._flags.get(closest(name, self._flags))
            if meant:
                self._meant.append(meant)
                if meant.nargs is None and not equals and rest and not is_flag(rest[0], self._flags):
                    rest.pop(0)
            return
        action = self._flags[name]
        if action in self._seen and action.nargs != 0 and not isinstance(action, argparse._AppendAction):  # noqa: SLF001
            self.mistakes.append(Misreading(name=name, flaw=GivenTwice()))
        self._seen.append(action)
        if equals and action.nargs == 0:
            self.mistakes.append(Misreading(name=name, given=kept(text), flaw=NeedlessValue()))
        elif equals:
            self._read_text(action, text)
        elif action.nargs != 0 and rest and rest[0] != "--" and not is_flag(rest[0], self._flags):
            self._read_text(action, rest.pop(0))
        elif action.nargs is None:
            self.mistakes.append(Misreading(name=name, flaw=NoValue(str(action.metavar or "VALUE"))))

    def _parts(self, word: str) -> tuple[str, str, str]:
        """Return the flag, what joins it to its value, and the value. A short one needs nothing between: `-owide`."""
        short = self._flags.get(word[:2])
        if word not in self._flags and word[1:2] != "-" and short and short.nargs is None and word[2:3] != "=":
            return word[:2], word[:2], word[2:]
        return word.partition("=")

    def _read_text(self, action: argparse.Action, text: str) -> None:
        self.texts[action.dest] = text
        found = action.type(text) if callable(action.type) else text
        if isinstance(found, Misreading):
            self.mistakes.append(found)


def _flags(parser: argparse.ArgumentParser) -> Mapping[str, argparse.Action]:
    return parser._option_string_actions  # noqa: SLF001  # no public name


def _name(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.option_strings else str(action.metavar or action.dest)
