"""The project's pages in parts: links, headings, tables, and blocks of code with the words after the fence."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Final, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

_READER: Final = MarkdownIt("commonmark").enable("table")


class Block(NamedTuple):
    """A block of code: `words` are those after the fence, the language first; `line` is where it begins."""

    page: Path
    line: int
    words: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{shown(self.page)}:{self.line}"

    @property
    def language(self) -> str:
        return self.words[0] if self.words else ""


def shown(path: Path) -> str:
    """Return a page's name for people."""
    return str(path.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """Return every block of code of a page."""
    return [
        Block(page, (token.map or [0])[0] + 1, tuple(token.info.split()), token.content)
        for token in _tokens(page)
        if token.type == "fence"
    ]


def blocks_in(language: str, *, word: str | None = None) -> list[Block]:
    """Return the blocks of all pages in a language, or only those with this word after the fence."""
    return [
        block
        for page in PAGES
        for block in blocks(page)
        if block.language == language and (word is None or word in block.words)
    ]


def links(page: Path) -> list[str]:
    """Return the targets of a page's links."""
    return [
        str(child.attrs["href"])
        for token in _tokens(page)
        for child in token.children or ()
        if child.type == "link_open"
    ]


def headings(page: Path, level: int | None = None) -> list[str]:
    """Return the headings of a page as text; of one level only, if given."""
    tokens = _tokens(page)
    return [
        tokens[number + 1].content
        for number, token in enumerate(tokens)
        if token.type == "heading_open" and level in (None, int(token.tag[1:]))
    ]


def anchors(page: Path) -> set[str]:
    """Return what links may name after the `#`, as code forges derive it from headings."""
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings(page)}


def section(page: Path, heading: str) -> str:
    """Return the text below a heading of the second level, up to the next."""
    parts = re.split(r"^## +(.*)$", page.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[heading]


def rows(text: str) -> list[list[str]]:
    """Return the cells of all tables in a text, without their heads."""
    return [list(cells) for cells in _cells(text)]


def names(cell: str) -> list[str]:
    """Return the names in back quotes in a cell."""
    return re.findall(r"`([^`]+)`", cell)


def present(page: Path) -> str:
    """Return a page without features that it calls missing."""
    return re.sub(r"^## Not yet$.*?(?=^## |\Z)", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@functools.cache
def _cells(text: str) -> tuple[tuple[str, ...], ...]:
    found: list[list[str]] = []
    in_body = False
    for token in _READER.parse(text):
        if token.type in ("tbody_open", "tbody_close"):
            in_body = token.type == "tbody_open"
        elif token.type == "tr_open" and in_body:
            found.append([])
        elif token.type == "inline" and in_body:
            found[-1].append(token.content)
    return tuple(map(tuple, found))


@functools.cache
def _tokens(page: Path) -> tuple[Token, ...]:
    return tuple(_READER.parse(page.read_text()))
