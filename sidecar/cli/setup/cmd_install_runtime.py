"""`install-runtime`: set up the strict start on this host, report what changed, and undo exactly that."""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Iterator
from typing import Any

from sidecar.api.unix_socket import NAME
from sidecar.cli.arguments import typed
from sidecar.cli.flags import add_config, next_daemons_config
from sidecar.cli.setup import dockerd_process
from sidecar.cli.setup.install_arguments import Done, add_installing, print_done, root_of, stays
from sidecar.cli.setup.podman_monitors import monitored
from sidecar.decide.container.start import STRICT_RUNTIME
from sidecar.engines.address import AUTO, address
from sidecar.failures import ConfigError, EngineUnavailable, SidecarError
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
from sidecar.host.install.runtime_files import Installation, Places
from sidecar.readers import duration, word
from sidecar.words.settings_text import settings_of

_KEYS = ("runtimes", STRICT_RUNTIME)

_DESCRIPTION = f"""Set up the strict start: an OCI runtime `{STRICT_RUNTIME}` that asks the sidecar before it creates a
container, so that the container starts on its CPUs or not at all. Only containers created with that runtime are
affected. dockerd reloads its configuration and is not restarted. --remove undoes this."""

_EPILOG = """examples:
  cpuset-sidecar install-runtime --dry-run
  cpuset-sidecar install-runtime
  docker run --runtime cpuset --label cpuset.exclusive=2 ...
  cpuset-sidecar install-runtime --remove

with the sidecar in a container, from its image, with the host's file system at /host:
  docker run --rm --pid host -v /:/host -v /var/run/docker.sock:/var/run/docker.sock \\
    cpuset-sidecar install-runtime --root /host
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "install-runtime",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_installing(parser)
    parser.add_argument(
        "--for",
        dest="wanted",
        type=typed("--for", word("docker", "podman", "auto")),
        metavar="ENGINE",
        default="auto",
        help="the engine to configure: docker, podman or auto (default: those on the host)",
    )
    parser.add_argument("--hook", action="store_true", help="for Podman: also a precreate hook, enabled by annotations")
    parser.add_argument("--runtime", default="auto", metavar="NAME", help="the real runtime (default: runc, else crun)")
    parser.add_argument("--python", default="", metavar="PATH", help="the host's Python, 3.9 or newer")
    parser.add_argument("--socket", default="", metavar="PATH", help="the sidecar's api.sock, as the host sees it")
    parser.add_argument(
        "--patience",
        type=typed("--patience", duration(0, 30)),
        default=10.0,
        metavar="SECONDS",
        help="how long to wait for a sidecar that does not answer",
    )
    parser.add_argument(
        "--prefix", default=runtime_files.USUAL, metavar="DIR", help="where to install it (default: /usr/local)"
    )
    parser.add_argument("--docker-pid", default=dockerd_process.PID_FILE, metavar="PATH", help="dockerd's pid file")
    add_config(parser, ("state_dir", "projections", "engine"))
    parser.set_defaults(func=run, doing="looking at the engine and the host")


def run(args: argparse.Namespace) -> int:
    """Install or remove, and print what changed."""
    root = root_of(args)
    print_done(args, _remove(args, root) if args.remove else _install(args, root))
    return 0


def _install(args: argparse.Namespace, root: str) -> Done:
    """Check everything before the first file is written, and tell the engine last."""
    (config, whose), places = next_daemons_config(args, root), _places(args)
    made = Installation(
        real=runtime_files.find_real(root, args.runtime),
        python=runtime_files.find_python(root, args.python),
        socket=args.socket or os.path.join(config.state_dir, NAME),
        projections=config.projections,
        patience=args.patience,
    )
    runtime_files.see_that_private(root, places)
    docker, podman = _engines(args, root)
    planned = runtime_files.changes(root, runtime_files.runtime_files(places, made))
    if podman:
        planned += runtime_files.changes(root, runtime_files.podman_files(places, with_hook=args.hook))
    notes = [*([settings_of(whose)] if whose else []), *_doubts(root, made)]
    file = _daemon_json(args, root) if docker else None
    settings: dict[str, Any] = {}
    if file:
        _see_that_free(file, places)
        settings = with_value(file.settings, _KEYS, {"path": places.runtime})
        file = None if _is_ours(file, places) else file
    written = tuple(each.path for each in planned) + ((file.path,) if file else ())
    if args.dry_run:
        return Done(written=written, notes=tuple(notes), is_dry=True)
    runtime_files.carry_out(root, planned)
    notes += _compiled(root, places, made)
    if file:
        kept = write_daemon_json(file, settings)
        notes += [f"the previous {kept.path} is kept in {kept.backup}"] if kept.backup else []
    if docker:
        notes += _reloaded(args, root, wanted=True)
    if podman:
        notes.append(
            f"Podman: use --runtime {STRICT_RUNTIME} from its next call on. Its service reads its settings "
            "once: run `systemctl try-restart podman.service`, or no order reaches such a container"
        )
    return Done(written=written, notes=tuple(notes))


def _remove(args: argparse.Namespace, root: str) -> Done:
    places = _places(args)
    notes = _users_told(args, root, places)
    file = _daemon_json(args, root)
    ours = _is_ours(file, places)
    planned = runtime_files.changes(root, runtime_files.all_gone(places))
    removed = tuple(each.path for each in planned)
    written = (file.path,) if ours else ()
    if args.dry_run:
        return Done(written=written, removed=removed, notes=tuple(notes), is_dry=True)
    if ours:
        notes += _forgotten(args, root, file)
    runtime_files.carry_out(root, planned)
    runtime_files.remove_directories(root, places)
    return Done(written=written, removed=removed, notes=tuple(notes))


def _users_told(args: argparse.Namespace, root: str, places: Places) -> list[str]:
    """Return what to do about the containers that use the runtime. SidecarError if one of them runs."""
    using, notes = list[dockerd_process.User](), list[str]()
    for socket in _sockets(args, root):
        try:
            using += dockerd_process.users(socket)
        except EngineUnavailable as error:
            notes.append(f"cannot tell whether containers use it: {error}")
    live = sorted({*(user.name for user in using if user.is_live), *monitored(places.runtime)})
    if live:
        raise SidecarError(
            f"nothing was removed: {', '.join(live)} {'run' if len(live) > 1 else 'runs'} under the runtime "
            f"{STRICT_RUNTIME}, and cannot be stopped without it: stop and recreate "
            f"{'them' if len(live) > 1 else 'it'} with another runtime first"
        )
    if using:
        names = ", ".join(dict.fromkeys(user.name for user in using))
        notes.append(f"recreate with another runtime before the next start: {names}")
    return notes


def _places(args: argparse.Namespace) -> Places:
    """Return where files go: a user without root has separate containers and Podman settings."""
    prefix = os.path.abspath(args.prefix)
    if os.geteuid() == 0:
        return Places(prefix)
    return Places(
        prefix, os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "containers")
    )


def _forgotten(args: argparse.Namespace, root: str, file: DaemonJson) -> list[str]:
    """Take the runtime out of dockerd's configuration file, and have dockerd forget it.

    A missing table changes nothing at a reload, but an empty one does: so dockerd is given an empty one first.
    """
    settings = without(file.settings, _KEYS)
    notes: list[str] = []
    for step, kept in enumerate(take_back(file, settings, {_KEYS[0]: {}, **settings})):
        if not step:
            notes += _reloaded(args, root, wanted=False)
        elif kept.backup:
            notes.append(stays(kept))
    return notes


def _engines(args: argparse.Namespace, root: str) -> tuple[bool, bool]:
    """Return whether Docker, and whether Podman, is to learn of it."""
    if args.wanted != "auto":
        return args.wanted == "docker", args.wanted == "podman"
    places = ("usr/bin", "usr/sbin", "usr/local/bin", "usr/local/sbin", "bin", "sbin")
    docker, podman = (
        any(os.path.exists(os.path.join(root, place, name)) for place in places) for name in ("dockerd", "podman")
    )
    if not docker and not podman:
        raise ConfigError("there is neither dockerd nor podman on the host: add --for docker or --for podman")
    return docker, podman


def _daemon_json(args: argparse.Namespace, root: str) -> DaemonJson:
    """Return dockerd's configuration file: as given, as dockerd reports, or the usual one. ConfigError."""
    running = _running(args, root)
    path = args.daemon_json or (running and running.flag("config-file")) or DAEMON_JSON
    found = read_daemon_json(path if root == "/" or args.daemon_json else os.path.join(root, path.lstrip("/")))
    if running and (reason := dockerd_process.conflict(running.words)):
        raise ConfigError(reason)
    return found


def _see_that_free(file: DaemonJson, places: Places) -> None:
    present = value_at(file.settings, _KEYS)
    if present is not None and not _is_ours(file, places):
        raise ConfigError(
            f"{file.path} has another runtime {STRICT_RUNTIME!r}, {present!r}: nothing was changed; rename that one"
        )


def _is_ours(file: DaemonJson, places: Places) -> bool:
    present = value_at(file.settings, _KEYS)
    return isinstance(present, dict) and present.get("path") == places.runtime


def _running(args: argparse.Namespace, root: str) -> dockerd_process.Dockerd | None:
    pid_file = args.docker_pid
    if root != "/" and pid_file == dockerd_process.PID_FILE:
        # /var/run is a link of the host's.
        pid_file = os.path.join(root, "run/docker.pid")
    return dockerd_process.find_dockerd(pid_file)


def _socket(args: argparse.Namespace, root: str) -> str:
    """Return Docker's socket; "" if none should be asked."""
    configured = next_daemons_config(args, root)[0].engine
    path = "/var/run/docker.sock" if configured == AUTO else address(configured, "the setting `engine`").path
    return path if path and args.wanted != "podman" and os.path.exists(path) else ""


def _sockets(args: argparse.Namespace, root: str) -> list[str]:
    """Return the sockets of all engines that can be asked, each once."""
    own = os.path.join(os.environ.get("XDG_RUNTIME_DIR") or "/run", "podman/podman.sock")
    podman = os.path.join(root, (own if os.geteuid() else "/run/podman/podman.sock").lstrip("/"))
    found = {os.path.realpath(path): path for path in (_socket(args, root), podman) if path and os.path.exists(path)}
    return list(found.values())


def _reloaded(args: argparse.Namespace, root: str, *, wanted: bool) -> Iterator[str]:
    """Have dockerd reload its configuration, and verify that it did."""
    running = _running(args, root)
    if running is None:
        yield "dockerd is not visible from here: it reads this at its next start, or run `systemctl reload docker`"
        return
    running.reload()
    knows = "knows" if wanted else "no longer knows"
    if not (socket := _socket(args, root)):
        yield "dockerd was told to reload its configuration; without its socket this is not verified"
    elif dockerd_process.until_known(socket, STRICT_RUNTIME, wanted=wanted):
        yield f"dockerd {knows} the runtime {STRICT_RUNTIME}, without a restart"
    else:
        raise SidecarError(
            f"dockerd was told to reload its configuration, but its list of runtimes did not change within "
            f"{dockerd_process.RELOAD_SECONDS:g} s: see its log"
        )


def _doubts(root: str, made: Installation) -> Iterator[str]:
    """Yield what will keep containers from starting, or their projections from them."""
    for path, lacks in (
        (made.socket, "no container can start with this runtime"),
        (made.projections, "no projection is mounted"),
    ):
        if not os.path.exists(path if root == "/" else os.path.join(root, path.lstrip("/"))):
            yield f"{path} is missing on the host: until the sidecar creates it, {lacks}"


def _compiled(root: str, places: Places, made: Installation) -> Iterator[str]:
    """Have the host's Python compile it, so that starts need not. Another host's Python cannot be run."""
    if root != "/":
        return
    command = [made.python, "-I", "-S", "-m", "compileall", "-q", places.library]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        yield f"{made.python} cannot be run: {error}"
        return
    if done.returncode:
        said = done.stdout + done.stderr
        raise ConfigError(f"{made.python} cannot run the runtime: {said.strip()[-300:]}: name another with --python")
