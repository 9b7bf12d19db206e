"""Which version this is."""

from __future__ import annotations

import importlib.metadata


def version() -> str:
    """The version of the installed distribution; "unknown (not installed)" where the code runs from a folder."""
    try:
        return importlib.metadata.version("cpuset-sidecar")
    except importlib.metadata.PackageNotFoundError:
        return "unknown (not installed)"
