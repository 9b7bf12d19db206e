"""A container engine for as long as it is needed: the existing one, or one that is started here and stopped again.

1. An engine that answers is used and left as it is: DOCKER_HOST, the current Docker context, the socket.
2. A silent engine at DOCKER_HOST is an error: that engine was chosen, and no other will do.
3. No engine, but root on Debian or Ubuntu: the distribution's engine is installed if it is missing, and started.
   If systemd runs, by systemd. Otherwise as a child process on the usual socket, with files of its own (`PRIVATE`)
   and without a bridge, so that it changes neither addresses nor firewall, and nothing remains when it ends.
4. Anything else: print what to do, and stop.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from compose.host.commands import HostLacks, attempt, has, now_undisturbed, quietly, say, tail
from compose.host.composer import compose_packages
from compose.host.packages import candidate, install, installable

DEFAULT_SOCKET = Path("/var/run/docker.sock")
PRIVATE = Path("/var/lib/cpuset-sidecar-engine")
RUN = Path("/run/cpuset-sidecar-engine")
LOG = Path("/var/log/cpuset-sidecar-engine.log")
SYSTEMD = Path("/run/systemd/system")  # sd_booted(3)
CGROUPS = Path("/sys/fs/cgroup")
UNITS = ("docker.service", "docker.socket", "containerd.service")
READY_SECONDS = 60  # a first start makes keys, a network database and a graph driver: seconds on a slow disk
STOP_SECONDS = 30  # dockerd gives its containers ten seconds, twice

ADVICE = """no container engine answers, and this program cannot install one here ({why}):
    On Debian or Ubuntu:  sudo apt-get install docker.io     (or run this as root, which installs it)
    On other systems:     https://docs.docker.com/engine/install/
    An engine elsewhere:  DOCKER_HOST=unix:///path/to/docker.sock make ..."""


@dataclass(frozen=True)
class EngineFound:
    """An engine that answers. `socket` is its path as containers mount it; `started` tells if it was started here."""

    version: str
    socket: str
    started: bool


@contextmanager
def engine(*, with_compose: bool = False) -> Iterator[EngineFound]:
    """Provide an engine that answers, and restore the host afterwards. Raise HostLacks if there is none.

    With `with_compose`, Docker Compose is installed together with the engine if that has to be installed.
    """
    version, problem = probe()
    if version is not None:
        yield EngineFound(version, socket_path(), started=False)
        return
    _explain(problem)
    was_installed = has("dockerd") and has("docker")
    if not was_installed:
        if not installable():
            raise HostLacks(ADVICE.format(why="not root" if os.geteuid() else "not Debian or Ubuntu"))
        names = ["docker.io", "iptables", "ca-certificates"]
        names += ["docker-cli"] if candidate("docker-cli") else []
        install([*names, *compose_packages()] if with_compose else names, "there is no container engine")
    elif os.geteuid() != 0:
        raise HostLacks(
            "the engine is installed but not running, and only root can start it:  sudo systemctl start docker"
        )
    with _running(was_installed) as how:
        version, problem = probe()
        if version is None:
            raise HostLacks(f"the container engine was started ({how}) but does not answer: {problem}")
        say(f"engine {version} is up ({how}); it will be stopped at the end")
        yield EngineFound(version, str(DEFAULT_SOCKET), started=True)


def probe() -> tuple[str | None, str]:
    """Return the version of the engine that answers, or None and the message instead."""
    if not has("docker"):
        return None, "no docker command"
    done = attempt("docker", "version", "--format", "{{.Server.Version}}", timeout=20)
    version = done.stdout.strip()
    return (version, "") if done.returncode == 0 and version else (None, done.stderr.strip())


def socket_path() -> str:
    """Return the engine's Unix socket as a container on its host mounts it."""
    address = (
        os.environ.get("DOCKER_HOST")
        or attempt("docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}").stdout.strip()
    )
    # For an engine on another host only its usual place is known.
    return address.removeprefix("unix://") if address.startswith("unix://") else str(DEFAULT_SOCKET)


def _explain(problem: str) -> None:
    """Raise HostLacks if installing an engine would not help against a silent one."""
    if address := os.environ.get("DOCKER_HOST"):
        raise HostLacks(
            f"DOCKER_HOST={address} does not answer: {problem}\n    Unset it to use this host's own engine."
        )
    if "permission denied" in problem.lower():
        raise HostLacks(
            f"this user has no access to the engine: run this as root (sudo), or join the group docker\n{tail(problem)}"
        )
    if DEFAULT_SOCKET.exists() and not has("docker"):
        raise HostLacks(
            f"an engine is at {DEFAULT_SOCKET}, but no docker command:  apt-get install docker-cli (or docker.io)"
        )


@contextmanager
def _running(was_installed: bool) -> Iterator[str]:
    if SYSTEMD.is_dir():
        with _by_systemd(was_installed):
            yield "systemd: docker.service"
    else:
        with _by_hand() as log:
            yield f"dockerd in the background, log in {log}"


@contextmanager
def _by_systemd(was_installed: bool) -> Iterator[None]:
    try:
        quietly("start the engine", ["systemctl", "start", "docker.service"])
        _wait_until_it_answers(None, "journalctl -u docker")
        yield
    finally:
        now_undisturbed()
        say("stopping the engine that was started")
        attempt("systemctl", "stop", *UNITS, timeout=2 * STOP_SECONDS)
        if not was_installed:
            # A package that was installed here must not start an engine at the next boot.
            attempt("systemctl", "disable", *UNITS)


@contextmanager
def _by_hand() -> Iterator[Path]:
    traces = _traces()
    if (RUN / "pid").exists():
        _end_leftover(RUN / "pid")
    for path in (RUN, PRIVATE):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True, exist_ok=True, mode=0o711)
    DEFAULT_SOCKET.unlink(missing_ok=True)
    command = [
        "dockerd",
        f"--host=unix://{DEFAULT_SOCKET}",
        f"--data-root={PRIVATE}",
        f"--exec-root={RUN}",
        f"--pidfile={RUN / 'pid'}",
    ]
    command += ["--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"]
    with LOG.open("wb") as sink:
        # A session of its own: Ctrl-C must reach the demo first and the engine last.
        daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True)
    try:
        _wait_until_it_answers(daemon, str(LOG))
        yield LOG
        LOG.unlink(missing_ok=True)
    finally:
        now_undisturbed()
        say("stopping the engine that was started")
        _end(daemon)
        DEFAULT_SOCKET.unlink(missing_ok=True)
        # If the file system below is not shared, dockerd mounts its folder on itself, and may leave it so.
        attempt("umount", str(PRIVATE))
        for path in (RUN, PRIVATE, *(_traces() - traces)):
            _remove(path)


def _wait_until_it_answers(daemon: subprocess.Popen[bytes] | None, log: str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while probe()[0] is None:
        if daemon is not None and daemon.poll() is not None:
            words = tail(Path(log).read_text(errors="replace"), 8)
            raise HostLacks(f"the engine ended at once ({daemon.returncode}); its log {log} says:\n{words}")
        if time.monotonic() > deadline:
            raise HostLacks(f"the engine does not answer after {READY_SECONDS} s; see {log}")
        time.sleep(0.1)


def _end(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    try:
        daemon.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        # Its containerd and shims are in the session that was made for it.
        os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait()


def _end_leftover(pidfile: Path) -> None:
    """Stop an engine whose starter was killed, if the process is still the one that was started."""
    with suppress(ValueError, OSError):
        pid = int(pidfile.read_text())
        if str(PRIVATE).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + STOP_SECONDS
            while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
                time.sleep(0.1)


def _traces() -> set[Path]:
    """Return what any engine makes outside its configured folders: sockets, its key, its containers' cgroups."""
    fixed = {Path("/run/docker"), Path("/run/containerd"), Path("/etc/docker"), Path("/etc/docker/key.json")}
    return {path for path in fixed.union([CGROUPS / "docker"], CGROUPS.glob("*/docker")) if path.exists()}


def _remove(path: Path) -> None:
    if path.is_relative_to(CGROUPS):
        with suppress(OSError):  # the kernel refuses if it has a process
            path.rmdir()
    elif path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)
