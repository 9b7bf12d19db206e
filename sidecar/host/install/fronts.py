"""Fronts before an engine's own runtimes: their files, and the record of what stands behind each of them.

A front is the program of the strict start, in a kind that containers do not choose. It is called under
the name of the runtime that it stands before, or, before Docker's own `runc`, which no configuration can rename, under
`cpuset-default`. Its record is written before any engine is told of it, and removed after all of them were told that it
is gone. So after a crash between any two steps the same command goes on from there.

A front that is *passing* was taken away while containers lived under it: it is the real runtime, and asks no sidecar.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from sidecar.decide.container.start import STRICT_RUNTIME
from sidecar.failures import ConfigError
from sidecar.host.install.front_program import is_compiled
from sidecar.host.install.runtime_files import (
    Installation,
    Places,
    Planned,
    below,
    front_content,
    front_script,
    settings_text,
)
from state import files
from state.errors import FileUnreadable

DEFAULT_NAME: Final = "cpuset-default"
"""The name of the front before Docker's own runtime."""

KEEPS_SCRIPT: Final = "--behind-cpuset-front"
"""What Docker calls a front with, if the runtime behind it has arguments: no front and no runtime goes by it."""

USUAL_KIND: Final = "usual"
PASSING_KIND: Final = "passing"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
_LIMIT: Final = 256 * 1024
_RECORD: Final = ".json"


class Front(msgspec.Struct, frozen=True, kw_only=True):
    """One front: for which engine, under which name, and the absolute path and arguments of the real runtime behind it.

    `entry` is the engine's own entry of that name before; None where there was none. `default` is what the engine's
    configuration named as its default runtime before this front became it; None if it named none, or if this front
    never did. `is_default`: it was installed as the default. `data_root`: where Docker had its data then, "" if that
    was not to be known; its flags are not to be seen while it does not run. `passing_since` is when the front was taken
    away while containers lived under it, as the engine writes times; "" while it asks. `told` is the state directory
    that has this record as well, for a sidecar that sees no other; "" where there was none yet.
    """

    engine: str
    name: str
    real: str
    args: tuple[str, ...] = ()
    entry: Mapping[str, Any] | None = None
    default: str | None = None
    is_default: bool = False
    data_root: str = ""
    told: str = ""
    passing_since: str = ""


def checked_name(name: str) -> str:
    """Return a runtime's name that can be a file's. ConfigError."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"the runtime {name!r} cannot be wrapped: its name is not of letters, digits and _ . + -")
    return name


def recorded_fronts(root: str, places: Places, engine: str) -> list[Front]:
    """Return the fronts of which there is a record, by name. ConfigError if one cannot be understood."""
    return _recorded_in(below(root, os.path.dirname(places.front_record(engine, "x"))))


def copied_fronts(root: str, state_dir: str, engine: str) -> list[Front]:
    """Return the fronts of which this state directory has the record as well. ConfigError as above."""
    return _recorded_in(below(root, os.path.dirname(_told_in(Front(engine=engine, name="x", real="", told=state_dir)))))


def _recorded_in(folder: str) -> list[Front]:
    try:
        with files.directory(folder) as at:
            names = sorted(name for name in os.listdir(folder) if name.endswith(_RECORD))
            return [_read(folder, name, files.read_bounded(at, name, _LIMIT) or b"") for name in names]
    except FileUnreadable:
        if os.path.lexists(folder):
            raise
        return []


def installed_fronts(root: str, places: Places) -> dict[str, bool]:
    """Return the fronts that are there, by the names of their runtimes, and whether each is the compiled one.
    StateError; ConfigError if a record cannot be understood.
    """
    paths = {STRICT_RUNTIME: places.runtime}
    for engine in ("docker", "podman"):
        fronts = [each for each in recorded_fronts(root, places, engine) if not each.passing_since]
        paths |= {f"{each.name} ({engine})": places.front(engine, each.name) for each in fronts}
    return {name: is_compiled(path) for name, at in paths.items() if os.path.exists(path := below(root, at))}


def front_files(places: Places, made: Installation, front: Front) -> Iterator[Planned]:
    """Yield the files of a front: its records first, and last the script, with everything that it needs."""
    if front.told and made.state_dir not in ("", front.told):
        yield Planned(_told_in(front), None)
    yield from _records(places, msgspec.structs.replace(front, told=made.state_dir or front.told))
    real = front.real
    if front.args:
        real = places.front_real(front.engine, front.name)
        words = " ".join(shlex.quote(word) for word in (front.real, *front.args))
        without = f'if [ "$1" = {KEEPS_SCRIPT} ]; then shift; fi\n'
        yield Planned(real, f'#!/bin/sh\n{without}exec {words} "$@"\n'.encode(), 0o755)
    settings = places.front_settings(front.engine, front.name)
    yield Planned(settings, settings_text(places, msgspec.structs.replace(made, real=real)).encode())
    yield Planned(places.front(front.engine, front.name), front_content(made, settings, real, USUAL_KIND), 0o755)


def passing_files(places: Places, front: Front) -> Iterator[Planned]:
    """Yield the files of a front that was taken away while containers live under it; the script first."""
    real = places.front_real(front.engine, front.name) if front.args else front.real
    script = front_script("/nonexistent", real, PASSING_KIND)
    yield Planned(places.front(front.engine, front.name), script, 0o755)
    yield from _records(places, front)
    yield Planned(places.front_settings(front.engine, front.name), None)


def gone_files(places: Places, front: Front) -> Iterator[Planned]:
    """Yield the files of a front, to be removed; its own record last."""
    engine, name = front.engine, front.name
    for path in (places.front(engine, name), places.front_real(engine, name), places.front_settings(engine, name)):
        yield Planned(path, None)
    if front.told:
        yield Planned(_told_in(front), None)
    yield Planned(places.front_record(engine, name), None)


def as_told(front: Front, records: Iterable[Front]) -> Front:
    """Return a front with the state directory that has its last record, if there is one."""
    return next((msgspec.structs.replace(front, told=each.told) for each in records if each.name == front.name), front)


def forget_places(root: str, fronts: Iterable[Front]) -> None:
    """Remove the folders in which sidecars were told of these fronts, if they are empty."""
    for folder in {os.path.dirname(_told_in(front)) for front in fronts if front.told}:
        for path in (folder, os.path.dirname(folder)):
            with suppress(OSError):
                os.rmdir(below(root, path))


def _records(places: Places, front: Front) -> Iterator[Planned]:
    content = msgspec.json.format(msgspec.json.encode(front), indent=2) + b"\n"
    yield Planned(places.front_record(front.engine, front.name), content)
    if front.told:
        yield Planned(_told_in(front), content, 0o600)


def _told_in(front: Front) -> str:
    return f"{front.told}/fronts/{front.engine}/{front.name}{_RECORD}"


def _read(folder: str, name: str, content: bytes) -> Front:
    try:
        return msgspec.json.decode(content, type=Front)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{folder}/{name} is not the record of a runtime: {error}: nothing was changed") from error
