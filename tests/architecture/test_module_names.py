"""The names of modules: each is meaningful and unique."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Final

from tests.support.sources import files, shown

SAY_NOTHING: Final = frozenset(
    {
        *("about", "asking", "beside", "bounds", "desk", "feed", "finding", "granting", "keeping", "lines", "live"),
        *("looking", "opening", "remembered", "sections", "sharing", "sliced", "telling", "told", "which"),
    }
)
"""Words of which nobody guesses what is in the file."""


def modules() -> list[Path]:
    """Return the modules of `state` and `sidecar`; packages are named by their folders."""
    return [path for path in files("state", "sidecar") if path.name != "__init__.py"]


def test_no_two_modules_have_one_name() -> None:
    """A name identifies a module without its folder: in conversation, in a search, in the tabs of an editor."""
    named = defaultdict(list)
    for path in modules():
        named[path.stem].append(shown(path))
    assert {name: paths for name, paths in named.items() if len(paths) > 1} == {}


def test_the_name_of_a_module_says_what_it_holds() -> None:
    """A command's module is named `cmd_` and the command; others by a noun of their room."""
    assert [shown(path) for path in modules() if path.stem in SAY_NOTHING] == []
