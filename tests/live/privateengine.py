"""A Docker engine of the tests' own: a sidecar confines all containers of its engine, and tests may kill this one.

A second `dockerd` runs well beside the system's when it has its own socket, folders and containerd namespace, and
leaves the network alone: it gets a network namespace of its own, since an engine without a bridge deletes an existing
one. That needs root and the program; where either is missing, tests that need it skip.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from tests.live.engineapi import ApiError, EngineApi
from tests.live.kernelview import KernelView
from tests.live.sidecarprocess import SHIPPED
from tests.live.waiting import eventually

_START_SECONDS: Final = 60.0
"""A killed engine first waits for its own containerd, and kills what it had left running."""

_STOP_SECONDS: Final = 60.0


class NoPrivateEngine(Exception):
    """The reason why none can run here, as a sentence."""


class PrivateEngine:
    """One engine below one new folder. Make it, `start` it; `close` removes every trace. Every method blocks."""

    program = "dockerd"
    cgroup_parent = ""
    """Its own, so that its sidecar and another engine's do not answer each other's births; "" for the default one."""

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise NoPrivateEngine("an engine of the tests' own needs root")
        if shutil.which(self.program) is None:
            raise NoPrivateEngine(f"an engine of the tests' own needs the program {self.program}, which is not here")
        # Not below pytest's folders: a socket's path is limited to 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="cpuset-engine-"))
        name = uuid.uuid4().hex[:8]
        self._namespace = f"cpuset-engine-{name}"
        if self.program == "dockerd":
            # Docker uses systemd's driver if there is systemd, and cgroup v2.
            is_systemd = Path("/run/systemd/system").is_dir() and Path("/sys/fs/cgroup/cgroup.controllers").exists()
            self.cgroup_parent = f"cpusetengine{name}.slice" if is_systemd else f"/{self._namespace}"
        self.socket_path = str(self.folder / "engine.sock")
        self.api: EngineApi = EngineApi(self.socket_path)
        self._process: subprocess.Popen[bytes] | None = None
        self._was_killed = False
        self._has_live_restore = False

    def start(self, *, live_restore: bool = False) -> None:
        """Start it, and wait until it answers. Raises NoPrivateEngine, with the end of its log, if it does not."""
        command = [
            *("unshare", "--net", "dockerd", "-H", f"unix://{self.socket_path}", "-p", f"{self.folder}/pid"),
            *("--data-root", f"{self.folder}/data", "--exec-root", f"{self.folder}/exec"),
            *("--containerd-namespace", self._namespace, "--containerd-plugins-namespace", f"{self._namespace}-p"),
            *("--bridge=none", "--iptables=false", "--ip-forward=false", "--ip-masq=false"),
            *("--config-file", str(self._configuration(live_restore))),
        ]
        try:
            self._run_until_it_answers(command)
        except NoPrivateEngine:
            # It waits for its containerd for 15 s: too short where everything is read for the first time.
            self._run_until_it_answers(command)
        self._has_live_restore = live_restore

    @property
    def is_stopped(self) -> bool:
        """Whether it does not run."""
        return self._process is None or self._process.poll() is not None

    @property
    def is_as_new(self) -> bool:
        """Whether it runs as after its first `start`: without live-restore, and not on what a killed one left."""
        return not self.is_stopped and not self._has_live_restore and not self._was_killed

    def _run_until_it_answers(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        try:
            eventually(self._answers_or_died, "the engine answers", seconds=_START_SECONDS)
        except AssertionError as error:
            raise NoPrivateEngine(f"{error}: {self._end_of_log()}") from error
        if self._process.poll() is not None:
            raise NoPrivateEngine(f"{self.program} ended with {self._process.returncode}: {self._end_of_log()}")

    def stop(self) -> None:
        """Send SIGTERM, and wait for the end. Containers stop, unless it runs with live-restore."""
        self._end(signal.SIGTERM)
        self._was_killed = False

    def kill(self) -> None:
        """Send SIGKILL. Containers run on; the next engine re-attaches them with live-restore, or else kills them."""
        self._was_killed = True
        self._end(signal.SIGKILL)

    def forget(self, ids: Iterable[str]) -> None:
        """Restart it without these containers. Docker 20.10, killed while it starts one, may wait for ever for the exit
        of a process that is gone, and then neither stops nor removes it.
        """
        self.stop()
        for id in ids:
            shutil.rmtree(f"{self.folder}/data/containers/{id}", ignore_errors=True)
        self.start()

    def freeze(self) -> None:
        """Send SIGSTOP: it accepts connections, but sends no answer until `thaw`. Containers run on."""
        self._send(signal.SIGSTOP)
        eventually(self._is_frozen, "each thread of the engine stopped")

    def thaw(self) -> None:
        """Send SIGCONT."""
        self._send(signal.SIGCONT)

    def close(self) -> None:
        """Remove every container, end the engine, and remove its folder."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ApiError, OSError):
                for each in self.api.ask("GET", "containers/json", all="1"):
                    self.api.remove(each["Id"])
            self.stop()
        self._end_what_was_left()
        self._remove_groups()
        self._unmount()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def sidecar_wrapper(self) -> tuple[str, ...]:
        """Return what is put before the command of a sidecar for this engine."""
        return SHIPPED

    def sidecar_folder(self, offered: Path) -> Path:
        """Return the folder of a sidecar for this engine; `offered` is an empty one of root's."""
        return offered

    def systemctl(self, *words: str) -> str:
        """Ask the systemd below which its containers are; return its answer."""
        done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=True, timeout=300)
        return done.stdout.strip()

    def _configuration(self, live_restore: bool) -> Path:
        """Write its own configuration, without the system's; a test's settings in it stay."""
        path = self.folder / "daemon.json"
        settings = json.loads(path.read_text()) if path.exists() else {"cgroup-parent": self.cgroup_parent}
        if settings.get("live-restore") is not live_restore:
            path.write_text(json.dumps({**settings, "live-restore": live_restore}))
        return path

    def _is_frozen(self) -> bool:
        """Return whether all threads have stopped: one that waits for a CPU stops only when it has one, and another may
        serve a request meanwhile.
        """
        try:
            states = [
                (task / "stat").read_text() for pid in self.pids() for task in Path(f"/proc/{pid}/task").iterdir()
            ]
        except OSError:
            return False
        return all(text.rpartition(")")[2].split()[0] == "T" for text in states)

    def pids(self) -> list[int]:
        """Return the processes that are the engine, the one that answers first; none if it has ended."""
        return [self._process.pid] if self._process is not None and self._process.poll() is None else []

    def _send(self, number: signal.Signals) -> None:
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        # A frozen process handles no other signal.
        self._send(signal.SIGCONT)
        ending = [Path(f"/proc/{pid}") for pid in self.pids()]
        self._send(number)
        self._process.wait(_STOP_SECONDS)
        eventually(lambda: all(map(_is_dead, ending)), "each of its processes ended", seconds=_STOP_SECONDS)
        self._await_children()

    def _await_children(self) -> None:
        """Wait for its own containerd, which dies a moment later: an engine that starts meanwhile takes it for
        alive.
        """
        note = self.folder / "exec/containerd/containerd.pid"
        with contextlib.suppress(FileNotFoundError):
            dying = Path(f"/proc/{int(note.read_text())}")
            eventually(lambda: _is_dead(dying), "containerd ended", seconds=_STOP_SECONDS)
            note.unlink(missing_ok=True)

    def _answers_or_died(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            return True
        try:
            self.api.ask("GET", "_ping")
        except (ApiError, OSError):
            return False
        return True

    def _end_of_log(self) -> str:
        lines = (self.folder / "log").read_text(errors="replace").splitlines()
        return " | ".join(lines[-3:])[-600:]

    def _end_what_was_left(self) -> None:
        """End the containers, each with a process that watches it, that a dead engine left behind."""
        kernel = KernelView()
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                words = (entry / "cmdline").read_text(errors="replace").split("\0")
                if self._namespace in words and "-id" in words:
                    os.kill(int(entry.name), signal.SIGKILL)
                    kernel.end(words[words.index("-id") + 1])

    def _remove_groups(self) -> None:
        """Remove its cgroup parent in each hierarchy; systemd removes slices itself."""
        if self.cgroup_parent.startswith("/"):
            for at in Path("/sys/fs/cgroup").glob(f"*{self.cgroup_parent}"):
                with contextlib.suppress(OSError):
                    at.rmdir()

    def _unmount(self) -> None:
        """Unmount what a killed engine left."""
        points = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for point in sorted((each for each in points if each.startswith(f"{self.folder}/")), reverse=True):
            subprocess.run(["umount", "-l", point], check=False, capture_output=True)


def _is_dead(process: Path) -> bool:
    """Return whether it ended, reaped by its parent or not yet."""
    try:
        return "\nState:\tZ" in (process / "status").read_text()
    except OSError:
        return True


P = TypeVar("P", bound="PrivateEngine")


@contextmanager
def opened(make: Callable[[], P]) -> Iterator[P | str]:
    """Run an engine for the length of the block; yields it, or the reason why there is none."""
    try:
        engine = running(make())
    except NoPrivateEngine as error:
        yield str(error)
        return
    yield engine
    with _uninterrupted():
        engine.close()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore SIGINT: a worker that is told to end gets it again after five seconds, and is ending already."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def running(engine: P) -> P:
    """Return the engine, started. Raises NoPrivateEngine."""
    try:
        engine.start()
    except NoPrivateEngine:
        engine.close()
        raise
    return engine
