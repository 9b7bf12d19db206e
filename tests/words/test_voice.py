"""Messages have one voice: the rules in `sidecar.words`, as far as a program can check them. So have docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

import pytest

from tests.support.sources import SOURCES_GROUP, files, nodes, shown

pytestmark = pytest.mark.xdist_group(SOURCES_GROUP)

PROGRAM = files("sidecar", "state", "compose")

FORBIDDEN = re.compile(
    r"\b(to be had|for ever|anew|besides|has to go|nobody|somebody|anybody|everybody|who|whoever|the books|given back"
    r"|gives? back|giving everything back|put back|are not told|tells? of)\b",
    re.IGNORECASE,
)
"""A container is *it*, CPUs are available or granted, and state is recorded."""

TWO_SENTENCES = re.compile(r"^[a-z\0].*[\w)`\0]\. [A-Z]", re.DOTALL)
"""A clause that goes on as a sentence."""


STUMBLING = re.compile(
    r"\b(to be had|for ever|anew|besides|nobody|somebody|anybody|everybody|whom|whoever|gives? back|given back"
    r"|(?<!people )(?<!user )(?<!users )who)\b",
    re.IGNORECASE,
)
"""Turns at which readers of a docstring stumble. Only people and users are *who*."""


def texts(of: Sequence[ast.AST]) -> Iterator[str]:
    """Yield every text in the code with a space in it, except docstrings; NUL where an f-string has a value."""
    docstrings = {id(node.value) for node in of if isinstance(node, ast.Expr)}
    pieces = {id(each) for node in of if isinstance(node, ast.JoinedStr) for each in ast.walk(node) if each != node}
    for node in of:
        if id(node) in docstrings or (id(node) in pieces and not isinstance(node, ast.JoinedStr)):
            continue
        text = ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(str(each.value) if isinstance(each, ast.Constant) else "\0" for each in node.values)
        if " " in text.strip():
            yield text


def docstrings(of: Sequence[ast.AST]) -> Iterator[str]:
    """Yield every text that is a statement of its own, on one line, without what is quoted as code."""
    for node in of:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield re.sub(r"`[^`]*`", "``", " ".join(node.value.value.split()))


def turns(text: str) -> list[str]:
    """Return the turns in a docstring at which readers stumble."""
    return [match.group() for match in STUMBLING.finditer(text)]


def faults(text: str) -> list[str]:
    """Return what breaks a rule in a message."""
    found = [match.group() for match in FORBIDDEN.finditer(text)]
    if text.endswith(".") and not text.endswith("...") and text[0].islower():
        found.append("a full stop")
    if "\n" not in text and TWO_SENTENCES.search(text):
        found.append("two sentences")
    return found


def test_every_message_keeps_to_the_voice() -> None:
    """No message calls a container *who*, uses a turn that readers stumble over, or ends a clause with a full stop."""
    said = [(shown(path), text) for path in PROGRAM for text in texts(nodes(path))]
    assert {(path, text): found for path, text in said if (found := faults(text))} == {}


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("f'{name} waits until {cpus} are to be had'", ["to be had"]),
        ("'nobody else is there, and who was there is gone'", ["nobody", "who"]),
        ("'the books are kept in ' 'another place'", ["the books"]),
        ("'cannot write the state.'", ["a full stop"]),
        ("f'no socket at {path}. Start the engine'", ["two sentences"]),
        ("f'{path}: 1.5 s of notice, ... and 2 more'", []),
        ("'It runs in the shared pool.'", []),
    ],
)
def test_a_message_in_another_voice_is_found(message: str, found: list[str]) -> None:
    """The rules find each kind of fault, in parts of a text and in f-strings, and leave sound messages alone."""
    (text,) = texts(tuple(ast.walk(ast.parse(f"say({message})"))))
    assert faults(text) == found


def test_what_a_docstring_says_is_no_message() -> None:
    """Docstrings are for developers, and full sentences."""
    assert list(texts(tuple(ast.walk(ast.parse('def f() -> None:\n    """Tell nobody."""'))))) == []


def test_every_docstring_keeps_to_plain_words() -> None:
    """No docstring calls a container *who*, or uses a turn at which readers stumble."""
    said = [(shown(path), text) for path in PROGRAM for text in docstrings(nodes(path))]
    assert {(path, text): found for path, text in said if (found := turns(text))} == {}


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('"""What nobody holds, and who waits."""', ["nobody", "who"]),
        ('def f() -> None:\n    """Begin anew with what is to\n    be had."""', ["anew", "to be had"]),
        ('LIMIT = 4\n"""CPUs that are given back."""', ["given back"]),
        ('"""For users who create containers; `anew` is a name of the code."""', []),
        ('say("a message has its own list: who")', []),
    ],
)
def test_a_docstring_with_such_a_turn_is_found(code: str, found: list[str]) -> None:
    """Modules, functions and constants are searched, over the ends of lines; names of the code are left alone."""
    assert [turn for text in docstrings(tuple(ast.walk(ast.parse(code)))) for turn in turns(text)] == found


COUNTED = re.compile(
    r"\0 (?:(?:exclusive|running|whole|other|more|NUMA) )?(?:CPUs|cores|nodes|sockets|caches|threads|containers|checks"
    r"|grants|packages|samples|records|changes)\b|\0 takes\b(?! (?:no|effect|CPUs)\b)|\b(?:CPUs|nodes) \0"
    r"|\0 (?:have|mount|ask|are|were)\b"
)
"""A number before a noun in the plural, a list of CPUs behind one, or names before a verb in the plural."""

NO_COUNT = (
    r"\0: CPUs \0",
    r"^CPUs \0$",
    r"the policy \0 needs reserved CPUs",
    r"CPUs are numbered 0 to \0",
    r"cores have \0 threads here",
    r"the \0 threads per core",
    r"^\0 cores(?: only \(cpuset\.options\))?$",
    r"\0 CPUs: \0",
    r"\0 CPUs are no multiple of",
    r"\0 CPUs share a core",
    r"only \0 CPUs available",
    r"Requested \0 are not available",
)
"""Texts in which the number is never 1, or is none: a kind of core, widths, an engine's words, a heading."""


def uncounted(text: str) -> list[str]:
    """Return what has a fixed plural in a message where the number may be 1."""
    if any(re.search(each, text) for each in NO_COUNT):
        return []
    return [match.group().replace("\0", "_") for match in COUNTED.finditer(text)]


def test_every_number_agrees_with_its_noun() -> None:
    """No message says `1 CPUs`, `CPUs 3` of one CPU, or `web have`: words/counts.py makes these. Examples
    of workloads print what they read.
    """
    programs = [path for path in files("sidecar", "compose") if not {"workloads", "counts.py"} & set(path.parts)]
    said = [(shown(path), text) for path in programs for text in texts(nodes(path))]
    wrong = {
        (path, " ".join(text.replace("\0", "_").split())): found for path, text in said if (found := uncounted(text))
    }
    assert not wrong, "\n".join(map(str, wrong.items()))


@pytest.mark.parametrize(
    "message",
    ["it has \0 CPUs", "\0 NUMA nodes", "CPUs \0 are gone", "\0 have a cpuset of their own", "\0 grants so far"],
)
def test_a_number_that_does_not_agree_is_found(message: str) -> None:
    assert uncounted(message)
