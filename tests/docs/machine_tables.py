"""The tables of the container's machine for the architecture page: `python -m tests.docs.machine_tables` writes them
there.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sidecar.decide.container.grip_machine import GRIPS
from sidecar.decide.container.machine import LINES
from sidecar.decide.container.start_machine import STARTS
from sidecar.decide.container.tables import Rule
from tests.docs.pages import ROOT

PAGE: Final = ROOT / "docs" / "architecture.md"

BETWEEN: Final = re.compile(
    r"(?<=<!-- The tables of sidecar/decide/container/machine.py, written by tests/docs/machine_tables.py. -->\n)"
    r".*?(?=<!-- End of the tables. -->)",
    re.DOTALL,
)

Table = Mapping[tuple[type[Any], type[Any]], Rule]


def tables() -> str:
    """Return the three tables, and the actions of their rules, as Markdown."""
    return "\n" + "\n\n".join("\n".join(part) for part in (*_tables(), _rules())) + "\n\n"


def _tables() -> tuple[Iterator[str], ...]:
    return _table("line", LINES), _table("start", STARTS), _table("grip", GRIPS)


def _table(what: str, table: Table) -> Iterator[str]:
    columns = list(dict.fromkeys(state for state, _ in table))
    yield f"| news, by {what} | " + " | ".join(column.__name__ for column in columns) + " |"
    yield "| --- |" + " --- |" * len(columns)
    for news in dict.fromkeys(news for _, news in table):
        yield f"| {news.__name__} | " + " | ".join(_name(table[column, news]) for column in columns) + " |"


def _rules() -> Iterator[str]:
    for rule in dict.fromkeys((*LINES.values(), *STARTS.values(), *GRIPS.values())):
        if _name(rule) != "=":
            yield f"- *{_name(rule)}*: {_said(rule)}"


def _name(rule: Rule) -> str:
    name = rule.__name__.strip("_").replace("_", " ")
    return "=" if name == "same" else name


def _said(rule: Rule) -> str:
    text = " ".join((inspect.getdoc(rule) or "").split())
    return text[0].lower() + text[1:]


if __name__ == "__main__":
    PAGE.write_text(BETWEEN.sub(lambda _: tables(), PAGE.read_text()))
