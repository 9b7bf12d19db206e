"""Which of Docker's runtimes stand behind a front, and what its configuration says then, and after. Pure.

1. Docker's own runtime, `runc`, is in no table and cannot be renamed: the front before it is a runtime more, and the
   default. Containers that were created before keep the name `runc`, and so a way around.
2. A runtime of the table keeps its name, and gets another path: whatever names it, or has it by default, comes through
   the front, also containers that were created before. The default is not changed then.
3. A shim (`runtimeType`, `io.containerd.*`) is no program that can be called: it is left alone.
4. For a runtime with arguments dockerd keeps a script of its own, by whose path living containers are called, and
   removes it at a reload that finds none (20.10). So such an entry gets an argument again (`KEEPS_SCRIPT`).
5. Back: an entry of the table gets its path again at any time. The default of (1) is first named, so that dockerd
   takes it at a reload: without the key it keeps the default that it has (20.10), and if that is not in the table any
   more, its next request to it is its end. Only then the entry goes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from sidecar.decide.container.start import STRICT_RUNTIME
from sidecar.failures import ConfigError
from sidecar.host.install.daemon_json import value_at, with_value, without
from sidecar.host.install.fronts import DEFAULT_NAME, KEEPS_SCRIPT, Front, checked_name
from sidecar.host.install.runtime_files import Places, program

ENGINE: Final = "docker"
STOCK: Final = "runc"
"""The runtime that every dockerd has, under a name that its configuration cannot use."""

DEFAULT_KEY: Final = "default-runtime"
TABLE: Final = "runtimes"

_SHIMS: Final = "io.containerd."
_ENTRY_KEYS: Final = ("path", "runtimeArgs", "runtimeType")

Settings = Mapping[str, Any]


def default_in(settings: Settings, flag: str | None) -> str:
    """Return the name of the runtime that containers get that name none, from dockerd's next start on. ConfigError."""
    found = flag or settings.get(DEFAULT_KEY) or STOCK
    if not isinstance(found, str):
        raise ConfigError(f"{DEFAULT_KEY!r} in the Docker daemon's configuration is not a text: correct it first")
    return found


def see_that_plain(settings: Settings, path: str) -> None:
    """Raise ConfigError for what dockerd reads in another way than this, or does not take at all: it reads keys
    whatever their case, and the last one counts.
    """
    tables: list[tuple[str, Settings, Sequence[str]]] = [("", settings, (TABLE, DEFAULT_KEY))]
    entries = settings.get(TABLE)
    for name, entry in entries.items() if isinstance(entries, Mapping) else ():
        if not isinstance(entry, Mapping):
            raise ConfigError(f"the runtime {name!r} in {path} is no table, which dockerd refuses: correct it first")
        tables.append((f" of the runtime {name!r}", entry, _ENTRY_KEYS))
    for whose, table, keys in tables:
        for key in table:
            meant = next((each for each in keys if each.lower() == key.lower()), key)
            if meant != key:
                raise ConfigError(
                    f"{path} has the key {key!r}{whose}, which dockerd reads as {meant!r}: nothing was changed; write "
                    "it so first"
                )


def unrecorded(settings: Settings, records: Collection[Front], places: Places) -> list[str]:
    """Return the names of the runtimes that are called through a front of which there is no record."""
    table = settings.get(TABLE)
    names = sorted(table) if isinstance(table, Mapping) else []
    found = [name for name in names if value_at(settings, (TABLE, name, "path")) == places.front(ENGINE, name)]
    return [name for name in found if name not in {each.name for each in records}]


def stock_front(root: str) -> Front:
    """Return the front before Docker's own runtime, of which everything is known without a record, but for whether the
    default had a name before.
    """
    return Front(engine=ENGINE, name=DEFAULT_NAME, real=program(root, STOCK) or STOCK, is_default=True)


def record_missing(places: Places, name: str) -> ConfigError:
    """Return the error about a front before a runtime of the table, of which nothing says what that was."""
    return ConfigError(
        f"{places.front_record(ENGINE, name)} is missing, which says what the runtime {name} was: write its path into "
        "dockerd's configuration first"
    )


def is_shim(settings: Settings, name: str) -> bool:
    """Return whether a runtime is a shim of containerd's, and no program."""
    entry = value_at(settings, (TABLE, name))
    return name.startswith(_SHIMS) or (isinstance(entry, Mapping) and bool(entry.get("runtimeType")))


def front_before(
    root: str, places: Places, settings: Settings, name: str, records: Collection[Front], flag: str | None
) -> Front:
    """Return the front for a runtime: as recorded, if it is there, or else with what is there now. ConfigError."""
    known = {each.name: each for each in records}
    if name in (STOCK, DEFAULT_NAME):
        return _before_stock(root, places, settings, known.get(DEFAULT_NAME), flag)
    entry = value_at(settings, (TABLE, checked_name(name)))
    if is_shim(settings, name):
        raise ConfigError(
            f"the runtime {name} is a shim (runtimeType, io.containerd.*), before which nothing can stand: nothing was "
            "changed"
        )
    if not isinstance(entry, Mapping) or not isinstance(entry.get("path"), str):
        raise ConfigError(f"dockerd's configuration has no runtime {name!r} with a path: nothing was changed")
    if name == STRICT_RUNTIME:
        raise ConfigError(f"the runtime {name} asks by itself: nothing was changed")
    if entry["path"] == places.front(ENGINE, name):
        if name not in known:
            raise record_missing(places, name)
        return msgspec.structs.replace(known[name], passing_since="")
    args = entry.get("runtimeArgs") or ()
    if not isinstance(args, list | tuple) or not all(isinstance(each, str) for each in args):
        raise ConfigError(f"`runtimeArgs` of the runtime {name!r} is not a list of texts: correct it first")
    real = _real(root, name, entry["path"])
    return Front(engine=ENGINE, name=name, real=real, args=tuple(args), entry=dict(entry))


def with_front(settings: Settings, front: Front, places: Places) -> dict[str, Any]:
    """Return the settings in which containers come through a front."""
    path = places.front(ENGINE, front.name)
    if front.name == DEFAULT_NAME:
        changed = with_value(settings, (TABLE, DEFAULT_NAME), {"path": path})
        return with_value(changed, (DEFAULT_KEY,), DEFAULT_NAME)
    args = {"runtimeArgs": [KEEPS_SCRIPT]} if front.args else {}
    return with_value(settings, (TABLE, front.name), {**(front.entry or {}), **args, "path": path})


def without_calls(
    settings: Settings, fronts: Collection[Front], places: Places, flag: str | None = None
) -> dict[str, Any]:
    """Return the settings in which no further container comes through these fronts, which dockerd still knows (5). The
    default is named also if the key is missing: dockerd may still have the front as its default.
    """
    changed = dict(settings)
    for front in fronts:
        if front.name == DEFAULT_NAME:
            if flag is None and changed.get(DEFAULT_KEY) in (None, DEFAULT_NAME):
                changed = with_value(changed, (DEFAULT_KEY,), front.default or STOCK)
        elif value_at(changed, (TABLE, front.name, "path")) == places.front(ENGINE, front.name):
            changed = with_value(changed, (TABLE, front.name), _entry_before(changed, front, places))
    return changed


def without_name(settings: Settings, front: Front, *, is_used: bool) -> dict[str, Any]:
    """Return the settings without the front before Docker's own runtime; its entry stays if containers use it."""
    changed = dict(settings)
    if front.default is None and changed.get(DEFAULT_KEY) in (STOCK, DEFAULT_NAME):
        changed = without(changed, (DEFAULT_KEY,))
    return changed if is_used else without(changed, (TABLE, DEFAULT_NAME))


def ways_around(settings: Settings, fronts: Collection[Front]) -> Iterator[str]:
    """Yield the names of the runtimes whose starts do not come through a front, each with what can be done."""
    wrapped = {STRICT_RUNTIME, *(each.name for each in fronts)}
    table = settings.get(TABLE)
    names = sorted(table) if isinstance(table, Mapping) else []
    for name in (STOCK, *names):
        if name not in wrapped:
            yield f"{name} (a shim)" if is_shim(settings, name) else name


def _entry_before(settings: Settings, front: Front, places: Places) -> Mapping[str, Any]:
    """Return a runtime's entry without the front: as it was, but for what another program changed in it since."""
    was, present = front.entry or {}, value_at(settings, (TABLE, front.name))
    if present == value_at(with_front(settings, front, places), (TABLE, front.name)):
        return was
    return {**present, **{key: was[key] for key in ("path", "runtimeArgs") if key in was}}


def _before_stock(root: str, places: Places, settings: Settings, known: Front | None, flag: str | None) -> Front:
    entry = value_at(settings, (TABLE, DEFAULT_NAME))
    path = places.front(ENGINE, DEFAULT_NAME)
    if entry is not None and value_at(settings, (TABLE, DEFAULT_NAME, "path")) != path:
        raise ConfigError(
            f"dockerd's configuration has another runtime {DEFAULT_NAME!r}, {entry!r}: nothing was changed; rename it"
        )
    if flag is not None:
        raise ConfigError(
            f"dockerd runs with --default-runtime {flag}, and would not start with the same key in its configuration "
            "file: move that flag into the file first"
        )
    was = settings.get(DEFAULT_KEY)
    if was == DEFAULT_NAME:
        was = known.default if known else None
    return Front(engine=ENGINE, name=DEFAULT_NAME, real=_real(root, STOCK, STOCK), default=was)


def _real(root: str, name: str, path: str) -> str:
    """Return the absolute path of a runtime's program. ConfigError if it is missing."""
    if found := program(root, path):
        return found
    raise ConfigError(
        f"the program of the runtime {name}, {path}, is missing on the host: no container would start: nothing was "
        "changed"
    )
