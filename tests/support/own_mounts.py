"""A program in a mount namespace of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_NO_MOUNT = ("unshare", "mount:", "mknod")


def with_own_mounts(prepare: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run this Python with these words where a shell has prepared the mounts, in the checkout. Skip the test where
    nothing can be mounted.
    """
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f'{prepare} && exec "$0" "$@"', sys.executable, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    if any(word in done.stderr for word in _NO_MOUNT):
        pytest.skip("nothing can be mounted here")
    return done
