"""Sentences are for people: no code that decides, observes or acts reads one, and only `words` makes them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

import pytest

from tests.support.sources import ROOT, SOURCES_GROUP, files, nodes, shown

pytestmark = pytest.mark.xdist_group(SOURCES_GROUP)

DECIDING = files("sidecar/decide", "sidecar/observe", "sidecar/apply")

READS_TEXT = {
    "labels": "labels are text, written by people",
    "wish": "so are names, which patterns of the configuration match",
    "mounts": "so are paths of mounts",
    "role": "so are labels of compose, Swarm and units",
}
"""Modules that read foreign text, by their names, and which."""

READ = {
    "name.endswith(f'-{wanted}')": "the name of a container of a pod, as Podman makes it",
    "runtime.rpartition('/')": "the path of a runtime, as the engine tells it",
}
"""What else reads text."""

SEARCHES = frozenset(
    [
        "startswith",
        "endswith",
        "find",
        "rfind",
        "index",
        "rindex",
        "count",
        "partition",
        "rpartition",
        "split",
        "removeprefix",
        "removesuffix",
        "match",
        "fullmatch",
        "search",
        "findall",
        "finditer",
    ]
)
"""Methods that look into a text that they are given, or for one."""

OTHERS = (ast.Is, ast.IsNot, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
"""Comparisons that ask neither for equality nor for membership."""

SENTENCE = re.compile(r"\w+[,;:]? \w+[,;:]? \w+")
"""Three words after each other."""

REFUSALS = {
    "Refusal": "the one type",
    "RefusalCode": "its word for programs",
    "Refused": "its entry in the books",
    "StartRefused": "an error in the runtime, which imports nothing",
    "Declined": "a request over HTTP that is not done, as an error",
    "EngineRefused": "the engine's no, as an error",
    "OrderRefused": "the same, as news of a container",
    "_Refusal": "the same as the engine writes it",
    "Denied": "a model's",
    "NotFound": "no container of this name",
}
"""Everything that says no, and what of."""


def is_text(node: ast.expr) -> bool:
    """Return whether it is a text in the code, or a collection that contains one."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(is_text(each) for each in node.elts)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def readings(of: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield every comparison with a text, and every search in one or for one."""
    for node in of:
        texts: list[ast.expr] = []
        if isinstance(node, ast.Compare) and not all(isinstance(op, OTHERS) for op in node.ops):
            texts = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES:
            texts = [node.func.value, *node.args]
        if any(map(is_text, texts)):
            yield node


def sentences(of: Sequence[ast.AST]) -> Iterator[str]:
    """Yield every text of several words, except docstrings and assertion messages."""
    passed = {node.value for node in of if isinstance(node, ast.Expr)}
    passed |= {node.msg for node in of if isinstance(node, ast.Assert) and node.msg}
    texts = (node for node in of if isinstance(node, ast.Constant) and isinstance(node.value, str))
    yield from (str(node.value) for node in texts if node not in passed and SENTENCE.search(str(node.value)))


def test_no_text_is_compared_or_searched_where_things_are_decided_observed_or_done() -> None:
    """A decision depends on values: a code, a kind, a fact."""
    found = [
        f"{shown(path)}: {reading}"
        for path in DECIDING
        if path.stem not in READS_TEXT
        for node in readings(nodes(path))
        if (reading := ast.unparse(node)) not in READ
    ]
    assert found == []


def test_no_sentence_is_made_where_things_are_decided() -> None:
    """`words` makes what people read, from the decided values."""
    made = {shown(path): list(sentences(nodes(path))) for path in files("sidecar/decide")}
    assert {path: found for path, found in made.items() if found} == {}


def test_what_is_allowed_to_be_read_is_there() -> None:
    """An unused exception would hide the next reading."""
    found = {ast.unparse(node) for path in DECIDING for node in readings(nodes(path))}
    assert sorted(set(READ) - found) == []


@pytest.mark.parametrize(
    "text",
    [
        "x = 'denied' in trouble",
        "x = trouble == f'{a} is denied'",
        "x = trouble in ('denied', 'refused')",
        "x = trouble.startswith('cpuset.cpus')",
        "x = re.search('denied', trouble)",
    ],
)
def test_prose_that_decides_is_found(text: str) -> None:
    assert len(list(readings(ast.walk(ast.parse(text))))) == 1


def test_there_is_one_type_of_refusal() -> None:
    """Every other rejection is an error at an edge, or belongs to an engine."""
    name = re.compile(r"(?i)refus|declin|denied|objection|shortfall|^_?bad|wrong|notfound")
    found = {
        node.name
        for path in files("state", "sidecar")
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and name.search(node.name)
    }
    assert sorted(found - set(REFUSALS)) == []


def test_the_project_is_where_it_is_looked_for() -> None:
    assert len(DECIDING) > 40
    assert (ROOT / "sidecar" / "words" / "refusals.py").exists()
