"""An engine that a benchmark starts for itself, and a folder for what it writes. Both are removed again."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.live.privateengine import NoPrivateEngine, PrivateEngine, running


@contextmanager
def own_engine(*, debug: bool = False) -> Iterator[tuple[PrivateEngine, Path]]:
    """Run an engine for the block, and end the program with the reason if there is none; SIGTERM removes it as well.
    With `debug` its log has each request.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        made = PrivateEngine()
        if debug:
            settings = {"cgroup-parent": made.cgroup_parent, "debug": True}
            (made.folder / "daemon.json").write_text(json.dumps(settings))
        engine = running(made)
    except NoPrivateEngine as error:
        sys.exit(str(error))
    with closing(engine), tempfile.TemporaryDirectory(prefix="cpuset-bench-") as folder:
        yield engine, Path(folder)
