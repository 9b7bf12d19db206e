"""Rules for the code: file sizes, names, docstrings, and the cost of an import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sources import ROOT, SOURCES_GROUP, files, parsed, shown, source

pytestmark = pytest.mark.xdist_group(SOURCES_GROUP)

CODE = ("state", "sidecar")
ALL = ("state", "sidecar", "tests", "compose")

MOST_LINES = 400
"""Of one file. What needs more is two things."""

EMPTY_NAMES = re.compile(r"utils?|helpers?|common|managers?|handlers?|data|info|misc")
"""Names of modules and packages that say nothing. (`tests/data` holds data, and no code.)"""

FIRST = re.compile(r'(?:#.*\n|\n)*"""(.*?)"""', re.DOTALL)
"""The docstring of a module, below comments. Parsing every file for it takes a second."""

# Joined here, so that this file does not match itself.
INDEX_ADDRESSES = re.compile(
    "|".join(
        [
            r"py" + r"pi\.org",
            r"python" + r"hosted\.org",
            r"(?:extra-)?index" + r"-url",
            r"https?://[^\s\"'<>]*/" + r"simple\b",
        ]
    ),
    re.IGNORECASE,
)


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def test_a_file_is_short_enough_to_be_read_at_once() -> None:
    sizes = {shown(path): len(source(path).splitlines()) for path in files(*ALL)}
    assert {path: size for path, size in sizes.items() if size > MOST_LINES} == {}


def test_a_file_has_a_name_that_says_something() -> None:
    empty = {
        shown(path): word
        for path in files(*ALL)
        for part in path.relative_to(ROOT).with_suffix("").parts
        for word in part.split("_")
        if EMPTY_NAMES.fullmatch(word)
    }
    assert empty == {}


def test_a_file_says_what_it_holds() -> None:
    """The first statement of each module is a sentence."""
    texts = {shown(path): text for path in files(*ALL) if (text := source(path))}
    first = {
        path: found and found[1].split("\n\n")[0].rstrip()
        for path, text in texts.items()
        for found in [FIRST.match(text)]
    }
    assert [path for path, sentence in first.items() if not sentence or not sentence.endswith((".", ":", "!"))] == []


def test_everything_public_says_what_it_promises() -> None:
    silent = [
        f"{shown(path)}: {name}"
        for path in files(*CODE)
        for name, node in public(parsed(path).body)
        if not ast.get_docstring(node)
    ]
    assert silent == []


def public(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """Yield functions, classes and methods whose names do not begin with an underscore."""
    for node in body:
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        if any(isinstance(d, ast.Name) and d.id in ("overload", "override") for d in node.decorator_list):
            continue
        yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from public(node.body, f"{prefix}{node.name}.")


def test_no_name_says_get() -> None:
    names = [name for path in files(*CODE) for name, _ in public(parsed(path).body)]
    assert [name for name in names if name.split(".")[-1].startswith("get_")] == []


def tracked() -> list[Path]:
    """Return every file of the project that is under version control, or will be."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is not a working tree of git")
    return [path for name in done.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def test_no_text_names_the_address_of_an_index() -> None:
    """The source of packages is the installer's choice."""
    found = []
    for path in tracked():
        text = path.read_bytes().decode(errors="replace")
        found += [f"{shown(path)}: {match[0]}" for match in INDEX_ADDRESSES.finditer(text)]
    assert found == []


@pytest.mark.parametrize(
    "module", ["state", *(shown(p)[:-3].replace("/", ".") for p in files("state") if p.stem[0] != "_")]
)
def test_the_workloads_side_loads_nothing_of_the_daemons(module: str) -> None:
    program = (
        f"import sys, {module}\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        "print(sorted({'trio', 'aiodocker', 'aiohttp', 'rich', 'h11', 'sidecar'} & loaded))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
