"""Host: a whole daemon on a simulated engine in virtual time, and a witness of every change on either side."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Literal, TypeVar

import pytest
import trio

from sidecar import daemon
from sidecar.config.config import Config
from sidecar.decide.settings import PolicyName
from sidecar.host_ports import Kernel
from sidecar.log import Log, LogLevel
from sidecar.ports import Engine
from sidecar.projection.file_replacer import Replacer
from sidecar.projection.projections import Projections
from sidecar.simulation.model_kernel import ENGINE_GROUP
from state.checkpoint import CheckpointFile
from state.cpuset import EMPTY, CPUSet
from state.errors import StateError
from state.model import State
from state.projection import Projection, Sharing, read
from state.topology import Topology, uniform
from tests.support.engine.simulated import SimulatedEngine
from tests.support.engine.simulated_docker import EnginePace, SimulatedDocker
from tests.support.engine.simulated_kernel import SimulatedKernel
from tests.support.hand.kernel_hand import KernelHand

T = TypeVar("T")


async def inline(work: Callable[..., T], *args: Any, **options: Any) -> T:
    """Stand in for `trio.to_thread.run_sync`: a clock that jumps does not see threads."""
    await trio.lowlevel.checkpoint()
    return work(*args)


class WatchedKernel(SimulatedKernel):
    """Calls its witnesses after every change of the CPUs that a container may run on."""

    def __init__(self, machine: Topology, version: Literal[1, 2], witness: Callable[[], None]) -> None:
        super().__init__(machine, cgroup_version=version)
        self.seen = [witness]
        """What is called after each change."""

    def enter(self, container: str, cpus: CPUSet, above: str = ENGINE_GROUP) -> None:
        super().enter(container, cpus, above)
        self._tell()

    def write(self, container: str, cpus: CPUSet) -> None:
        super().write(container, cpus)
        self._tell()

    def _tell(self) -> None:
        for each in self.seen:
            each()


class Host:
    """An engine, and a daemon that can be started on it repeatedly. `broken` is what the witness saw."""

    def __init__(
        self,
        path: Path,
        patch: pytest.MonkeyPatch,
        *,
        machine: Topology | None = None,
        seed: int = 1,
        version: Literal[1, 2] = 1,
        pace: EnginePace | None = None,
        live_restore: bool = False,
        **config: Any,
    ) -> None:
        machine = machine or uniform(cores=8)
        self.path = path
        self.docker = SimulatedDocker(
            machine, chance=Random(seed), cgroup_version=version, pace=pace, live_restore=live_restore
        )
        self.docker.kernel = self.kernel = WatchedKernel(machine, version, self.see)
        self.open_hand: daemon.OpenHand | None = None
        """Opens a hand for the daemon; None for none."""
        self.engine = SimulatedEngine(self.docker)
        self.others: tuple[Engine, ...] = ()
        """Further engines of this host."""
        self.hosted: tuple[Engine, Kernel] | None = None
        """Engine and kernel as a daemon sees them, if these are not the simulated ones themselves."""
        self.config = Config(
            **{
                "policy": PolicyName.STATIC,
                "reserved": CPUSet.of(0),
                "state_dir": str(path / "state"),
                "projections": str(path / "cpus"),
                **config,
            }
        )
        self.lines = io.StringIO()
        self.broken: list[str] = []
        self.may_crash = False
        """Whether a test plants errors that the daemon contains; otherwise there must be none."""
        self.surprised: set[str] = set()
        """Containers that somebody else changed: the files are allowed to learn of it afterwards."""
        patch.setattr(trio.to_thread, "run_sync", inline)
        patch.setattr(daemon, "Projections", self._watched_projections)
        patch.setattr(daemon, "random", SimpleNamespace(Random=lambda: Random(seed)))
        # Tasks run in an order drawn from the seed, so that a history that fails does so again.
        patch.setattr("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True)
        patch.setattr("trio._core._run._r", Random(seed))

    def open_hands(self) -> list[KernelHand]:
        """Have each daemon here open a hand on this kernel; return those that were opened, the newest last."""
        opened: list[KernelHand] = []

        def open_hand(engine: str) -> KernelHand:
            opened.append(KernelHand(self.kernel, engine))
            return opened[-1]

        self.open_hand = open_hand
        return opened

    @asynccontextmanager
    async def running(self) -> AsyncIterator[trio.Event]:
        """Run the daemon for the length of the block; then stop it and check its exit code, 0. Yields its `stop`."""
        stop, codes = trio.Event(), []

        async def serve() -> None:
            codes.append(await self.serve(stop))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            before = self.lines.tell()
            await self.until(lambda: " ready " in self.lines.getvalue()[before:])
            yield stop
            stop.set()
        assert codes == [0]

    async def serve(self, stop: trio.Event | None = None, *, is_release: bool = False) -> int:
        """Run the daemon; return its exit code."""
        log = Log(self.lines, level=LogLevel.DEBUG)
        kernel = self.docker.kernel
        engine, seen = self.hosted or (self.engine, kernel)
        code = await daemon.serve(
            self.config,
            log,
            engine=engine,
            others=self.others,
            kernel=seen,
            usages=kernel,
            open_hand=self.open_hand,
            stop=stop,
            is_release=is_release,
        )
        assert self.may_crash or "failed unexpectedly" not in self.lines.getvalue(), self.lines.getvalue()
        return code

    async def until(self, condition: Callable[[], object], *, seconds: float = 60) -> None:
        """Wait until the condition holds. It is seen within a virtual millisecond, or 0.5 % of the time it took."""
        began = trio.current_time()
        with trio.move_on_after(seconds):
            while not condition():  # noqa: ASYNC110 - whatever changes, on either side
                await trio.sleep(max(0.001, (trio.current_time() - began) / 200))
            return
        raise AssertionError(f"not within {seconds} s\n{self.lines.getvalue()[-3000:]}")

    async def settled(self, *containers: str) -> None:
        """Wait until these containers run on CPUs of their own, and their files say so."""
        await self.until(lambda: all(self.is_settled(each) for each in containers))

    # What is true, and what the files say.

    def is_settled(self, container: str) -> bool:
        """Return whether it runs on CPUs of its own, and its files say so."""
        told = self.told(container)
        is_told = told is not None and told.settled and told.sharing is Sharing.EXCLUSIVE
        return is_told and self.where(container) != ""

    def where(self, container: str) -> str:
        """Return the CPUs that the kernel lets it run on; "" if it does not run."""
        return str(self.docker.effective(container) or "")

    def configured(self, container: str) -> str:
        """Return the cpuset that the engine has stored."""
        return self.docker.container(container).limits.cpuset

    def told(self, container: str) -> Projection | None:
        """Return the projection in its directory by id."""
        try:
            return read(self.path / "cpus" / "by-id" / container[:12])
        except StateError:
            return None

    def file(self, container: str) -> CPUSet:
        """Return its `cpuset` file; empty if there is none."""
        try:
            return CPUSet.parse((self.path / "cpus" / "by-id" / container[:12] / "cpuset").read_text())
        except FileNotFoundError:
            return EMPTY

    def books(self) -> State:
        """Return the checkpoint on disk."""
        with CheckpointFile(self.config.state_dir) as checkpoints:
            return checkpoints.load().state or State()

    def live(self) -> list[str]:
        """Return the ids of all running containers."""
        return [id for id in self.docker.ids() if self.docker.kernel.effective(id) is not None]

    def see(self) -> None:
        """Check as the witness: settled exclusive containers are apart, and no file names a CPU that it does not
        grant.
        """
        settled: list[tuple[str, CPUSet]] = []
        for id in self.live() if self.docker.is_up else []:
            effective, told = self.docker.kernel.effective(id) or EMPTY, self.told(id)
            name = self.docker.container(id).name
            if told is None or id in self.surprised:
                continue
            # A CPU that has just gone offline is in no cpuset, and no file says so yet.
            if not (self.file(id) | told.cpus) & self.docker.kernel.online() <= effective:
                self._breaks(f"{name} is told {told.cpus} (file {self.file(id)}) and has {effective}")
            if told.settled and told.sharing is Sharing.EXCLUSIVE:
                settled.append((name, effective))
        for index, (name, cpus) in enumerate(settled):
            for other, others in settled[:index]:
                if not cpus.isdisjoint(others):
                    self._breaks(f"{name} on {cpus} and {other} on {others} are settled")

    def _breaks(self, what: str) -> None:
        self.broken.append(f"at {trio.current_time():.3f}: {what}")

    def _watched_projections(
        self, root: str, *, clock: Callable[[], float], steady: Callable[[], float], replacer: Replacer
    ) -> Projections:
        return _WatchedProjections(root, clock=clock, steady=steady, replacer=replacer, witness=self.see)


class _WatchedProjections(Projections):
    def __init__(
        self,
        root: str,
        *,
        clock: Callable[[], float],
        steady: Callable[[], float],
        replacer: Replacer,
        witness: Callable[[], None],
    ) -> None:
        super().__init__(root, clock=clock, steady=steady, replacer=replacer)
        self._witness = witness

    def write(self, container: str, names: Iterable[str], projection: Projection) -> None:
        super().write(container, names, projection)
        self._witness()

    def announce(
        self, container: str, names: Iterable[str], projection: Projection, *, grace_seconds: float | None = None
    ) -> None:
        super().announce(container, names, projection, grace_seconds=grace_seconds)
        self._witness()

    def withdraw(self, container: str, cpus: CPUSet) -> None:
        super().withdraw(container, cpus)
        self._witness()

    def withdraw_many(self, taken: Sequence[tuple[str, CPUSet]]) -> list[str]:
        left = super().withdraw_many(taken)
        self._witness()
        return left
