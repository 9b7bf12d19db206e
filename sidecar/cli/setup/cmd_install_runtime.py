"""`install-runtime`: set up the strict start on this host, report what changed, and undo exactly that."""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Collection, Iterator
from contextlib import nullcontext

from sidecar.api.unix_socket import NAME
from sidecar.cli.arguments import typed
from sidecar.cli.flags import add_config, next_daemons_config
from sidecar.cli.setup import docker_side, dockerd_process, podman_side
from sidecar.cli.setup.both_engines import DOCKER, PODMAN, other_engine, removed_engines, see_that_alike
from sidecar.cli.setup.docker_shims import shimmed
from sidecar.cli.setup.docker_users import Removed
from sidecar.cli.setup.install_arguments import Done, add_installing, print_done, root_of
from sidecar.cli.setup.one_at_a_time import one_at_a_time
from sidecar.cli.setup.podman_monitors import monitored
from sidecar.decide.container.start import STRICT_RUNTIME
from sidecar.failures import ConfigError, EngineUnavailable, SidecarError
from sidecar.host.install import runtime_files
from sidecar.host.install.docker_runtimes import record_missing
from sidecar.host.install.front_program import find_program
from sidecar.host.install.fronts import Front, forget_places, front_files, gone_files, passing_files, recorded_fronts
from sidecar.host.install.podman_files import directories_made, podman_gone, remove_made
from sidecar.host.install.runtime_files import Installation, Places, Planned
from sidecar.readers import duration, word
from sidecar.words.settings_text import settings_of

_DESCRIPTION = f"""Set up the strict start: an OCI runtime `{STRICT_RUNTIME}` that asks the sidecar before it creates a
container, so that the container starts on its CPUs or not at all. Only containers created with that runtime are
affected. With --default, every container of the engine's default runtime asks as well; with --wrap NAME, every one of
that runtime. dockerd reloads its configuration and is not restarted. --remove undoes this, and with --default or
--wrap only that."""

_EPILOG = """examples:
  cpuset-sidecar install-runtime --dry-run
  cpuset-sidecar install-runtime
  docker run --runtime cpuset --label cpuset.exclusive=2 ...
  cpuset-sidecar install-runtime --default --wrap nvidia
  cpuset-sidecar install-runtime --remove --default
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
        help="the engine to configure: docker, podman or auto (default: those on the host; to remove: both)",
    )
    parser.add_argument(
        "--default", action="store_true", help="every container that names no runtime asks; the real one stays behind"
    )
    parser.add_argument(
        "--wrap",
        action="append",
        default=[],
        metavar="NAME",
        help="so does every container of this runtime; repeatable",
    )
    parser.add_argument("--hook", action="store_true", help="for Podman: also a precreate hook, enabled by annotations")
    parser.add_argument("--runtime", default="auto", metavar="NAME", help="the real runtime (default: runc, else crun)")
    parser.add_argument(
        "--front",
        type=typed("--front", word("auto", "compiled", "python")),
        metavar="WHICH",
        default="auto",
        help="the program that asks: compiled or python (default: the compiled one, if this installation has it)",
    )
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
    with nullcontext() if args.dry_run else one_at_a_time(root):
        done = _remove(args, root) if args.remove else _install(args, root)
        unchanged = _why_nothing_is_removed(args, root) if args.remove else ""
    print_done(args, done, unchanged)
    return 0


def _install(args: argparse.Namespace, root: str) -> Done:
    """Check everything before the first file is written, and tell the engines last."""
    (config, whose), places = next_daemons_config(args, root), _places(args)
    program = _program(args)
    socket = args.socket or os.path.join(config.state_dir, NAME)
    state_dir = os.path.dirname(socket)
    made = Installation(
        real=runtime_files.find_real(root, args.runtime),
        python=_python(args, root, is_needed=program is None or args.hook),
        socket=socket,
        projections=config.projections,
        patience=args.patience,
        program=program,
        state_dir=state_dir if os.path.isdir(runtime_files.below(root, state_dir)) else "",
    )
    runtime_files.see_that_private(root, places)
    docker, podman = _engines(args, root)
    wanted_engines = [engine for engine, is_wanted in ((DOCKER, docker), (PODMAN, podman)) if is_wanted]
    see_that_alike(root, places, made, other_engine(args, root, places, wanted_engines))
    wanted = [*runtime_files.runtime_files(places, made)]
    in_docker = docker_side.planned(args, root, places) if docker else None
    for front in in_docker.fronts if in_docker else ():
        wanted += front_files(places, made, front)
    in_podman = podman_side.planned(args, root, places, made, has_docker=docker) if podman else None
    wanted += in_podman.planned if in_podman else ()
    planned = runtime_files.changes(root, iter(wanted))
    notes = [*([settings_of(whose)] if whose else []), *_doubts(root, made), *(in_podman.notes if in_podman else ())]
    file = in_docker.file.path if in_docker and in_docker.is_changed else ""
    written = (*(each.path for each in planned), *((file,) if file else ()))
    if args.dry_run:
        return Done(written=written, notes=tuple(notes), is_dry=True)
    runtime_files.carry_out(root, planned)
    notes += _compiled(root, places, made)
    if in_docker:
        notes += docker_side.carry_out(args, root, places, in_docker)
    notes += podman_side.told(in_podman.fronts) if in_podman else []
    return Done(written=written, notes=tuple(notes))


def _remove(args: argparse.Namespace, root: str) -> Done:
    """Remove everything of the engines that are meant, or with --default or --wrap those fronts alone. The engines are
    told first. What they share stays while another engine calls it.
    """
    places, is_all, engines = _places(args), _is_all(args), removed_engines(args)
    other = other_engine(args, root, places, engines) if is_all else ""
    notes = _users_told(args, root, places, engines, is_last=not other) if is_all else []
    if other:
        notes.append(f"{places.runtime}, its program and its settings stay: {other.capitalize()} uses them")
    in_docker, in_podman = (_fronts_meant(args, root, engine) for engine in (DOCKER, PODMAN))
    has_docker = DOCKER in engines
    written = docker_side.would_write(args, root, places, in_docker, with_strict=is_all) if has_docker else ()
    done = Removed()
    if has_docker and args.dry_run:
        done = docker_side.foreseen(args, root, places, in_docker)
    elif has_docker:
        done = docker_side.remove(args, root, places, in_docker, with_strict=is_all)
    left = podman_side.remove(root, places, in_podman)
    passing = [planned for each in (*done.passing, *left.passing) for planned in passing_files(places, each)]
    gone = [planned for each in (*done.gone, *left.gone) for planned in gone_files(places, each)]
    last = _last_files(root, places, engines, other) if is_all and done.is_told else []
    made = directories_made(root, places) if is_all and PODMAN in engines else []
    changed = runtime_files.changes(root, iter([*left.planned, *passing, *gone, *last]))
    if not args.dry_run:
        runtime_files.carry_out(root, changed)
        runtime_files.remove_directories(root, places)
        forget_places(root, (*done.gone, *left.gone))
        remove_made(root, made)
    return Done(
        written=(*written, *(each.path for each in changed if each.content is not None)),
        removed=tuple(each.path for each in changed if each.content is None),
        notes=(*notes, *done.notes, *left.notes),
        is_dry=args.dry_run,
    )


def _last_files(root: str, places: Places, engines: Collection[str], other: str) -> list[Planned]:
    """Return what goes beside the fronts, when all of these engines' goes and this other one stays, "" for none."""
    own = podman_gone(root, places) if PODMAN in engines else ()
    return [*own, *(() if other else runtime_files.shared_gone(places))]


def _is_all(args: argparse.Namespace) -> bool:
    """Return whether a removal is about more than some fronts."""
    return not (args.default or args.wrap)


def _fronts_meant(args: argparse.Namespace, root: str, engine: str) -> list[Front]:
    """Return the fronts of an engine that a removal is about. ConfigError if a record is not understood."""
    if engine not in removed_engines(args):
        return []
    places = _places(args)
    there = docker_side.fronts_there(args, root, places) if engine == DOCKER else recorded_fronts(root, places, engine)
    meant = [each for each in there if _is_all(args) or each.name in args.wrap or (args.default and each.is_default)]
    for each in meant:
        if not each.real:
            raise record_missing(places, each.name)
    return meant


def _why_nothing_is_removed(args: argparse.Namespace, root: str) -> str:
    """Return the reason if a removal changes nothing; "" for the usual one: nothing is installed."""
    if any(_fronts_meant(args, root, engine) for engine in (DOCKER, PODMAN)):
        return "the front that is left passes everything on"
    return "" if _is_all(args) else "no such front is installed"


def _program(args: argparse.Namespace) -> bytes | None:
    """Return the compiled front, None if the script is to stand there. ConfigError if it is wanted and not here."""
    found = None if args.front == "python" else find_program()
    if found is None and args.front == "compiled":
        raise ConfigError(
            "this installation has no compiled front: install a C compiler and the library yajl (gcc and libyajl-dev), "
            "and the sidecar again"
        )
    return found


def _python(args: argparse.Namespace, root: str, *, is_needed: bool) -> str:
    """Return the host's Python. Where only a later call may need it, there may be none. ConfigError."""
    try:
        return runtime_files.find_python(root, args.python)
    except ConfigError:
        if is_needed or args.python:
            raise
        return runtime_files.USUAL_PYTHON


def _users_told(
    args: argparse.Namespace, root: str, places: Places, engines: Collection[str], *, is_last: bool
) -> list[str]:
    """Return what to do about these engines' containers that use the runtime. SidecarError if one of them runs.

    An engine that is not asked, because it does not run or is not meant, has processes beside what lives. They are
    looked at where no engine will call the runtime any more (`is_last`).
    """
    using, notes, live = list[dockerd_process.User](), list[str](), set[str]()
    running = docker_side.running_dockerd(args, root) if DOCKER in engines else None
    docker = docker_side.docker_socket(args, root)
    if running and not docker:
        raise SidecarError(
            f"nothing was removed: dockerd runs (process {running.pid}), and its socket is not known, so it cannot be "
            "asked which containers need the runtime: add --engine unix://PATH"
        )
    for socket in _sockets(args, root, engines):
        try:
            using += [user for user in dockerd_process.containers(socket) if user.is_strict]
        except EngineUnavailable as error:
            if running and socket == docker:
                raise SidecarError(
                    f"nothing was removed: dockerd runs, and does not tell which containers need the runtime: {error}"
                ) from error
            notes.append(f"cannot tell whether containers use it: {error}")
    if PODMAN in engines or is_last:
        live |= {*monitored(places.runtime)}
    if not running and (DOCKER in engines or is_last):
        live |= {*shimmed(places.runtime)}
    live |= {user.name for user in using if user.is_live}
    if live:
        raise SidecarError(
            f"nothing was removed: {', '.join(sorted(live))} {'run' if len(live) > 1 else 'runs'} under the runtime "
            f"{STRICT_RUNTIME}, and cannot be stopped without it: stop and recreate "
            f"{'them' if len(live) > 1 else 'it'} with another runtime first"
        )
    if DOCKER in engines and not running:
        using += [user for user in docker_side.recorded_users(args, root, places) if user.is_strict]
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


def _sockets(args: argparse.Namespace, root: str, engines: Collection[str]) -> list[str]:
    """Return the sockets of those of these engines that can be asked, each once."""
    own = os.path.join(os.environ.get("XDG_RUNTIME_DIR") or "/run", "podman/podman.sock")
    podman = os.path.join(root, (own if os.geteuid() else "/run/podman/podman.sock").lstrip("/"))
    paths = {DOCKER: docker_side.docker_socket(args, root), PODMAN: podman}
    found = {
        os.path.realpath(path): path
        for engine, path in paths.items()
        if engine in engines and path and os.path.exists(path)
    }
    return list(found.values())


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
    if root != "/" or not os.path.exists(made.python):
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
