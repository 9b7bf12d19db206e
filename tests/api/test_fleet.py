"""The dashboard and the alerts use only existing metrics, with labels that these have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sidecar.api.metrics import Metrics
from sidecar.board import Board, SampledDisturbance
from sidecar.decide.world import replace
from state.topology import uniform
from tests.cli.worlds import ENGINE, container, world
from tests.support.decide.contacts import with_info

FOLDER: Final = Path(__file__).parents[2] / "compose" / "prometheus"

OWN: Final = {"up": {"job", "instance"}, "scrape_duration_seconds": {"job", "instance"}}
"""What Prometheus itself adds to each scrape, and the labels that it puts on every sample."""

WORDS: Final = {
    *("sum", "min", "max", "count", "rate", "increase", "min_over_time", "vector", "time", "label_values"),
    *("by", "and", "or", "instance"),
}

PANELS: Final = {"stat", "table", "timeseries"}
"""The kinds of panels that the dashboard has: Grafana's own."""


@pytest.fixture(scope="module")
def there() -> dict[str, set[str]]:
    """Return every metric of a node that has all of them, with its labels."""
    made = world(uniform(cores=4), container("rt", exclusive=2), container("too big", exclusive=9))
    assert made.state.refusals
    board = Board(with_info(made, replace(ENGINE, in_swarm=True, advertised=3)))
    board.disturbances = {key: SampledDisturbance("rt", {"process": 0.5}) for key in made.state.assignments}
    samples = [sample for family in Metrics(board).families() for sample in family.samples]
    found = {sample.name: {*sample.labels, "job", "instance"} for sample in samples}
    return found | OWN


def dashboard() -> Any:
    return json.loads((FOLDER / "dashboard.json").read_text())


def expressions() -> Iterator[tuple[str, str]]:
    """Yield each expression with its place."""
    shown = dashboard()
    for panel in shown["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in shown["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]
    text = (FOLDER / "alerts.yml").read_text()
    rules = re.findall(r"- alert: (\w+)\n\s+expr: (.+)\n", text)
    assert len(rules) == text.count("- alert:")
    yield from rules


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_an_expression_asks_for_what_there_is(where: str, expression: str, there: dict[str, set[str]]) -> None:
    """Metrics by existing names, selected and grouped by labels that they have."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", expression)
    grouped = re.findall(r"by \(([^)]*)\)", bare)
    named = set(re.findall(r"[a-z_][a-z_0-9]*", re.sub(r"by \([^)]*\)", "", bare))) - WORDS
    assert named, where
    assert named <= set(there)
    labels = set[str]().union(*(there[name] for name in named))
    asked = {label for group in re.findall(r"\{([^}]*)\}", expression) for label in re.findall(r"(\w+)\s*[=!]", group)}
    asked |= {label.strip() for group in grouped for label in group.split(",")}
    assert asked <= labels


def test_a_counter_is_asked_for_its_change_and_a_gauge_is_not(there: dict[str, set[str]]) -> None:
    """The value of a counter has no meaning by itself."""
    for where, expression in expressions():
        for name in there:
            if not re.search(rf"\b{name}\b", expression):
                continue
            is_changed = re.search(rf"(rate|increase)\({name}\b", expression) is not None
            assert is_changed == name.endswith("_total"), (where, name)


def test_legends_and_summaries_name_labels_that_the_expression_keeps() -> None:
    """`{{code}}` of an expression that has no code would be an empty word."""
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            wanted = set(re.findall(r"\{\{\s*(\w+)\s*\}\}", target["legendFormat"]))
            assert wanted <= kept(target["expr"]), panel["title"]
    for rule in (FOLDER / "alerts.yml").read_text().split("- alert:")[1:]:
        [expression] = re.findall(r"expr: (.+)", rule)
        assert set(re.findall(r"\$labels\.(\w+)", rule)) <= kept(expression), rule


def test_panels_have_places_of_their_own() -> None:
    """On a grid of 24 columns, none above another."""
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for place in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            assert taken.setdefault(place, panel["title"]) == panel["title"]


def test_panels_are_complete() -> None:
    """What Grafana needs of each, as far as it can be said without Grafana: its schema is not to be had here."""
    shown = dashboard()
    assert isinstance(shown["uid"], str)
    assert isinstance(shown["schemaVersion"], int)
    ids = [panel["id"] for panel in shown["panels"]]
    assert sorted(ids) == sorted(set(ids))
    variables = {variable["name"] for variable in shown["templating"]["list"]}
    for panel in shown["panels"]:
        assert panel["type"] in PANELS
        assert panel["title"]
        assert set(panel["gridPos"]) == {"x", "y", "w", "h"}
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert set(panel["fieldConfig"]) == {"defaults", "overrides"}
        references = [target["refId"] for target in panel["targets"]]
        assert references
        assert sorted(references) == sorted(set(references))
        used = set(re.findall(r"\$(\w+)", json.dumps(panel["targets"])))
        assert used <= variables


def kept(expression: str) -> set[str]:
    """Return the labels of an expression's result: its grouping labels; all if it does not sum; else none."""
    if grouped := re.findall(r"by \(([^)]*)\)", expression):
        return {label.strip() for group in grouped for label in group.split(",")}
    return set() if re.match(r"(sum|min|max|count)\(", expression) else {"instance", "job"}
