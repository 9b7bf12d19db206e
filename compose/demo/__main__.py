"""The demo: workloads on a real engine that report what they see, and the proof that the promises hold.

A story of the policy `static`, in which a container runs alone on its CPU beside a noisy neighbour, or with `--dynamic`
one of the policy `dynamic`, in which CPUs change hands. Exit code 0 if the workloads' output proves it, 1 if not, or if
this host cannot run it. Everything installed for the demo is removed in any case; `--keep-images` leaves the images for
the next time.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from compose.demo import dynamic, static
from compose.demo.project import Project, machine_size
from compose.host import packages
from compose.host.commands import HostLacks, attempt, now_undisturbed, say, tail
from compose.host.composer import compose_command
from compose.host.engine import engine
from compose.host.image import build_images, remove_images, tags

SYSTEM_BUS: Final = Path("/run/dbus/system_bus_socket")
"""By which systemd is asked."""


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m compose.demo", description=__doc__)
    parser.add_argument("--keep-images", action="store_true", help="keep the images that were built on the engine")
    parser.add_argument("--dynamic", action="store_true", help="show the policy dynamic instead of static")
    parser.add_argument("--host", action="store_true", help="keep the host's own services off exclusive CPUs as well")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with engine(with_compose=True) as found:
            settings = dynamic.settings(machine_size()) if chosen.dynamic else static.SETTINGS
            file = "dynamic.yaml" if chosen.dynamic else "compose.yaml"
            project = Project(compose_command(), {"DOCKER_SOCKET": found.socket, **settings}, file, _more(chosen))
            with _images(chosen.keep_images), _clean_project(project):
                code = dynamic.play(project) if chosen.dynamic else static.play(project)
        if kept := packages.ours():
            say(f"{len(kept)} installed packages are kept; `make demo-clean` removes them")
    except HostLacks as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; everything was taken down", file=sys.stderr)
        return 130
    return code


def _more(chosen: argparse.Namespace) -> tuple[str, ...]:
    """Return the files that add to the project. Raise HostLacks where they would have no effect."""
    if not chosen.host:
        return ()
    if chosen.dynamic:
        raise HostLacks("HOST=1 is for `make demo` alone")
    if not SYSTEM_BUS.exists():
        raise HostLacks(f"HOST=1 needs systemd: {SYSTEM_BUS} does not exist here")
    return ("whole-host.yaml",)


@contextmanager
def _images(keep: bool) -> Iterator[None]:
    present = tags()
    try:
        build_images()
        yield
    finally:
        if not keep:
            remove_images(present)


@contextmanager
def _clean_project(project: Project) -> Iterator[None]:
    """Run a project that leaves nothing behind; other containers get back their settings."""
    project.down()
    try:
        yield
    except HostLacks:
        for container in project.containers("sidecar"):
            words = attempt("docker", "logs", "--tail", "20", container)
            print(f"the end of the sidecar's log:\n{tail(words.stdout + words.stderr, 20)}", file=sys.stderr)
        raise
    finally:
        now_undisturbed()
        say("taking everything down")
        try:
            if project.containers("sidecar") and project.strangers():
                project.release()
        except HostLacks as problem:
            say(f"the sidecar could not restore the original settings: {problem}")
        project.down()
        dynamic.clear_up(project)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
