"""What `install-runtime` does to Podman: a drop-in of its configuration, which each of its calls reads."""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection

import msgspec

from sidecar.cli.setup.podman_monitors import monitored
from sidecar.decide.container.start import STRICT_RUNTIME
from sidecar.failures import ConfigError
from sidecar.host.install.fronts import Front, as_told, front_files, recorded_fronts
from sidecar.host.install.podman_files import directories_made, is_known_to_podman, podman_files
from sidecar.host.install.podman_runtimes import (
    ENGINE,
    PodmanRuntimes,
    drop_in,
    front_before,
    left_out,
    see_that_free,
)
from sidecar.host.install.runtime_files import Installation, Places, Planned


class PodmanPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The files that are to be there, those of the fronts first; the fronts; and notes for people."""

    planned: tuple[Planned, ...]
    fronts: tuple[Front, ...]
    notes: tuple[str, ...]


class PodmanRemoved(msgspec.Struct, frozen=True, kw_only=True):
    """The drop-in without these fronts, what became of each, and notes for people."""

    planned: tuple[Planned, ...] = ()
    passing: tuple[Front, ...] = ()
    gone: tuple[Front, ...] = ()
    notes: tuple[str, ...] = ()


def planned(args: argparse.Namespace, root: str, places: Places, made: Installation, *, has_docker: bool) -> PodmanPlan:
    """Return the files by which Podman knows the strict runtime and the fronts. A name that only Docker has, where both
    are set up, is no mistake. ConfigError if something is in the way: then nothing was changed.
    """
    found = PodmanRuntimes(root, places)
    see_that_free(found, places)
    records = recorded_fronts(root, places, ENGINE)
    asking = {each.name: each for each in records if not each.passing_since}
    default = found.usual() if args.default else ""
    for name in dict.fromkeys([*([default] if default else []), *args.wrap]):
        try:
            front = front_before(found, name)
        except ConfigError:
            if has_docker and name != default:
                continue
            raise
        asking[name] = as_told(msgspec.structs.replace(front, is_default=name == default), records)
    fronts = list(asking.values())
    dropped = [drop_in(places, fronts)] if fronts else []
    known = podman_files(
        places,
        with_hook=args.hook,
        supports_json=found.supports_json,
        hooks_dirs=found.hooks_dirs,
        made=directories_made(root, places, places.podman_settings, *([places.podman_hook] if args.hook else [])),
    )
    dropped += known
    after = PodmanRuntimes(root, places, {each.path: each.content for each in dropped})
    return PodmanPlan(
        planned=(*(file for each in fronts for file in front_files(places, made, each)), *dropped),
        fronts=tuple(fronts),
        notes=tuple(left_out(after, places, fronts, with_hook=args.hook)),
    )


def told(fronts: Collection[Front]) -> list[str]:
    """Return what to say of an installation: Podman reads its configuration with each call."""
    notes = [
        f"Podman, from its next call on, starts what has the runtime {each.name} through a front before {each.real}: "
        "what runs already came around it until it is restarted"
        for each in fronts
    ]
    notes.append(
        f"Podman: use --runtime {STRICT_RUNTIME} from its next call on. Its service reads its settings "
        "once: run `systemctl try-restart podman.service`, or no order reaches such a container"
    )
    return notes


def is_set_up(root: str, places: Places) -> bool:
    """Return whether Podman calls this installation. StateError; ConfigError if a record is not understood."""
    asking = (each for each in recorded_fronts(root, places, ENGINE) if not each.passing_since)
    return is_known_to_podman(root, places) or any(asking)


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
