"""The daemon as a real process: configured, started, killed, stopped, and read through its public files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from sidecar.commit.journal import read_journal
from sidecar.config.config import PREFIX
from sidecar.status.document import ContainerStatus, Status
from sidecar.status.status_file import read_status
from state.checkpoint import NAME as CHECKPOINT
from state.checkpoint import PREVIOUS, decode_checkpoint
from state.cpuset import CPUSet
from state.errors import StateError
from state.model import State
from state.projection import Projection
from state.projection import read as read_projection
from tests.live.kernelview import online
from tests.live.waiting import PATIENCE, eventually

ROOT: Final = Path(__file__).parents[2]

LAST: Final = CPUSet.of(max(online()))
"""The one CPU that is ever granted in these tests, whatever the size of the machine."""

SHIPPED: Final[tuple[str, ...]] = (
    ("setpriv", "--bounding-set", "-all,+sys_nice", "--inh-caps", "-all", "--no-new-privs")
    if os.geteuid() == 0 and shutil.which("setpriv")
    else ()
)
"""What gives it the powers that compose.yaml gives it, of all that root has: put before its command."""

REST: Final = online() - LAST
"""All others: reserved, so that shortage is one container away."""


class SidecarProcess:
    """A daemon below one folder. `configure` and `start` it; `kill` it at the end."""

    def __init__(self, folder: Path, engine_socket: str, unmanaged: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.state_dir = folder / "state"
        self.projections = folder / "projections"
        self._settings: dict[str, Any] = {
            "policy": "static",
            "reserved": str(REST),
            "engine": f"unix://{engine_socket}",
            "state_dir": str(self.state_dir),
            "projections": str(self.projections),
            "linger": "300ms",
            "reconcile_period": "500ms",
            "log_format": "json",
            "unmanaged": list(unmanaged),
        }
        settings = Path(engine_socket).with_name("daemon.json")
        if settings.exists() and (parent := json.loads(settings.read_text()).get("cgroup-parent")):
            # An engine of the tests' own, which other engines must not disturb.
            self._settings["hand"] = parent
        self.wrapper = SHIPPED
        """Put before its command: a program that starts it under other conditions."""
        self.module = "sidecar"
        """What is run of Python: `tests.live.impatient` is the same program, and waits for less long."""
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0
        folder.mkdir(parents=True, exist_ok=True)

    def configure(self, **settings: Any) -> None:
        """Change keys of its configuration file: for the next start, or for `reload`. A list of dicts is sections."""
        self._settings.update(settings)
        sections = {key: value for key, value in self._settings.items() if value and _is_sections(value)}
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in self._settings.items() if key not in sections]
        for key, tables in sections.items():
            for table in tables:
                lines += [f"[[{key}]]\n", *(f"{name} = {json.dumps(value)}\n" for name, value in table.items())]
        (self.folder / "sidecar.toml").write_text("".join(lines))

    def start(self, *, until_ready: bool = True) -> None:
        """Start it, and by default wait until it is ready and has written all projections."""
        self.configure()
        self._starts += 1
        with open(self._log_path, "wb") as log:
            self._process = subprocess.Popen(
                self._command("run"), env=_environment(), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        if until_ready:
            self.until_ready()

    def until_ready(self) -> None:
        """Wait until this start has taken its first inventory; AssertionError with its log if it ends instead."""
        try:
            eventually(lambda: self.has_logged("ready") or not self.is_running, "the sidecar is ready")
        except AssertionError as error:
            raise AssertionError(f"{error}\nlog: {self.log()[-3000:]}") from None
        assert self.is_running, f"the sidecar ended: {self.log()}"

    @property
    def is_running(self) -> bool:
        """Return whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_awake(self) -> bool:
        """Whether it runs, and is not frozen."""
        if not self.is_running:
            return False
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2][0] not in "TZX"
        except OSError:
            return False

    @property
    def pid(self) -> int:
        """The process of this start."""
        assert self._process is not None
        return self._process.pid

    def freeze(self) -> None:
        """Send SIGSTOP: it lives, and does nothing until `thaw`."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Send SIGCONT."""
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL, at any moment. Do nothing if it does not run."""
        self._send(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(30 * PATIENCE)

    def terminate(self) -> int:
        """Send SIGTERM; return its exit code."""
        self._send(signal.SIGTERM)
        assert self._process is not None
        return self._process.wait(30 * PATIENCE)

    def hang_up(self) -> None:
        """Send SIGHUP."""
        self._send(signal.SIGHUP)

    def reload(self) -> None:
        """Send SIGHUP, and wait until it has read the configuration again."""
        before = self.log().count("configuration reloaded")
        self._send(signal.SIGHUP)
        eventually(lambda: self.log().count("configuration reloaded") > before, "it was read again")

    def command(self, name: str, *args: str) -> subprocess.CompletedProcess[str]:
        """Run another command on the same configuration, such as `release` or a second `run`."""
        self.configure()
        command = [*self._command(name), *args]
        return subprocess.run(
            command, env=_environment(), cwd=ROOT, capture_output=True, text=True, timeout=90 * PATIENCE, check=False
        )

    def release(self) -> None:
        """Run `release`. AssertionError, with all that it said, if something was not restored."""
        done = self.command("release")
        assert done.returncode == 0, f"released with {done.returncode}:\n{done.stdout}{done.stderr}"

    def status(self) -> Status:
        """Return the status document."""
        return read_status(self.state_dir)

    def container(self, id: str) -> ContainerStatus | None:
        """Return the status of one container."""
        try:
            return next((each for each in self.status().containers if each.id == id), None)
        except StateError:
            return None

    def until(self, id: str, check: Callable[[ContainerStatus], object], what: str) -> ContainerStatus:
        """Wait until the status of a container fulfils the condition; return it."""

        def look() -> ContainerStatus | None:
            found = self.container(id)
            return found if found and check(found) else None

        try:
            return eventually(look, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\nstatus: {self.container(id)}\nlog: {self.log()[-3000:]}") from None

    def until_quiet(self) -> Status:
        """Wait until every container is where it should be and no order is outstanding; return the status."""

        def look() -> Status | None:
            found = self.status()
            return found if found.is_ready and all(each.is_settled for each in found.containers) else None

        try:
            return eventually(look, "everybody is settled", seconds=30)
        except AssertionError as error:
            restless = [each for each in self.status().containers if not each.is_settled]
            raise AssertionError(f"{error}\nnot settled: {restless}\nlog: {self.log()[-3000:]}") from None

    def projection(self, id: str) -> Projection | None:
        """Return the projection of a container; None if there is none."""
        try:
            return read_projection(self.projections / "by-id" / id[:12])
        except StateError:
            return None

    def books(self) -> State:
        """Read the checkpoint. StateError if it is not complete."""
        try:
            content = (self.state_dir / CHECKPOINT).read_bytes()
        except FileNotFoundError:
            # Between two renames the previous State is the newest.
            content = (self.state_dir / PREVIOUS).read_bytes()
        return decode_checkpoint(content)

    def journal(self) -> list[object]:
        """Return all lines of the journal's present file. StateError if one is incomplete."""
        return list(read_journal(self.state_dir / "journal.jsonl"))

    def log(self) -> str:
        """Return the log of this start."""
        try:
            return self._log_path.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def logged(self) -> list[Mapping[str, Any]]:
        """Return the lines of the log, except an incomplete one at the end."""
        return [
            json.loads(line)
            for line in self.log().splitlines(keepends=True)
            if line.startswith("{") and line[-1] == "\n"
        ]

    def has_logged(self, message: str) -> bool:
        """Return whether this start has logged a line that begins so."""
        return any(line["message"].startswith(message) for line in self.logged())

    @property
    def _log_path(self) -> Path:
        return self.folder / f"log-{self._starts}.jsonl"

    def command_line(self, name: str) -> list[str]:
        """Return the words that run another command on the same configuration."""
        self.configure()
        return self._command(name)

    def _command(self, name: str) -> list[str]:
        return [*self.wrapper, sys.executable, "-m", self.module, name, "--config", str(self.folder / "sidecar.toml")]

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)


def _environment() -> dict[str, str]:
    """Return our environment, without variables that would configure a sidecar."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith((PREFIX, "DOCKER_"))}
    return kept | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def all_but(prefix: str) -> tuple[str, ...]:
    """Return name patterns for every container whose name does not begin so: for an engine that the tests share."""
    cut = [prefix[:length] for length in range(len(prefix))]
    return (*(f"{start}[!{prefix[len(start)]}]*" for start in cut), *(start for start in cut if start))


def _is_sections(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)
