"""The files for the machines: the present project, and the packages for their Python, since they have no network.

The packages are downloaded once, each held against its digest in requirements/, and cached by these.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from compose.host.hashed import for_python
from tests.vm.machine import ROOT, NoMachines

PYTHON: Final = "3.13"
"""The Python of the machines' Debian."""

_NOT_INSIDE: Final = ("codespell", "import-linter", "mypy", "ruff")
"""Developers' tools that no test inside runs."""

_SOURCE_ONLY: Final = "pyinotify"
"""Comes without a wheel; one is made here. It holds nothing that depends on the Python."""

_PROGRAMS: Final = ("tests/bench/exposure/exposure_judge.c",)
"""Sources whose program lies beside them in the machines."""

_PARTS: Final = (
    *("sidecar", "state", "tests", "compose", "docs", "requirements"),
    *("pyproject.toml", "constraints.txt", "README.md", "SECURITY.md"),
)
_LEFT_OUT: Final = shutil.ignore_patterns("__pycache__", "*.pyc", "wheels")


@contextmanager
def prepared(folder: Path) -> Iterator[Path]:
    """Provide a folder below this one with `lib` and `project`, to share with machines, for the length of the block.
    Raises NoMachines if pip cannot get the packages.
    """
    lib = _packages(folder)
    with tempfile.TemporaryDirectory(prefix="share-", dir=folder) as made:
        share = Path(made)
        project = share / "project"
        project.mkdir()
        for part in _PARTS:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, project / part, ignore=_LEFT_OUT)
            elif source.exists():
                shutil.copy2(source, project / part)
        _compile(project)
        _compile_programs(project)
        # Not copied: it is large, and never written to.
        shutil.copytree(lib, share / "lib", copy_function=os.link)
        yield share


def cache_folder() -> Path:
    """Return where prepared things are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cpuset-sidecar" / "vm"


def requirements() -> list[str]:
    """Return the lines of what the tests inside need, in pip's notation, with digests."""
    wanted = (each for each in for_python(PYTHON, "dev") if each.name not in _NOT_INSIDE)
    return [each.line() for each in wanted]


def _packages(folder: Path) -> Path:
    lines = requirements()
    chosen_from = "\n".join([PYTHON, *lines])
    lib = folder / f"lib-{hashlib.sha256(chosen_from.encode()).hexdigest()[:12]}"
    if lib.is_dir():
        return lib
    making = folder / f"making-{os.getpid()}"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    wheels, hashed = making / "wheels", ("--no-deps", "--require-hashes")
    source, others = making / "source.txt", making / "others.txt"
    source.write_text("\n".join(line for line in lines if line.startswith(_SOURCE_ONLY)) + "\n")
    others.write_text("\n".join(line for line in lines if not line.startswith(_SOURCE_ONLY)) + "\n")
    _pip("wheel", *hashed, "--no-build-isolation", "-w", str(wheels), "-r", str(source))
    target = ("install", "--target", str(making / "lib"), "--no-compile")
    _pip(*target, "--no-deps", "--no-index", *map(str, wheels.glob("*.whl")))
    _pip(*target, *hashed, "--python-version", PYTHON, "--only-binary=:all:", "-r", str(others))
    _compile(making / "lib")
    (making / "lib").rename(lib)
    shutil.rmtree(making)
    for other in folder.glob("lib-*"):
        if other != lib:
            shutil.rmtree(other)
    return lib


def _compile(folder: Path) -> None:
    """Compile the files in there, if this host has the machines' Python: an emulated machine would take minutes to
    compile every file at its first import.
    """
    for python in _pythons():
        command = [python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "."]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        # A few files of packages are for other versions, and cannot be compiled: that is no failure of the rest.
        if done.returncode in (0, 1) and next(folder.rglob("*.pyc"), None):
            return


def _compile_programs(project: Path) -> None:
    """Compile what tests run besides Python, if there is a compiler: the machines have none."""
    if compiler := shutil.which("gcc"):
        for source in _PROGRAMS:
            made = project / Path(source).with_suffix("")
            subprocess.run([compiler, "-O2", "-static", "-o", str(made), str(ROOT / source)], check=True)


def _pythons() -> list[str]:
    """Return the possible paths of the machines' Python on this host: on the path, or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [shutil.which(f"python{PYTHON}"), *map(str, pyenv.glob(f"versions/{PYTHON}.*/bin/python{PYTHON}"))]
    return [each for each in found if each]


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoMachines(f"pip cannot get the packages for Python {PYTHON}: {done.stderr.strip()[-600:]}")
