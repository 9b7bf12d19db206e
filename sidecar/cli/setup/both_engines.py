"""What Docker and Podman share: one runtime, one library and one `runtime.conf` below a prefix.

1. An installation for one engine does not change where the other one's starts go: it is refused before.
2. A removal for one engine leaves what the other one calls. What is shared goes with the last engine that calls it.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import Final

from sidecar.cli.setup import docker_side, podman_side
from sidecar.failures import ConfigError
from sidecar.host.install import docker_runtimes, podman_runtimes
from sidecar.host.install.runtime_files import Installation, Places, installed_settings

DOCKER: Final = docker_runtimes.ENGINE
PODMAN: Final = podman_runtimes.ENGINE

_DIRECTING: Final = ("socket", "projections", "real")
"""The settings that say to which sidecar, and to which runtime, a start goes."""


def removed_engines(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the engines that a removal is about: with `auto` all, also one whose program is gone."""
    return (DOCKER, PODMAN) if args.wanted == "auto" else (args.wanted,)


def other_engine(args: argparse.Namespace, root: str, places: Places, engines: Collection[str]) -> str:
    """Return the engine that calls this installation and is none of these; "" if there is none. StateError;
    ConfigError.
    """
    if DOCKER not in engines and docker_side.is_set_up(args, root, places):
        return DOCKER
    if PODMAN not in engines and podman_side.is_set_up(root, places):
        return PODMAN
    return ""


def see_that_alike(root: str, places: Places, made: Installation, other: str) -> None:
    """Raise ConfigError if an installation with these settings sends another engine's starts elsewhere. StateError."""
    there = installed_settings(root, places) if other else {}
    wanted = {"socket": made.socket, "projections": made.projections, "real": made.real}
    changed = [key for key in _DIRECTING if key in there and there[key] != wanted[key]]
    if changed:
        raise ConfigError(
            f"{places.settings} is {other.capitalize()}'s as well, and would change for it: "
            + ", ".join(f"{key} from {there[key]} to {wanted[key]}" for key in changed)
            + f": nothing was changed; give the same, choose another --prefix, or remove that first (--for {other} "
            "--remove). One sidecar can serve both engines (`engines`)"
        )
