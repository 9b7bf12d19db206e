"""The page about HTTP matches the API: routes, answers, statuses, metrics; all of them, and no others."""

from __future__ import annotations

import re

import msgspec
import trio

from sidecar.api.documents import Defragmented, Exchange, Sizing
from sidecar.api.metrics import Metrics
from sidecar.api.start_route import Bundle, ProjectionMount, StartAnswer, StartBody, Starts
from sidecar.api.web_app import Api
from sidecar.board import Board
from sidecar.decide.facts import ContainerView, Fact
from sidecar.held_starts import Desk
from sidecar.log import now
from sidecar.status.deadlines import Deadlines
from sidecar.status.present_status import PresentStatus
from state.topology import uniform
from tests.cli.worlds import world
from tests.docs.pages import ROOT, names, rows, section

PAGE = ROOT / "docs" / "reference" / "http.md"


def first_column(text: str) -> list[str]:
    return [name for row in rows(text) for name in names(row[0])]


def test_every_route_of_the_api_is_documented_and_no_other() -> None:
    """In the table of routes, in the order of the code, except that routes that change something come last."""
    told = first_column(PAGE.read_text().partition("\n## ")[0])
    assert sorted(told) == sorted(f"{route.method} {route.path}" for route in _api().routes)
    changing = [route.path.rpartition("/")[2] for route in _api().routes if route.method == "POST"]
    assert first_column(section(PAGE, "What changes something")) == changing


def test_every_field_of_an_answer_is_documented() -> None:
    """Of the answers to requests that change something."""
    told = set(names(section(PAGE, "What changes something")))
    kinds: tuple[type[msgspec.Struct], ...] = (Sizing, Defragmented, Exchange, StartAnswer, Bundle, ProjectionMount)
    for kind in kinds:
        assert set(kind.__struct_fields__) <= told


def test_every_field_of_a_held_start_is_shown() -> None:
    """In the example of a runtime's request."""
    example = re.search(r"```json\n(.*?)```", section(PAGE, "Starts"), re.DOTALL)
    assert example
    assert set(msgspec.json.decode(example[1])) == set(StartBody.__struct_fields__)


def test_every_metric_is_documented_with_its_kind_and_no_other() -> None:
    """As Prometheus spells them: counters end in `_total`."""
    table = rows(section(PAGE, "Metrics"))
    told = {names(row[0])[0]: row[1] for row in table}
    text = Metrics(_board()).exposed()[0].decode()
    assert told == {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE ")}


def test_the_api_answers_with_the_statuses_that_are_documented() -> None:
    """Every status in the code of the API, and no other."""
    told = sorted(row[0] for row in rows(section(PAGE, "Errors")))
    modules = ("web_app", "requests", "documents", "start_route", "routing", "http_connection")
    code = "\n".join((ROOT / "sidecar" / "api" / f"{name}.py").read_text() for name in modules)
    assert told == sorted(set(re.findall(r"\b([45]\d\d)\b(?=[,:)])", code)))


def _board() -> Board:
    return Board(world(uniform(cores=2)))


def _api() -> Api:
    outbox, _ = trio.open_memory_channel[Fact](1)
    starts = Starts(_board(), outbox, desk=Desk(), glance=_glance, tickets=lambda: 1)
    board = _board()
    return Api(board, outbox, PresentStatus(board, Deadlines(now)), clock=now, starts=starts)


async def _glance(_: str) -> ContainerView:
    raise AssertionError("nothing is asked here")
