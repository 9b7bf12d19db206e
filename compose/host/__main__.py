"""Prepare this host: `python -m compose.host with-engine [--] COMMAND...`, `image`, `forget`."""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

from compose.host import packages
from compose.host.commands import HostLacks, cache, say
from compose.host.engine import engine


def main() -> int:
    """Return the exit code: the command's own, or 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m compose.host", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("with-engine", help="run a command while an engine answers, then restore the host")
    run.add_argument("command", nargs="+")
    verbs.add_parser("forget", help="remove the packages and cached files that this program installed")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return forget() if chosen.verb == "forget" else with_engine(chosen.command)
    except HostLacks as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def with_engine(command: list[str]) -> int:
    """Run a command while an engine answers. Return its exit code."""
    bring_busybox()
    with engine():
        child = subprocess.Popen(command)
        # The terminal sends Ctrl-C to the child too: it ends by itself, and only then may the engine end.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        try:
            code = child.wait()
        finally:
            signal.signal(signal.SIGINT, before)
            signal.signal(signal.SIGTERM, _interrupt)
        return code if code >= 0 else 128 - code


def bring_busybox() -> None:
    """Install busybox if possible: the live tests make their images from it, and without it skip and report that."""
    if not Path("/bin/busybox").exists() and packages.installable():
        packages.install(["busybox-static"], "the live tests build their own images")


def forget() -> int:
    """Remove what `make demo` and `make test` left on this host: packages, cached images and wheels."""
    gone = packages.remove_ours() if packages.installable() else []
    say(f"removed packages: {' '.join(gone)}" if gone else "no packages to remove")
    shutil.rmtree(cache())
    say("removed the cache")
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
