"""Directories in the place of files, which the sidecar can neither replace nor move aside."""

from __future__ import annotations

import shutil
from pathlib import Path


def plant(path: Path) -> None:
    """Put a directory there; the name that it would get aside is taken by one that cannot be replaced."""
    path.unlink(missing_ok=True)
    (path / "planted").mkdir(parents=True)
    (_aside(path) / "planted").mkdir(parents=True)


def unplant(path: Path) -> None:
    """Remove both."""
    shutil.rmtree(_aside(path))
    shutil.rmtree(path)


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}-{path.stat().st_ino}")
