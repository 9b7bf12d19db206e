"""The files around the code: what a person runs before the project is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
SCRIPTS = ["compose/host/venv.sh", "compose/host/install.sh", "compose/host/hashes.sh", ".ci/run"]


def pins() -> dict[str, str]:
    """Return constraints.txt as names and versions."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def closure(requirements: list[str]) -> set[str]:
    """Return the names of all packages that these requirements bring into this environment, themselves included."""
    found: set[str] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        if name in found:
            continue
        found.add(name)
        for text in metadata.requires(name) or []:
            waiting += [(Requirement(text), wanted) for wanted in ("", *requirement.extras)]
    return found


def wanted() -> list[str]:
    """Return all requirements of pyproject.toml: the workload's, the daemon's and the developers'."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = [text for texts in project["project"]["optional-dependencies"].values() for text in texts]
    return [*project["project"]["dependencies"], *extras, *project["dependency-groups"]["dev"]]


def test_every_package_that_is_needed_is_pinned() -> None:
    """A new machine gets the tested versions, of our requirements and of theirs."""
    missing = closure(wanted()) - pins().keys()
    assert not missing, f"add to constraints.txt: {sorted(missing)}"


def test_what_is_pinned_satisfies_what_pyproject_says() -> None:
    """The two files cannot ask for different things."""
    versions = pins()
    for text in wanted():
        requirement = Requirement(text)
        version = versions[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{text} against {version}"


def test_what_only_newer_pythons_need_is_pinned_too() -> None:
    """asyncore left the standard library in 3.12: pyinotify needs it back."""
    assert "pyasyncore" in pins()


def test_pins_are_exact_and_name_no_index() -> None:
    """The source of packages is the choice of each host's pip."""
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*", line), line


@pytest.mark.parametrize(
    "target",
    ["help", "venv", "check", "test", "image", "demo", "demo-clean", "bench", "benefit", "hashes", "sbom", "clean"],
)
def test_make_knows_the_target(target: str) -> None:
    """Every target in the README exists."""
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_make_alone_lists_every_target() -> None:
    """Users need not read the Makefile."""
    shown = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    assert [line.split()[1] for line in shown.splitlines()] == phony[1].split()


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_script_is_posix_shell(script: str) -> None:
    """It needs nothing but a shell, so it is executable and a POSIX shell can parse it."""
    path = ROOT / script
    assert path.stat().st_mode & 0o111
    assert path.read_text().startswith("#!/bin/sh\n")
    subprocess.run(["sh", "-n", str(path)], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "--shell=sh", str(path)], check=True)


def test_no_cache_and_no_environment_enter_the_build() -> None:
    """The image is made of the sources alone: everything is excluded, then the needed files are included."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    let_in = {line[1:] for line in lines if line.startswith("!")}
    assert not let_in & {".git", ".venv", "tests", "docs"}
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (ROOT / "compose/Dockerfile").read_text(), re.MULTILINE)
    sources = {word.split("/")[0] for line in copied for word in line.split()}
    assert sources <= let_in, "the Dockerfile copies what .dockerignore keeps out"
    assert "**/__pycache__" in lines


def test_hooks_come_from_here() -> None:
    """A commit fetches no code from anywhere."""
    text = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"repo: (\S+)", text) == ["local"]


def test_the_licence_is_the_one_that_pyproject_names() -> None:
    """Apache-2.0, whole."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "LICENSE").read_text()
    assert project["license"] == "Apache-2.0"
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_environment_of_another_tree_is_not_emptied(tmp_path: Path) -> None:
    """A `.venv` that is a link is used as it is, whatever it was made of; without a Python it is refused."""
    tree, theirs = tmp_path / "tree", tmp_path / "theirs"
    parts = (str(path.relative_to(ROOT)) for path in (ROOT / "sidecar/runtime/program").iterdir())
    texts = ("pyproject.toml", "setup.py", "sidecar/hand/reflex.c", "sidecar/projection/replacer.c", *parts)
    for name in ("compose/host/venv.sh", "requirements/build.txt", "requirements/dev.txt", *texts):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    (theirs / "bin").mkdir(parents=True)
    (theirs / ".made-of").write_text("1 2\n")
    (tree / ".venv").symlink_to(theirs)
    refused = subprocess.run(["sh", "compose/host/venv.sh"], cwd=tree, capture_output=True, text=True, check=False)
    assert (refused.returncode, (theirs / ".made-of").exists()) == (1, True)
    assert ".venv is a link to a place without a Python" in refused.stderr
    (theirs / "bin" / "python").touch(mode=0o755)
    used = subprocess.run(["sh", "compose/host/venv.sh"], cwd=tree, capture_output=True, text=True, check=False)
    assert (used.returncode, (theirs / "bin" / "python").exists()) == (0, True)
    assert "it is used as it is" in used.stderr
