"""Which containers of Docker need a runtime: by the engine, or where it does not run by its records and their shims;
and what becomes of fronts that some need.

Its records are where its configuration file says, and where it had its data when a front was installed: the flags of an
engine that does not run are not to be seen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from sidecar.cli.setup import dockerd_process
from sidecar.cli.setup.docker_shims import shimmed
from sidecar.cli.setup.dockerd_process import User
from sidecar.failures import EngineUnavailable
from sidecar.host.install.daemon_json import DaemonJson, value_at
from sidecar.host.install.docker_runtimes import ENGINE
from sidecar.host.install.fronts import DEFAULT_NAME, Front
from sidecar.host.install.runtime_files import Places, below

_DATA_ROOT: Final = "/var/lib/docker"
_NAMED: Final = 8
"""So many containers are named in one note."""


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the fronts, and notes for people. `is_told`: dockerd was told, or will read it: if not, it may
    call the program of the strict runtime as well.
    """

    notes: tuple[str, ...] = ()
    passing: tuple[Front, ...] = ()
    gone: tuple[Front, ...] = ()
    is_told: bool = True


def all_containers(root: str, file: DaemonJson, socket: str, known: Collection[str], *, is_running: bool) -> list[User]:
    """Return all containers, by the engine, or by the records of one that does not run."""
    if socket:
        try:
            return dockerd_process.containers(socket)
        except EngineUnavailable:
            if is_running:
                raise
    return [] if is_running else recorded(root, file, known)


def recorded(root: str, file: DaemonJson, known: Collection[str]) -> list[User]:
    """Return what an engine that does not run has recorded where its file says, and where it had its data before."""
    data = value_at(file.settings, ("data-root",))
    roots = {data if isinstance(data, str) else _DATA_ROOT, *known} - {""}
    return [user for at in sorted(roots) for user in dockerd_process.recorded_containers(below(root, at))]


def shimmed_under(front: Front, places: Places) -> list[str]:
    """Return what lives under a front, whether its engine runs or not; by short ids."""
    return shimmed(places.front(ENGINE, front.name))


def users_of(front: Front, users: Collection[User]) -> list[str]:
    """Return the names of the containers that need a front: those of its name; or where the name goes on without it,
    those that began before it was taken away.
    """
    own = [each for each in users if each.runtime == front.name]
    if front.name == DEFAULT_NAME:
        return [each.name for each in own]
    since = front.passing_since
    return [each.name for each in own if each.is_live and (not since or not each.started or each.started < since)]


def passes_on(name: str, users: list[str]) -> str:
    """Return the note about a front that stays for these containers."""
    means = "recreate them" if name == DEFAULT_NAME else "restart them"
    return (
        f"under the front {name}, which stays and passes everything on until a further --remove finds none: "
        f"{some(users)}; {means}"
    )


def some(names: list[str]) -> str:
    """Return the first of these names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def became(fronts: Collection[Front], under: Mapping[str, list[str]]) -> Removed:
    """Return what becomes of fronts that are taken away, if these containers need them."""
    return Removed(
        notes=tuple(passes_on(name, found) for name, found in under.items() if found),
        passing=passing([each for each in fronts if under[each.name]]),
        gone=tuple(each for each in fronts if not under[each.name]),
    )


def untold(fronts: Collection[Front], notes: Collection[str] = ()) -> Removed:
    """Return the same where it is not known what dockerd does: all of them stay."""
    told = (
        "dockerd may still start containers through a front, which stays until then: have it reload its "
        "configuration, and run this again where its socket and its process can be seen"
    )
    return Removed(notes=(*notes, told), passing=passing(fronts), is_told=False)


def passing(fronts: Collection[Front]) -> tuple[Front, ...]:
    """Return fronts as they are recorded while they pass everything on."""
    # With a fraction, as the engine tells when a container started: texts are compared.
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    return tuple(msgspec.structs.replace(each, passing_since=each.passing_since or now) for each in fronts)
