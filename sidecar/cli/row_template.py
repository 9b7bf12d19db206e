"""`--format`: a line for each container, as a template of fields says: `{{.Name}} {{.CPUs}}`. Pure.

It is the part of Docker's templates that is about fields, and nothing is evaluated: text, fields, and `\\t` and `\\n`.
`table` before it adds a head and lines the columns up; the word `json` alone is a JSON object for each container.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from sidecar.cli.table import table
from sidecar.log import printable
from sidecar.misreadings import Form, ListKind, Misreading, NotOfForm, Unknown
from sidecar.readers import kept
from sidecar.status.document import ContainerStatus
from state import codec

FIELDS: Final[Mapping[str, Callable[[ContainerStatus, str], str]]] = {
    ".Name": lambda each, _: each.name,
    ".ID": lambda each, _: each.id,
    ".Project": lambda each, _: each.project,
    ".Kind": lambda each, _: each.sharing.value,
    ".CPUs": lambda each, _: str(each.cpus),
    ".Size": lambda each, _: str(len(each.granted)),
    ".Asked": lambda each, _: str(each.asked),
    ".Granted": lambda each, _: str(each.granted),
    ".Leaving": lambda each, _: str(each.leaving.cpus) if each.leaving else "",
    ".Phase": lambda each, _: each.phase,
    ".Settled": lambda each, _: _truth(each.is_settled),
    ".Alone": lambda each, _: _truth(each.is_alone),
    ".Refusal": lambda each, _: each.refusal,
    ".State": lambda _, state: state,
}
"""What a template may name: a container, and its state in words."""

JSON: Final = "json"
_TABLE: Final = "table "
_FIELD: Final = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_ESCAPES: Final = {"\\t": "\t", "\\n": "\n"}


class RowTemplate(NamedTuple):
    """A template: texts and fields in turns, beginning and ending with a text."""

    parts: tuple[str, ...]
    is_table: bool = False
    is_json: bool = False


def read_template(text: str) -> RowTemplate | Misreading:
    """Return the template that is written so, or what is wrong with it."""
    if text.strip() == JSON:
        return RowTemplate((), is_json=True)
    is_table = text.startswith(_TABLE)
    body = text.removeprefix(_TABLE)
    for written, meant in _ESCAPES.items():
        body = body.replace(written, meant)
    parts = tuple(_FIELD.split(body))
    fields = parts[1::2]
    if not fields or any("{{" in each or "}}" in each for each in parts):
        return Misreading(name="--format", given=kept(text), flaw=NotOfForm(Form.TEMPLATE))
    for field in fields:
        if field not in FIELDS:
            return Misreading(name=kept(field), flaw=Unknown(ListKind.FIELD, tuple(FIELDS)))
    return RowTemplate(parts, is_table=is_table)


def filled(template: RowTemplate, rows: Iterable[tuple[ContainerStatus, str]]) -> list[str]:
    """Return the lines; each row is a container and its state in words."""
    if template.is_json:
        return [codec.encode(each).decode() for each, _ in rows]
    texts, fields = template.parts[::2], template.parts[1::2]
    values = [[printable(FIELDS[field](each, state)) for field in fields] for each, state in rows]
    if not template.is_table:
        return [_line(texts, row) for row in values]
    cells = [_line(texts, row).split("\t") for row in ([field[1:].upper() for field in fields], *values)]
    return table(cells[0], cells[1:])


def _line(texts: Iterable[str], values: Iterable[str]) -> str:
    first, *others = texts
    return first + "".join(value + text for value, text in zip(values, others, strict=True))


def _truth(value: bool) -> str:
    return "true" if value else "false"
