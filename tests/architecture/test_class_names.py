"""The names of classes: each is unique."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def test_no_two_classes_have_one_name() -> None:
    """Private ones too: a class name in a traceback or a search has one meaning."""
    named = defaultdict(list)
    for folder in ("state", "sidecar"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    named[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in named.items() if len(paths) > 1} == {}
