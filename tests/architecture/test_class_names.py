"""The names of classes: each is unique."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest

from tests.support.sources import SOURCES_GROUP, files, parsed, shown

pytestmark = pytest.mark.xdist_group(SOURCES_GROUP)


def test_no_two_classes_have_one_name() -> None:
    """Private ones too: a class name in a traceback or a search has one meaning."""
    named = defaultdict(list)
    for path in files("state", "sidecar"):
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef):
                named[node.name].append(shown(path))
    assert {name: paths for name, paths in named.items() if len(paths) > 1} == {}
