"""What `install-runtime` does to Docker: its configuration file, and dockerd, which reloads that and is not restarted.

Installing: the fronts' files are there before dockerd is told of them. Removing goes in steps. dockerd can be restarted
after each of them, and a further call goes on from there:

1. Nothing new comes through a front: paths are as before, and the former default is the default by its name.
2. dockerd reloads that, and is asked whether it is so. What cannot be asked for, or is not confirmed, ends here.
3. Entries go, unless containers have their names; then the file is as it was before.
4. A front under which containers still live passes everything on, until a further call finds none.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from sidecar.cli.flags import next_daemons_config
from sidecar.cli.setup import dockerd_process
from sidecar.cli.setup.docker_users import (
    Removed,
    all_containers,
    became,
    recorded,
    shimmed_under,
    some,
    untold,
    users_of,
)
from sidecar.cli.setup.dockerd_process import Runtimes, User
from sidecar.cli.setup.install_arguments import stays
from sidecar.decide.container.start import STRICT_RUNTIME
from sidecar.engines.address import AUTO, address, addresses, choose, usual_place
from sidecar.failures import ConfigError, EngineUnavailable, SidecarError
from sidecar.host.install import docker_runtimes
from sidecar.host.install.daemon_json import (
    DAEMON_JSON,
    DaemonJson,
    as_before,
    is_put_back,
    read_daemon_json,
    see_that_writable,
    take_back,
    value_at,
    with_value,
    without,
    write_daemon_json,
)
from sidecar.host.install.docker_runtimes import ENGINE, STOCK, TABLE, without_calls, without_name
from sidecar.host.install.fronts import DEFAULT_NAME, Front, as_told, copied_fronts, recorded_fronts
from sidecar.host.install.runtime_files import Places
from state.errors import FileUnreadable

_KEYS: Final = (TABLE, STRICT_RUNTIME)


class DockerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration file as it is, its settings as they shall be, and the fronts whose files are to be there:
    `told` are those of which dockerd is told now.
    """

    file: DaemonJson
    settings: dict[str, Any]
    fronts: tuple[Front, ...] = ()
    told: tuple[Front, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether the file is to be written."""
        return self.settings != self.file.settings


def planned(args: argparse.Namespace, root: str, places: Places) -> DockerPlan:
    """Return what is to be installed. ConfigError if something is in the way: then nothing was changed."""
    file = daemon_json(args, root)
    docker_runtimes.see_that_plain(file.settings, file.path)
    present = value_at(file.settings, _KEYS)
    if present is not None and not _is_strict_ours(file, places):
        raise ConfigError(
            f"{file.path} has another runtime {STRICT_RUNTIME!r}, {present!r}: nothing was changed; rename that one"
        )
    settings = dict(file.settings) if present else with_value(file.settings, _KEYS, {"path": places.runtime})
    records, flag, data_root = recorded_fronts(root, places, ENGINE), _default_flag(args, root), _data_root(args, root)
    told: dict[str, Front] = {}
    for name in _names(args, file, flag):
        front = docker_runtimes.front_before(root, places, settings, name, records, flag)
        is_default = front.is_default or name not in args.wrap
        front = msgspec.structs.replace(front, is_default=is_default, data_root=data_root or front.data_root)
        front = as_told(front, records)
        settings, told[front.name] = docker_runtimes.with_front(settings, front, places), front
    asking = {each.name: each for each in records if not each.passing_since} | told
    plan = DockerPlan(file=file, settings=settings, fronts=tuple(asking.values()), told=tuple(told.values()))
    if plan.is_changed:
        see_that_writable(file)
    return plan


def carry_out(args: argparse.Namespace, root: str, places: Places, plan: DockerPlan) -> Iterator[str]:
    """Write the file, have dockerd reload it, and yield notes. The fronts' files must be there."""
    if plan.is_changed:
        kept = write_daemon_json(plan.file, plan.settings)
        if kept.backup:
            yield f"the previous {kept.path} is kept in {kept.backup}"
    fronts = {each.name: places.front(ENGINE, each.name) for each in plan.told}

    def is_so(told: Runtimes) -> bool:
        is_default = DEFAULT_NAME not in fronts or told.default == DEFAULT_NAME
        return is_default and all(told.paths.get(name) == path for name, path in _with_strict(fronts, places).items())

    yield from _reloaded(args, root, f"knows the runtime {STRICT_RUNTIME}{_and_fronts(plan.told)}", is_so)
    if plan.told:
        yield from _ways_around(args, root, plan)


def fronts_there(args: argparse.Namespace, root: str, places: Places) -> list[Front]:
    """Return the fronts that are recorded, and those that dockerd's configuration calls without a record: as the state
    directory has them, or else its own runtime as far as it is known, others with nothing behind them. ConfigError.
    """
    records = recorded_fronts(root, places, ENGINE)
    if not (lost := docker_runtimes.unrecorded(daemon_json(args, root).settings, records, places)):
        return records
    # Beside the socket, as they were written.
    state_dir = os.path.dirname(args.socket) if args.socket else next_daemons_config(args, root)[0].state_dir
    stock = docker_runtimes.stock_front(root)
    known = {stock.name: stock, **{each.name: each for each in copied_fronts(root, state_dir, ENGINE)}}
    return [*records, *(known.get(name, Front(engine=ENGINE, name=name, real="")) for name in lost)]


def needed_by(args: argparse.Namespace, root: str, places: Places, fronts: Collection[Front]) -> dict[str, list[str]]:
    """Return which containers need each of these fronts, by its name. ConfigError, EngineUnavailable."""
    running, socket, file = running_dockerd(args, root), docker_socket(args, root), daemon_json(args, root)
    users = all_containers(root, file, socket, {each.data_root for each in fronts}, is_running=running is not None)
    return {each.name: users_of(each, users) or ([] if running else shimmed_under(each, places)) for each in fronts}


def foreseen(args: argparse.Namespace, root: str, places: Places, fronts: Collection[Front]) -> Removed:
    """Return what a removal would make of these fronts. ConfigError, EngineUnavailable."""
    if fronts and not _is_to_be_seen(args, root, running_dockerd(args, root)):
        return untold(fronts)
    return became(fronts, needed_by(args, root, places, fronts)) if fronts else Removed()


def _is_to_be_seen(args: argparse.Namespace, root: str, running: dockerd_process.Dockerd | None) -> bool:
    """Return whether it is known what dockerd does: it answers, or it does not run."""
    is_unseen = dockerd_process.is_maybe_unseen(pid_file(args, root), running)
    return not is_unseen and (running is None or bool(docker_socket(args, root)))


def remove(
    args: argparse.Namespace, root: str, places: Places, fronts: Collection[Front], *, with_strict: bool
) -> Removed:
    """Have dockerd forget these fronts, and with `with_strict` the strict runtime. The steps are those above."""
    file, notes = daemon_json(args, root), list[str]()
    running = running_dockerd(args, root)
    stock = next((each for each in fronts if each.name == DEFAULT_NAME), None)
    # 1.
    first = without_calls(file.settings, fronts, places, _default_flag(args, root))
    if first != file.settings:
        write_daemon_json(file, first)
        file = daemon_json(args, root)
    if fronts:
        # 2.
        paths = {places.front(ENGINE, each.name) for each in fronts if each is not stock}
        notes += _reloaded(
            args,
            root,
            "starts no further container through a front",
            lambda told: not (stock and told.default == DEFAULT_NAME) and paths.isdisjoint(told.paths.values()),
        )
    if fronts and not _is_to_be_seen(args, root, running):
        return untold(fronts, notes)
    # 3.
    under = needed_by(args, root, places, fronts)
    settings = dict(file.settings)
    if stock:
        settings = without_name(settings, stock, is_used=bool(under[DEFAULT_NAME]))
    if with_strict and _is_strict_ours(file, places):
        settings = without(settings, _KEYS)
    settings = dict(as_before(file, settings, TABLE))
    if settings != file.settings or not is_put_back(file):
        notes += _without_entries(args, root, places, file, settings)
    # 4.
    left = became(fronts, under)
    return msgspec.structs.replace(left, notes=tuple(dict.fromkeys([*notes, *left.notes])))


def is_set_up(args: argparse.Namespace, root: str, places: Places) -> bool:
    """Return whether Docker calls this installation: by its configuration file, under any name, by a flag, or through a
    front. A file that cannot be understood may name it. ConfigError if a record is not understood.
    """
    running = running_dockerd(args, root)
    if any(not each.passing_since for each in recorded_fronts(root, places, ENGINE)):
        return True
    if running and any(word.endswith(f"={places.runtime}") for word in running.words):
        return True
    try:
        settings = _file_of(args, root, running).settings
    except ConfigError:
        return True
    except FileUnreadable:
        # dockerd is root's: what this user cannot even read calls nothing of this user's.
        return False
    table = settings.get(TABLE)
    names = table if isinstance(table, dict) else {}
    return any(
        value_at(settings, (TABLE, name, "path")) in (places.runtime, places.front(ENGINE, name)) for name in names
    )


def would_write(
    args: argparse.Namespace, root: str, places: Places, fronts: Collection[Front], *, with_strict: bool
) -> tuple[str, ...]:
    """Return the configuration file if a removal changes it."""
    file = daemon_json(args, root)
    is_changed = without_calls(file.settings, fronts, places, _default_flag(args, root)) != file.settings
    return (file.path,) if is_changed or (with_strict and _is_strict_ours(file, places)) else ()


# The engine.


def running_dockerd(args: argparse.Namespace, root: str) -> dockerd_process.Dockerd | None:
    """Return the running daemon; None if none runs, or is not to be seen from here."""
    return dockerd_process.find_dockerd(pid_file(args, root))


def pid_file(args: argparse.Namespace, root: str) -> str:
    """Return the path of dockerd's pid file, as it is to be found from here."""
    path = str(args.docker_pid)
    if root != "/" and path == dockerd_process.PID_FILE:
        # /var/run is a link of the host's.
        return os.path.join(root, "run/docker.pid")
    return path


def docker_socket(args: argparse.Namespace, root: str) -> str:
    """Return Docker's socket; "" if none should be asked, or none is there."""
    if args.wanted == "podman":
        return ""
    return next((path for path in _possible_sockets(args, root) if path and os.path.exists(path)), "")


def _possible_sockets(args: argparse.Namespace, root: str) -> Iterator[str | None]:
    """Yield where Docker may listen: where the sidecar is told that it does; else where this dockerd was told to, where
    clients are told that it does, and the usual place. None for what is no Unix socket.
    """
    config = next_daemons_config(args, root)[0]
    told = dict(addresses(config.engine, () if config.engines == (AUTO,) else config.engines))
    if (configured := told.get(ENGINE, told.get("", AUTO))) != AUTO:
        yield address(configured, "the setting `engine`").path
        return
    running = running_dockerd(args, root)
    for host in running.hosts if running else ():
        yield host.removeprefix("unix://") if host.startswith("unix:///") else None
    with suppress(EngineUnavailable):
        yield choose(AUTO, {"DOCKER_HOST": os.environ.get("DOCKER_HOST", "")}, lambda _: False).path
    yield usual_place(ENGINE)


def daemon_json(args: argparse.Namespace, root: str) -> DaemonJson:
    """Return dockerd's configuration file: as given, as dockerd reports, or the usual one. ConfigError."""
    running = running_dockerd(args, root)
    found = _file_of(args, root, running)
    if running and (reason := dockerd_process.conflict(running.words)):
        raise ConfigError(reason)
    return found


def _file_of(args: argparse.Namespace, root: str, running: dockerd_process.Dockerd | None) -> DaemonJson:
    path = args.daemon_json or (running and running.flag("config-file")) or DAEMON_JSON
    return read_daemon_json(path if root == "/" or args.daemon_json else os.path.join(root, path.lstrip("/")))


def _reloaded(args: argparse.Namespace, root: str, what: str, is_so: Callable[[Runtimes], bool]) -> Iterator[str]:
    """Have dockerd reload its configuration, and verify that it did."""
    running = running_dockerd(args, root)
    if running is None:
        yield "dockerd is not visible from here: it reads this at its next start, or run `systemctl reload docker`"
        return
    running.reload()
    if not (socket := docker_socket(args, root)):
        yield "dockerd was told to reload its configuration; without its socket this is not verified"
    elif dockerd_process.until_so(socket, is_so):
        yield f"dockerd {what}, without a restart"
    else:
        raise SidecarError(
            f"dockerd was told to reload its configuration, but its list of runtimes did not change within "
            f"{dockerd_process.RELOAD_SECONDS:g} s: see its log"
        )


def _without_entries(
    args: argparse.Namespace, root: str, places: Places, file: DaemonJson, settings: dict[str, Any]
) -> Iterator[str]:
    """Take entries out of dockerd's configuration file, and have dockerd forget them.

    A missing table changes nothing at a reload, and one that is null ends dockerd (20.10), but an empty one does: so
    dockerd is given an empty one first.
    """
    ours = (places.runtime, places.front(ENGINE, DEFAULT_NAME))
    left = [name for name in settings.get(TABLE) or () if value_at(settings, (TABLE, name, "path")) in ours]
    gone = [name for name in file.settings.get(TABLE) or () if value_at(settings, (TABLE, name)) is None]

    def is_so(told: Runtimes) -> bool:
        return not set(gone) & set(told.paths)

    what = f"no longer knows the runtime {' and '.join(gone)}" if gone else "has reloaded its configuration"
    if left:
        write_daemon_json(file, settings)
        yield from _reloaded(args, root, what, is_so)
        return
    for step, kept in enumerate(take_back(file, settings, {**settings, TABLE: settings.get(TABLE) or {}})):
        if not step:
            yield from _reloaded(args, root, what, is_so)
        elif kept.backup:
            yield stays(kept)


# Names and users.


def _names(args: argparse.Namespace, file: DaemonJson, flag: str | None) -> list[str]:
    """Return the names of the runtimes that shall stand behind a front."""
    if STOCK in args.wrap:
        raise ConfigError(f"Docker's own runtime {STOCK} cannot be wrapped by its name: use --default, if it is that")
    if DEFAULT_NAME in args.wrap:
        raise ConfigError(f"{DEFAULT_NAME} is the front before Docker's own runtime: use --default")
    default = [docker_runtimes.default_in(file.settings, flag)] if args.default else []
    return list(dict.fromkeys([*default, *args.wrap]))


def _default_flag(args: argparse.Namespace, root: str) -> str | None:
    running = running_dockerd(args, root)
    return running.flag("default-runtime") if running else None


def _is_strict_ours(file: DaemonJson, places: Places) -> bool:
    present = value_at(file.settings, _KEYS)
    return isinstance(present, dict) and present.get("path") == places.runtime


def _with_strict(fronts: dict[str, str], places: Places) -> dict[str, str]:
    return {STRICT_RUNTIME: places.runtime, **fronts}


def _and_fronts(fronts: Collection[Front]) -> str:
    return "".join(
        f", and starts what has the runtime {each.name} through a front before {each.real}" for each in fronts
    )


def _ways_around(args: argparse.Namespace, root: str, plan: DockerPlan) -> Iterator[str]:
    """Yield the runtimes, and the containers, whose starts still do not come through a front."""
    names = list(docker_runtimes.ways_around(plan.settings, plan.fronts))
    yield f"not wrapped, and so a way around: {', '.join(names)}"
    if not (socket := docker_socket(args, root)):
        return
    try:
        before = [each.name for each in dockerd_process.containers(socket) if each.runtime == STOCK]
    except EngineUnavailable:
        return
    if before:
        yield f"created with {STOCK}, and so started around it until they are recreated: {some(before)}"


def recorded_users(args: argparse.Namespace, root: str, places: Places) -> list[User]:
    """Return the containers in the records of an engine that does not run. ConfigError."""
    known = {each.data_root for each in recorded_fronts(root, places, ENGINE)}
    return recorded(root, daemon_json(args, root), known)


def _data_root(args: argparse.Namespace, root: str) -> str:
    """Return where the running engine has its data, as the host sees it; "" if none runs, or if it does not tell."""
    running, socket = running_dockerd(args, root), docker_socket(args, root)
    if running and socket:
        with suppress(EngineUnavailable):
            return dockerd_process.data_root(socket)
    return running.flag("data-root") or "" if running else ""
