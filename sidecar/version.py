"""The version of this program."""

from __future__ import annotations

import importlib.metadata


def version() -> str:
    """Return the version of the installed distribution; "unknown (not installed)" where the code runs from a folder."""
    try:
        return importlib.metadata.version("cpuset-sidecar")
    except importlib.metadata.PackageNotFoundError:
        return "unknown (not installed)"
