"""The version of this program."""

from __future__ import annotations

import functools


@functools.cache
def version() -> str:
    """Return the version of the installed distribution, as it was when the process first asked; "unknown (not
    installed)" where the code runs from a folder.
    """
    # Only here: it is a large import.
    import importlib.metadata

    try:
        return importlib.metadata.version("cpuset-sidecar")
    except importlib.metadata.PackageNotFoundError:
        return "unknown (not installed)"
