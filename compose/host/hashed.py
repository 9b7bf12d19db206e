"""The files of requirements/: exact versions, each with the digests of its files.

An environment gets a whole file, by pip itself (`install.sh`). For another Python than the one that runs, pip would
apply the conditions of the running one; `for_python` applies those of the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import Marker

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "requirements"

_HEAD = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9.]+)(?: ; (?P<marker>.+))?")


class NotHashed(ValueError):
    """A line that names no exact version, or no digest."""


@dataclass(frozen=True)
class Hashed:
    """One package. `marker` is the condition under which it is needed, or ""; `digests` are of its files, in hex."""

    name: str
    version: str
    marker: str
    digests: tuple[str, ...]

    def is_needed(self, python: str) -> bool:
        """Return whether a Python of this version, like "3.12", needs it on Linux."""
        machine = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
        return not self.marker or Marker(self.marker).evaluate(machine)

    def line(self) -> str:
        """Return it as pip reads it, without the condition."""
        return " ".join([f"{self.name}=={self.version}", *(f"--hash=sha256:{digest}" for digest in self.digests)])


def read(text: str) -> tuple[Hashed, ...]:
    """Return the packages of a file. Raise NotHashed for a line that is anything else."""
    lines = re.sub(r"\s*\\\n\s*", " ", text).splitlines()
    return tuple(_read_line(line) for line in lines if line.strip() and not line.startswith("#"))


def for_python(python: str, *sets: str) -> tuple[Hashed, ...]:
    """Return what these sets, such as "daemon", need under this Python on Linux."""
    found = {each.name: each for name in sets for each in read((FOLDER / f"{name}.txt").read_text())}
    return tuple(each for each in found.values() if each.is_needed(python))


def _read_line(line: str) -> Hashed:
    head, *digests = line.split(" --hash=sha256:")
    found = _HEAD.fullmatch(head.strip())
    if found is None or not digests or not all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in digests):
        raise NotHashed(line[:200])
    return Hashed(found["name"], found["version"], found["marker"] or "", tuple(digests))
