"""The sections `[[hook]]` of the configuration's file: what is run, or asked over HTTP, at changes; with all mistakes.

Only the file can have hooks, not variables or flags: a command runs with the daemon's rights.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, cast
from urllib.parse import urlsplit

import msgspec

from sidecar.misreadings import Form, ListKind, Misreading, NoTable, NotOfForm, TypedFlaw, Unknown
from sidecar.readers import Given, duration, misreading, text, words
from state.mistakes import Flaw

SECTION: Final = "hook"

MOST_HOOKS: Final = 16

WARNING: Final = "warning"
"""Stands for every change that is a warning."""
TAKE: Final = "take"
"""Stands for every step of a take."""

KINDS: Final = ("exchanged", "granted", "grew", "moved", "refused", "released", "shrank", TAKE, WARNING)
"""What a hook may be for, in the order of the alphabet."""

_KEYS: Final = ("name", "command", "webhook", "on", "timeout")
_MOST_WORDS: Final = 64
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,63}")
_SHORTEST, _LONGEST = 0.1, 60.0


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """A hook: its `command` is run, or its `webhook` asked, at changes of the kinds `on`; at all if there are none."""

    name: str
    command: tuple[str, ...] = ()
    webhook: str = ""
    on: tuple[str, ...] = ()
    timeout_seconds: float = 10.0


Places: TypeAlias = Callable[[int, str], str]
"""Returns `FILE, line N` of a key in the hook of this index, or of the hook itself for ""."""


def read_hooks(value: object, places: Places) -> tuple[tuple[Hook, ...], list[Misreading]]:
    """Return the hooks in the sections of a file, and all mistakes in them."""
    mistakes: list[Misreading] = []
    if not isinstance(value, list):
        return (), [Misreading(where=places(0, ""), name=SECTION, flaw=NoTable(is_list=True))]
    hooks = [_hook(places, number, table, mistakes) for number, table in enumerate(value)]
    mistakes += _names_twice(hooks, places)
    if len(hooks) > MOST_HOOKS:
        flaw = NotOfForm(Form.HOOKS)
        mistakes.append(Misreading(where=places(MOST_HOOKS, ""), name=SECTION, given=str(len(hooks)), flaw=flaw))
    return tuple(hooks), mistakes


def _names_twice(hooks: Sequence[Hook], places: Places) -> Iterator[Misreading]:
    """Yield a mistake for each later hook of a name: of two, the success of one would hide the failure of the other."""
    names: set[str] = set()
    for number, hook in enumerate(hooks):
        if hook.name in names:
            yield misreading(Given("name", hook.name, places(number, "name")), NotOfForm(Form.HOOK_NAME_TWICE))
        names.add(hook.name)


def _hook(places: Places, number: int, table: object, mistakes: list[Misreading]) -> Hook:
    """Return one hook; its mistakes are added."""

    def fail(key: str, found: object, flaw: Flaw) -> None:
        mistakes.append(misreading(Given(key, found, places(number, key)), cast(TypedFlaw, flaw)))

    made = Hook(name=f"{number + 1}")
    if not isinstance(table, Mapping):
        mistakes.append(Misreading(where=places(number, ""), name=SECTION, flaw=NoTable(is_list=True)))
        return made
    for key, found in table.items():
        if key not in _KEYS:
            fail(key, found, Unknown(ListKind.KEY, _KEYS))
            continue
        field, read = _READERS[key]
        if isinstance(value := read(found), Flaw):
            fail(key, found, value)
        else:
            made = msgspec.structs.replace(made, **{field: value})
    if ("command" in table) is ("webhook" in table):
        flaw = NotOfForm(Form.HOOK)
        given = Given(SECTION, ", ".join(sorted(map(str, table))) or "{}", places(number, ""))
        mistakes.append(misreading(given, flaw))
    return made


def _name(value: object) -> str | Flaw:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else NotOfForm(Form.HOOK_NAME)


def _command(value: object) -> tuple[str, ...] | Flaw:
    """Read a list of words; no shell ever reads it."""
    is_list = isinstance(value, list) and 0 < len(value) <= _MOST_WORDS
    if not is_list or not all(isinstance(word, str) and "\0" not in word for word in cast(list[object], value)):
        return NotOfForm(Form.COMMAND)
    found = tuple(cast(list[str], value))
    return found if found[0].startswith("/") else NotOfForm(Form.COMMAND)


def _webhook(value: object) -> str | Flaw:
    if isinstance(flaw := text(value), Flaw):
        return flaw
    return str(value) if is_address(str(value)) else NotOfForm(Form.WEBHOOK)


def is_address(url: str) -> bool:
    """Return whether this is a URL that can be asked: http or https, a host, no user, no fragment, plain characters."""
    if not re.fullmatch(r"[!-~]{1,2000}", url):
        return False
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    is_plain = not parts.fragment and "@" not in parts.netloc and port != 0
    return parts.scheme in ("http", "https") and bool(parts.hostname) and is_plain


_READERS: Final[Mapping[str, tuple[str, Callable[[object], object]]]] = {
    "name": ("name", _name),
    "command": ("command", _command),
    "webhook": ("webhook", _webhook),
    "on": ("on", words(KINDS)),
    "timeout": ("timeout_seconds", duration(_SHORTEST, _LONGEST)),
}
