"""A sidecar with the dynamic policy and four CPUs to grant, and containers that record what happens to them."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sidecar.api.unix_socket import NAME as API_SOCKET
from sidecar.status.document import SharingStatus
from state.cpuset import CPUSet
from tests.live import hostpython
from tests.live.containers import SLEEP, Containers
from tests.live.followlog import FollowLog, Look, Notice, read_log
from tests.live.kernelview import KernelView, online
from tests.live.sidecarprocess import SidecarProcess
from tests.live.waiting import PATIENCE, eventually
from tests.live.watcher import Watcher

FOUR: Final = CPUSet(sorted(online())[-4:])
"""The CPUs that are granted on a stage, whatever the size of the machine. All others are reserved."""

_PAUSE: Final = 0.001 * PATIENCE
"""Seconds between two looks of a follower: a fraction of what an engine takes for an update."""

_PROGRAM: Final = Path(__file__).with_name("follower.py")


class Followed:
    """A container whose only program is a follower, seen from outside."""

    def __init__(self, id: str, name: str, log: Path) -> None:
        self.id = id
        self.name = name
        self._path = log
        self._expected: set[CPUSet] = set()
        self.unvouched: set[int] = set()
        """The generations of its file that stood when the sidecar was killed: they tell what was true then. A start
        that is under way goes on with what its engine had, and nothing puts that right before the next sidecar.
        """

    def log(self) -> FollowLog:
        """Return all that it wrote."""
        return read_log(self._path)

    def until(self, check: Callable[[Look], object], what: str) -> Look:
        """Wait until its last look fulfils the condition; return that look."""
        return self._found(lambda looks: next(filter(check, looks[-1:]), None), what)

    def until_ever(self, check: Callable[[Look], object], what: str) -> Look:
        """Wait until any of its looks fulfils the condition; return the first such."""
        return self._found(lambda looks: next(filter(check, looks), None), what)

    def _found(self, find: Callable[[Sequence[Look]], Look | None], what: str) -> Look:
        try:
            return eventually(lambda: find(self.log().looks), f"{self.name}: {what}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it last saw {self.log().looks[-1:]}") from None

    def until_on(self, count: int) -> Look:
        """Wait until it has this many CPUs, is settled, and none of them leaves."""
        return self.until(
            lambda look: look.settled and not look.leaving and len(look.cpus) == len(look.after) == count,
            f"{count} CPUs",
        )

    def be_busy(self, count: int) -> None:
        """Make this many of its children use a CPU each, if they can."""
        Path(f"{self._path}.busy").write_text(str(count))

    def unkept(self) -> list[str]:
        """Return each loss of CPUs without the promised notice, except acknowledged ones."""
        log = self.log()
        own_word = {each.acknowledged for each in log.acknowledged}
        found: list[str] = []
        for loss in log.losses():
            if not loss:
                found.append(f"{self.name} lost CPUs without notice: {log.looks}")
            elif not any(each.generation in own_word for each in loss):
                found += [f"{self.name}: {each}" for each in loss if not each.is_kept]
        return found

    def figures(self) -> list[str]:
        """Return figures of its losses, for people."""
        log = self.log()
        acknowledged = {each.acknowledged: each.at for each in log.acknowledged}
        return [_figure(self.name, each, acknowledged.get(each.generation)) for loss in log.losses() for each in loss]


class Stage:
    """The parts of a story. `sidecar` is started; everything that is created here is watched until `close`."""

    def __init__(
        self, sidecar: SidecarProcess, workloads: Containers, folder: Path, *, grantable: CPUSet = FOUR
    ) -> None:
        self.sidecar = sidecar
        self.workloads = workloads
        self.kernel = KernelView()
        self._folder = folder
        self._watcher = Watcher(sidecar.projections)
        self._followed: list[Followed] = []
        folder.mkdir()
        # A long linger: an engine may take a while between creating a container and starting it.
        sidecar.configure(policy="dynamic", reserved=str(online() - grantable), cooldown="0s", linger="1m")

    def open(self) -> None:
        """Start the daemon and the watching."""
        self.sidecar.start()
        self._watcher.start()

    def kill(self) -> None:
        """Kill the daemon. From then on no file is vouched for that is as it was."""
        self.sidecar.kill()
        for each in self._followed:
            if told := self.sidecar.projection(each.id):
                each.unvouched.add(told.generation)
            self._watcher.excuse(each.id)

    def close(self) -> list[str]:
        """End the watching; return what was wrong, of all that the watcher and the followers saw."""
        self._watcher.stop()
        found = list(self._watcher.violations)
        for each in self._followed:
            found += each.log().untruths(each.unvouched) + each.unkept()
        return found

    def figures(self) -> list[str]:
        """Return the figures, for people."""
        return [line for each in self._followed for line in each.figures()]

    def run(self, name: str, *command: str, cpus: str = "", **host: Any) -> str:
        """Run a container that does not follow, exclusive if it asks for CPUs; return its id."""
        labels = {"cpuset.exclusive": cpus} if cpus else {}
        id = self.workloads.create(name, *(command or SLEEP), labels=labels, **host)
        self._watcher.watch(id)
        self.workloads.api.act(id, "start")
        return id

    def wrap(self, name: str, *command: str, labels: Mapping[str, str]) -> str:
        """Run a container whose program is started by `cpuset-sidecar exec`; return its id. It is not watched: it moves
        to fewer CPUs than its projection names.
        """
        full_name, told = self._directory(name)
        variables = {**hostpython.environment(), "CPUSET_SIDECAR_DIR": str(told)}
        settings = [f"{key}={value}" for key, value in variables.items()]
        id = self.workloads.create(
            name,
            *("busybox", "env", *settings, hostpython.python(), "-m", "sidecar", "exec", "--", *command),
            labels={**labels, "cpuset.projection": full_name},
            Binds=[*hostpython.mounts(), f"{told}:{told}"],
        )
        self.workloads.api.act(id, "start")
        return id

    def follow(self, name: str, *arguments: str, labels: Mapping[str, str]) -> Followed:
        """Run a container that follows, with its own directory mounted writable."""
        full_name, told = self._directory(name)
        log = self._folder / f"{name}.log"
        id = self.workloads.create(
            name,
            *(hostpython.python(), "-E", "-S", str(_PROGRAM), str(told), str(log)),
            *("--pause", str(_PAUSE), *arguments),
            labels={**labels, "cpuset.projection": full_name},
            Binds=[*hostpython.mounts(), f"{told}:{told}", f"{self._folder}:{self._folder}"],
        )
        self._watcher.watch(id)
        self._followed.append(Followed(id, full_name, log))
        self.workloads.api.act(id, "start")
        return self._followed[-1]

    def _directory(self, name: str) -> tuple[str, Path]:
        """Return a container's name, and its projection directory, which exists before the container."""
        full_name = f"{self.workloads.prefix}-{name}"
        told = self.sidecar.projections / "by-name" / full_name
        told.mkdir(parents=True)
        return full_name, told

    def remove(self, id: str) -> None:
        """Remove a running container."""
        self._watcher.forget(id)
        self.workloads.api.remove(id)

    def until_alone(self, id: str) -> CPUSet:
        """Wait until a container is alone on its CPUs; return these."""
        found = self.sidecar.until(id, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
        assert self.kernel.once_running(id) == found.cpus
        return found.cpus

    def counted(self) -> tuple[int, int]:
        """Return the number of forced and of acknowledged takes, from the metrics."""
        lines = dict(
            line.rsplit(" ", 1)
            for line in ask(self.sidecar.state_dir, "GET", "/metrics").splitlines()
            if not line.startswith("#")
        )
        forced, acknowledged = (float(lines[f"cpuset_sidecar_takes_{how}_total"]) for how in ("forced", "acknowledged"))
        return int(forced), int(acknowledged)


def ask(state_dir: Path, method: str, route: str, body: str = "") -> str:
    """Return the daemon's answer over its socket, whatever its status. OSError if there is no daemon."""
    connection = http.client.HTTPConnection("localhost", timeout=60)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.settimeout(60)
        made.connect(str(state_dir / API_SOCKET))
        connection.sock = made
        connection.request(method, route, body, {"content-type": "application/json"})
        return connection.getresponse().read().decode()


def _figure(name: str, notice: Notice, acknowledged_at: float | None) -> str:
    said = f"{name} lost {notice.cpus}: promised {notice.promised:.3f} s, known for {notice.seconds:.3f} s"
    said += f" (not looked for {notice.blind * 1000:.1f} ms before)"
    if acknowledged_at is not None:
        said += f", gone {(notice.gone_at - acknowledged_at) * 1000:.1f} ms after its word"
    return said
