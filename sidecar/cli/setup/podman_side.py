"""What `install-runtime` does to Podman: a drop-in of its configuration, which each of its calls reads."""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Iterator

import msgspec

from sidecar.cli.setup.podman_monitors import monitored
from sidecar.failures import ConfigError
from sidecar.host.install.fronts import Front, front_files, recorded_fronts
from sidecar.host.install.podman_runtimes import ENGINE, PodmanRuntimes, drop_in, front_before
from sidecar.host.install.runtime_files import Installation, Places, Planned, podman_files


class PodmanRemoved(msgspec.Struct, frozen=True, kw_only=True):
    """The drop-in without these fronts, what became of each, and notes for people."""

    planned: tuple[Planned, ...] = ()
    passing: tuple[Front, ...] = ()
    gone: tuple[Front, ...] = ()
    notes: tuple[str, ...] = ()


def planned(
    args: argparse.Namespace, root: str, places: Places, made: Installation, *, has_docker: bool
) -> Iterator[Planned]:
    """Yield the files by which Podman knows the strict runtime and the fronts; those of the fronts first. A name that
    only Docker has, where both are set up, is no mistake. ConfigError.
    """
    asking = {each.name: each for each in recorded_fronts(root, places, ENGINE) if not each.passing_since}
    if args.default or args.wrap:
        found = PodmanRuntimes(root, places)
        default = found.usual() if args.default else ""
        for name in dict.fromkeys([*([default] if default else []), *args.wrap]):
            try:
                front = front_before(found, name)
            except ConfigError:
                if has_docker and name != default:
                    continue
                raise
            asking[name] = msgspec.structs.replace(front, is_default=name == default)
    for front in asking.values():
        yield from front_files(places, made, front)
    if asking:
        yield drop_in(places, list(asking.values()))
    yield from podman_files(places, with_hook=args.hook)


def remove(root: str, places: Places, fronts: Collection[Front]) -> PodmanRemoved:
    """Return what a removal of these fronts changes. Podman calls a name's next path where the first one is gone, but
    what runs was begun by the front, and a service has read its configuration.
    """
    if not fronts:
        return PodmanRemoved()
    stay = [each for each in recorded_fronts(root, places, ENGINE) if each not in fronts and not each.passing_since]
    users = {each.name: monitored(places.front(ENGINE, each.name)) for each in fronts}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    passing = [each for each in fronts if users[each.name]]
    notes = [
        f"under the front {name}, which stays and passes everything on until a further --remove finds none: "
        f"{', '.join(found)}"
        for name, found in users.items()
        if found
    ]
    notes.append("Podman's service reads its settings once: run `systemctl try-restart podman.service`")
    return PodmanRemoved(
        planned=(drop_in(places, stay),),
        passing=tuple(msgspec.structs.replace(each, passing_since=each.passing_since or now) for each in passing),
        gone=tuple(each for each in fronts if not users[each.name]),
        notes=tuple(notes),
    )
