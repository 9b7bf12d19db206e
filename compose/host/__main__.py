"""Prepare this host: `python -m compose.host with-engine [--] COMMAND...`, `image`, `forget`."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

from compose.host import packages
from compose.host.base import make_proxy
from compose.host.commands import HostLacks, cache, say
from compose.host.engine import engine
from compose.host.image import TARGETS, build_images

PROGRAMS = {"busybox-static": "/bin/busybox", "haproxy": "/usr/sbin/haproxy"}
"""Packages, with the program of each: what the live tests make their images of, and the proxy before an engine."""


def main() -> int:
    """Return the exit code: the command's own, or 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m compose.host", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("with-engine", help="run a command while an engine answers, then restore the host")
    run.add_argument("command", nargs="+")
    verbs.add_parser("image", help="build the images that the files in compose/ name, on the engine that answers")
    verbs.add_parser("forget", help="remove the packages and cached files that this program installed")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        match chosen.verb:
            case "image":
                return make_images()
            case "forget":
                return forget()
            case _:
                return with_engine(chosen.command)
    except HostLacks as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def with_engine(command: list[str]) -> int:
    """Run a command while an engine answers. Return its exit code."""
    bring_programs()
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


def make_images() -> int:
    """Build all images on an engine that answers. Return the exit code."""
    with engine() as found:
        if found.started:
            raise HostLacks("no engine runs here: start the one that the images are for")
        build_images()
        proxy = os.environ.get("PROXY_IMAGE") or make_proxy()
        say(f"built: {' '.join([*TARGETS.values(), proxy])}")
    return 0


def bring_programs() -> None:
    """Install the other programs that tests run, if possible: without one, its tests skip and name it."""
    missing = [package for package, path in PROGRAMS.items() if not Path(path).exists()]
    if missing and packages.installable():
        packages.install(missing, "the tests use programs that are not here")


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
