"""The cases: who is there beside the victim, and what keeps them off its CPU; and one run of a case."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from sidecar.disturbance.account import ExclusiveCPUs
from sidecar.disturbance.disturbance_report import Disturber
from sidecar.disturbance.measuring import trace
from tests.bench.benefit.engine import unframed
from tests.bench.isolation.played_host import PlayedHost
from tests.live.image import ensure_image
from tests.live.kernelview import KernelView, online
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import SHIPPED, SidecarProcess
from tests.live.waiting import eventually

WARM: Final = 5.0
"""Seconds for which the victim runs before it counts: all that moves has moved."""

TRACED: Final = 3.0
"""Seconds for which is traced, after what counts, what runs on the victim's CPU."""

SPINNERS: Final = 4
"""Threads of the neighbour: two for each of two CPUs."""

NOT_OURS: Final = ("kernel-threads", "workqueues")
"""The kernel's own belong to the whole machine: they stay where they are."""


class Case(NamedTuple):
    """One way to keep a victim's CPU. `confines`: the sidecar confines the played host as well."""

    name: str
    with_others: bool = True
    shares: int = 1024
    is_exclusive: bool = False
    confines: bool = False


CASES: Final = (
    Case("alone on the host", with_others=False),
    Case("none"),
    Case("none, 10 x shares", shares=10240),
    Case("static, containers only", is_exclusive=True),
    Case("static, host confined", is_exclusive=True, confines=True),
)
ALONE, *_, CONFINED = (each.name for each in CASES)


class Run(NamedTuple):
    """What a victim did: how many pieces of work, and their times in microseconds. `disturbers` ran where it ran."""

    case: str
    pieces: float
    p50: float
    p99: float
    p999: float
    worst: float
    disturbers: tuple[Disturber, ...] = ()
    lost: int = 0


class Stage:
    """An engine, the host that is played, and the compiled program."""

    def __init__(
        self, engine: PrivateEngine, folder: Path, program: Path, steps: int, seconds: float, tracefs: str
    ) -> None:
        self._engine = engine
        self._folder = folder
        self._program = program
        self._steps = steps
        self._seconds = seconds
        self._tracefs = tracefs
        self._image = ensure_image(engine.api)
        self._runs = 0

    def play(self, case: Case) -> Run:
        """Play one run of a case. AssertionError if an exclusive victim is not alone before it counts."""
        self._runs += 1
        with ExitStack() as stack:
            host = stack.enter_context(PlayedHost.opened(self._program))
            sidecar = stack.enter_context(self._sidecar(case, host)) if case.is_exclusive else None
            if case.with_others:
                # The engine and the sidecar are programs of this host, too.
                host.take_in(self._engine.pids())
                host.begin()
                self._started(stack, "neighbour", "neighbour", str(SPINNERS))
            labels = {"cpuset.exclusive": "1"} if case.is_exclusive else {}
            times = (str(each) for each in (WARM, self._seconds, TRACED + 2, self._steps))
            victim = self._started(stack, "victim", "victim", *times, labels=labels, CpuShares=case.shares)
            began = time.monotonic()
            if sidecar is not None:
                eventually(lambda: _is_alone(sidecar, victim), "the victim is alone", seconds=WARM)
            assert time.monotonic() - began < WARM, "the victim counts before it is alone"
            time.sleep(began + WARM + self._seconds + 0.3 - time.monotonic())
            cpus = KernelView().allowed(victim) or online()
            told = trace((ExclusiveCPUs(victim, "victim", cpus),), {}, TRACED, tracefs=(self._tracefs,)).containers[0]
            figures = self._printed(victim)
        return Run(case.name, *figures, disturbers=told.by, lost=told.lost)

    def _started(self, stack: ExitStack, name: str, *words: str, labels: Mapping[str, str] = {}, **more: Any) -> str:
        bind = f"{self._program}:/played:ro"
        api, number = self._engine.api, self._runs
        id = api.create(f"{name}-{number}", self._image, "/played", *words, labels=dict(labels), Binds=[bind], **more)
        stack.callback(api.remove, id)
        api.act(id, "start")
        return id

    def _printed(self, id: str) -> tuple[float, float, float, float, float]:
        def words() -> list[str]:
            return unframed(self._engine.api.ask("GET", f"containers/{id}/logs", stdout="1")).split()

        eventually(lambda: len(words()) == 5, "the victim printed its figures", seconds=10)
        pieces, p50, p99, p999, worst = map(float, words())
        return pieces, p50, p99, p999, worst

    @contextmanager
    def _sidecar(self, case: Case, host: PlayedHost) -> Iterator[SidecarProcess]:
        sidecar = SidecarProcess(self._folder / f"sidecar-{self._runs}", self._engine.socket_path)
        sidecar.wrapper = (*host.entering, *SHIPPED)
        if case.confines:
            sidecar.configure(host_units="auto", host_groups=[host.path], leave=list(NOT_OURS))
        sidecar.start()
        try:
            yield sidecar
        finally:
            sidecar.terminate()
            sidecar.release()


def _is_alone(sidecar: SidecarProcess, id: str) -> bool:
    told = sidecar.container(id)
    return told is not None and told.is_alone
