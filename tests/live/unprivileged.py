"""Run the sidecar as a user without any privilege, wherever this machine's Python and this checkout lie.

Both may be below a folder of root's. In a mount namespace of its own the process finds them elsewhere, and nothing of
the host changes.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import trio

from tests.live.sidecarprocess import ROOT

USER: Final = 64500

_SCRIPT: Final = """
set -e
open=$1 python=$2 packages=$3 project=$4
shift 5
mkdir -p "$open/python" "$open/packages" "$open/project"
mount --bind "$python" "$open/python"
mount --bind "$packages" "$open/packages"
mount --bind "$project" "$open/project"
cd "$open/project"
export PYTHONPATH="$open/project:$open/packages" LD_LIBRARY_PATH="$open/python/lib"
exec setpriv --reuid=64500 --regid=64500 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \\
    "$open/python/bin/python3.%d" "$@"
"""
"""$5 is the interpreter of the command that follows, which is left out."""


@contextmanager
def open_folder() -> Iterator[Path]:
    """Yield a folder that anybody may enter, and remove it afterwards."""
    folder = Path(mkdtemp(prefix="cpuset-open-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def unprivileged(folder: Path) -> tuple[str, ...]:
    """Return what is put before the command of a sidecar, with such a folder."""
    packages = Path(trio.__file__).parents[1]
    script = _SCRIPT % sys.version_info[1]
    words = (str(folder), sys.base_prefix, str(packages), str(ROOT))
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *words)
