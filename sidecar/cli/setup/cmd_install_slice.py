"""`install-slice`: let one cgroup confine the shared pool on this host, report what changed, and undo exactly that."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import nullcontext

import msgspec

from sidecar.cli.arguments import typed
from sidecar.cli.doctor.cmd_doctor import ask_engine
from sidecar.cli.doctor.host_checks import EngineReport
from sidecar.cli.flags import add_config, config_of, next_daemons_config
from sidecar.cli.setup import dockerd_process
from sidecar.cli.setup.install_arguments import Done, add_installing, print_done, root_of, stays
from sidecar.cli.setup.one_at_a_time import one_at_a_time
from sidecar.failures import ConfigError, EngineLacks, EngineUnavailable
from sidecar.host.install import runtime_files
from sidecar.host.install.daemon_json import (
    DAEMON_JSON,
    DaemonJson,
    read_daemon_json,
    take_back,
    value_at,
    with_value,
    without,
    write_daemon_json,
)
from sidecar.host.install.runtime_files import Planned
from sidecar.readers import word
from sidecar.systemd_names import SHARED, SHARED_PATH, exclusive_beside
from sidecar.words.settings_text import settings_of

KEYS = ("cgroup-parent",)
UNITS = "/etc/systemd/system"
TITLES = ("Containers that share CPUs (cpuset-sidecar)", "Containers with exclusive CPUs (cpuset-sidecar)")

_DESCRIPTION = f"""Let one cgroup confine the shared pool, on cgroup v2: a container without a cgroup parent is then
created in it, and one write moves all of them. Under the systemd driver it is the slice {SHARED}; under the cgroupfs
driver the path {SHARED_PATH}. Restart dockerd yourself afterwards. --remove undoes this."""

_EPILOG = """examples:
  cpuset-sidecar install-slice --dry-run
  cpuset-sidecar install-slice && systemctl daemon-reload && systemctl restart docker
  cpuset-sidecar install-slice --remove

with the sidecar in a container, from its image, with the host's file system at /host:
  docker run --rm --pid host -v /:/host -v /var/run/docker.sock:/var/run/docker.sock \\
    cpuset-sidecar install-slice --root /host
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "install-slice",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_installing(parser)
    parser.add_argument(
        "--driver",
        type=typed("--driver", word("systemd", "cgroupfs", "auto")),
        metavar="DRIVER",
        default="auto",
        help="the engine's cgroup driver: systemd, cgroupfs or auto (default: ask the engine)",
    )
    add_config(parser, ("engine", "shared_slice", "state_dir"))
    parser.set_defaults(func=run, doing="looking at the engine and the host")


def run(args: argparse.Namespace) -> int:
    """Install or remove, and print what changed."""
    root = root_of(args)
    config, whose = next_daemons_config(args, root)
    driver, engine = (args.driver, "docker") if args.driver != "auto" else _asked(config.engine)
    # A new group is in the command's own file before any daemon has it.
    shared = _shared(config.shared_slice or config_of(args).shared_slice, driver)
    with nullcontext() if args.dry_run else one_at_a_time(root):
        file = _daemon_json(args, root) if engine == "docker" else None
        done = (_remove if args.remove else _install)(root, shared, file, is_dry=args.dry_run)
    print_done(args, msgspec.structs.replace(done, notes=(settings_of(whose), *done.notes)) if whose else done)
    return 0


def unit_files(shared: str) -> Iterator[Planned]:
    """Yield the units of the two slices; none for a group that is a path. Their CPUs are set at run time, not here."""
    if shared.startswith("/"):
        return
    for name, title in zip((shared, exclusive_beside(shared)), TITLES, strict=True):
        text = f"{runtime_files.WRITTEN} install-slice`.\n[Unit]\nDescription={title}\nBefore=slices.target\n"
        yield Planned(f"{UNITS}/{name}", text.encode())


def _install(root: str, shared: str, file: DaemonJson | None, *, is_dry: bool) -> Done:
    planned, foreign = _ours(root, unit_files(shared))
    present = value_at(file.settings, KEYS) if file else shared
    if file and present not in (None, shared):
        raise ConfigError(
            f"{file.path} has another cgroup-parent already, {present!r}: nothing was changed; remove it, or use it: "
            f"--shared-slice {present}"
        )
    written = tuple(each.path for each in planned) + ((file.path,) if file and present is None else ())
    notes = [*foreign, *_next(shared, planned, file)]
    if is_dry:
        return Done(written=written, notes=tuple(notes), is_dry=True)
    runtime_files.carry_out(root, planned)
    if file and (kept := write_daemon_json(file, with_value(file.settings, KEYS, shared)).backup):
        notes.insert(0, f"the previous {file.path} is kept in {kept}")
    return Done(written=written, notes=tuple(notes))


def _next(shared: str, planned: list[Planned], file: DaemonJson | None) -> Iterator[str]:
    """Yield what is left to do, in order."""
    exclusive = exclusive_beside(shared)
    if planned:
        yield "next: run `systemctl daemon-reload`"
    if file:
        yield "next: run `systemctl restart docker`: dockerd reads cgroup-parent only when it starts"
        yield (
            "containers keep running with live-restore, and stop without it; each joins the group at its next start "
            "and need not be recreated"
        )
    else:
        yield f"Podman has no default parent: use `podman run --cgroup-parent {shared}`, or Slice={shared} in a quadlet"
    bus = "" if shared.startswith("/") else "; in a container, also mount /run/dbus/system_bus_socket"
    yield f'next: set shared_slice = "{shared}" (CPUSET_SIDECAR_SHARED_SLICE), and restart the sidecar{bus}'
    yield f"from now on, containers with exclusive CPUs need cgroup_parent: {exclusive}"


def _remove(root: str, shared: str, file: DaemonJson | None, *, is_dry: bool) -> Done:
    planned, foreign = _ours(root, (Planned(each.path, None) for each in unit_files(shared)))
    ours = file is not None and value_at(file.settings, KEYS) == shared
    removed, written = tuple(each.path for each in planned), (file.path,) if file and ours else ()
    reload = "run `systemctl daemon-reload`, and " if planned else ""
    notes = [
        *foreign,
        "before that: run `cpuset-sidecar release`, which gives the group all CPUs again; then leave shared_slice out",
        f"next: {reload}restart dockerd; containers leave the group at their next start",
        f"containers with cgroup_parent: {exclusive_beside(shared)} start as before: it is created when needed",
    ]
    if file and not ours and value_at(file.settings, KEYS) is not None:
        notes.insert(0, f"cgroup-parent in {file.path} was not set by this command, and stays")
    if is_dry:
        return Done(written=written, removed=removed, notes=tuple(notes), is_dry=True)
    if file and ours:
        notes[:0] = [stays(kept) for kept in take_back(file, without(file.settings, KEYS)) if kept.backup]
    runtime_files.carry_out(root, planned)
    return Done(written=written, removed=removed, notes=tuple(notes))


def _ours(root: str, wanted: Iterator[Planned]) -> tuple[list[Planned], list[str]]:
    """Return the units that differ from what is planned, and notes about those of another author, which stay."""
    planned = runtime_files.changes(root, wanted)
    foreign = [each.path for each in planned if runtime_files.is_foreign(root, each.path)]
    notes = [f"{path} was not written by this command, and stays as it is" for path in foreign]
    return [each for each in planned if each.path not in foreign], notes


def _shared(configured: str, driver: str) -> str:
    """Return the group's name: as configured, where that fits the driver, or the usual one. ConfigError."""
    if not configured:
        return SHARED if driver == "systemd" else SHARED_PATH
    if configured.startswith("/") is (driver == "systemd"):
        right = SHARED if driver == "systemd" else SHARED_PATH
        raise ConfigError(
            f"shared_slice is {configured!r}, but the cgroup driver is {driver}: write one like {right!r}"
        )
    return configured


def _asked(address: str) -> tuple[str, str]:
    """Return the engine's cgroup driver, and its name. EngineLacks on cgroup v1, where a group confines no members."""
    report: EngineReport = ask_engine(address)
    engine = report.engine
    if engine is None:
        raise EngineUnavailable(f"{report.error}; or add --driver systemd or --driver cgroupfs")
    if engine.cgroup_version == "1":
        raise EngineLacks(
            "this host has cgroup v1, where a cgroup does not confine its children: nothing was changed; boot with "
            "cgroup v2 (systemd.unified_cgroup_hierarchy=1)"
        )
    return ("systemd" if engine.cgroup_driver == "systemd" else "cgroupfs"), engine.name


def _daemon_json(args: argparse.Namespace, root: str) -> DaemonJson:
    """Return dockerd's configuration file: as given, as dockerd reports, or the usual one. ConfigError."""
    pid_file = dockerd_process.PID_FILE if root == "/" else os.path.join(root, "run/docker.pid")
    running = dockerd_process.find_dockerd(pid_file)
    if running and (parent := running.flag("cgroup-parent")):
        raise ConfigError(
            f"dockerd runs with the flag --cgroup-parent {parent}: it would not start with the same key in its file; "
            "remove the flag first"
        )
    path = args.daemon_json or (running and running.flag("config-file")) or DAEMON_JSON
    return read_daemon_json(path if root == "/" or args.daemon_json else os.path.join(root, path.lstrip("/")))
