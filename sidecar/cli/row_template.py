"""`--format`: a line for each row, as a template of fields says: `{{.Name}} {{.CPUs}}`. Pure.

It is the part of Docker's templates that is about fields, and nothing is evaluated: text, fields, and `\\t` and `\\n`.
`table` before it adds a head and lines the columns up; the word `json` alone is a JSON object for each row. Which
fields there are depends on what the command tells of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sidecar.cli.table import table
from sidecar.log import printable
from sidecar.misreadings import Form, ListKind, Misreading, NotOfForm, Unknown
from sidecar.readers import kept

T = TypeVar("T")

JSON: Final = "json"
_TABLE: Final = "table "
_FIELD: Final = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_ESCAPES: Final = {"\\t": "\t", "\\n": "\n"}


class Fields(NamedTuple, Generic[T]):
    """What a template may name of a row, and the row as JSON."""

    by_name: Mapping[str, Callable[[T], str]]
    as_json: Callable[[T], str]


class RowTemplate(NamedTuple):
    """A template: texts and fields in turns, beginning and ending with a text."""

    parts: tuple[str, ...]
    is_table: bool = False
    is_json: bool = False


def template_reader(fields: Fields[Any]) -> Callable[[str], RowTemplate | Misreading]:
    """Return a reader of templates of these fields, for argparse."""

    def read(text: str) -> RowTemplate | Misreading:
        if text.strip() == JSON:
            return RowTemplate((), is_json=True)
        is_table = text.startswith(_TABLE)
        body = text.removeprefix(_TABLE)
        for written, meant in _ESCAPES.items():
            body = body.replace(written, meant)
        parts = tuple(_FIELD.split(body))
        named = parts[1::2]
        if not named or any("{{" in each or "}}" in each for each in parts):
            return Misreading(name="--format", given=kept(text), flaw=NotOfForm(Form.TEMPLATE))
        for field in named:
            if field not in fields.by_name:
                return Misreading(name=kept(field), flaw=Unknown(ListKind.FIELD, tuple(fields.by_name)))
        return RowTemplate(parts, is_table=is_table)

    return read


def filled(template: RowTemplate, fields: Fields[T], rows: Iterable[T]) -> list[str]:
    """Return the lines, one for each row, and a head before those of a table."""
    if template.is_json:
        return [fields.as_json(row) for row in rows]
    texts, named = template.parts[::2], template.parts[1::2]
    values = [[printable(fields.by_name[field](row)) for field in named] for row in rows]
    if not template.is_table:
        return [_line(texts, row) for row in values]
    cells = [_line(texts, row).split("\t") for row in ([field[1:].upper() for field in named], *values)]
    return table(cells[0], cells[1:])


def _line(texts: Iterable[str], values: Iterable[str]) -> str:
    first, *others = texts
    return first + "".join(value + text for value, text in zip(values, others, strict=True))
