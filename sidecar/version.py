"""The version of this program."""

from __future__ import annotations

import functools
import importlib.metadata


@functools.cache
def version() -> str:
    """Return the version of the installed distribution, as it was when the process first asked; "unknown (not
    installed)" where the code runs from a folder.
    """
    try:
        return importlib.metadata.version("cpuset-sidecar")
    except importlib.metadata.PackageNotFoundError:
        return "unknown (not installed)"
