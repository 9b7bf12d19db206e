"""A program runs already, and its engine still starts it: the engine has its lock, and tells nothing of it."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sidecar.status.document import SharingStatus
from tests.live.containers import Containers
from tests.live.kernelview import KernelView
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import PATIENCE, eventually
from tests.live.watcher import Watcher
from tests.live.watching import ONE

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(150 * PATIENCE)]

RUNTIME = "slow"
GATE = "gate"
"""As long as this file is in the engine's folder, the engine has its lock after the program began."""
LONG = 1.0 * PATIENCE
"""How long it is read what is told meanwhile, in seconds."""

WAITS = {**ONE, "cpuset.on-shortage": "wait"}


@pytest.fixture
def slow_engine(own_engine: PrivateEngine) -> PrivateEngine:
    """Return a Docker with a runtime whose starts return when the gate is gone."""
    if own_engine.api.is_podman:
        pytest.skip("a runtime of Docker")
    program = own_engine.folder / "slow-runc"
    words = f'"{shutil.which("runc")}" "$@"\ncode=$?\n'
    waits = f'while [ -e "{own_engine.folder}/{GATE}" ]; do sleep 0.1; done'
    program.write_text(f'#!/bin/sh\n{words}case " $* " in *" start "*) {waits} ;; esac\nexit $code\n')
    program.chmod(0o755)
    file = own_engine.folder / "daemon.json"
    settings = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**settings, "runtimes": {RUNTIME: {"path": str(program)}}}))
    own_engine.stop()
    own_engine.start()
    return own_engine


@contextmanager
def starting(engine: PrivateEngine, workloads: Containers, id: str, kernel: KernelView) -> Iterator[None]:
    """Start a container, and run the block while its program runs and its engine still starts it."""
    thread = threading.Thread(target=workloads.api.act, args=(id, "start"))
    gate = engine.folder / GATE
    gate.touch()
    thread.start()
    try:
        kernel.once_running(id)
        yield
        assert thread.is_alive(), "the start was over before the block"
    finally:
        gate.unlink()
        thread.join()


def see_that_it_has(sidecar: SidecarProcess, kernel: KernelView, id: str) -> None:
    """Read for a while, again and again, that a container has all CPUs that its file names, settled or not."""
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        told, allowed = sidecar.projection(id), kernel.allowed(id)
        if told is not None and told == sidecar.projection(id):
            assert told.cpus <= allowed


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_it_is_told_is_where_it_runs(
    slow_engine: PrivateEngine,
    sidecar: SidecarProcess,
    workloads: Containers,
    kernel: KernelView,
    *,
    is_restarted: bool,
) -> None:
    """It began in the shared pool; meanwhile a CPU comes free for it."""
    sidecar.start()
    # It shows where containers are born that name no parent, also after a restart.
    workloads.run("plain")
    owner = workloads.run("owner", labels=ONE)
    sidecar.until(owner, lambda it: it.is_alone, "alone")
    newcomer = workloads.create("newcomer", labels=WAITS, Runtime=RUNTIME)
    sidecar.until(newcomer, lambda it: it.turn == 1, "it waits")
    watcher = Watcher(sidecar.projections)
    watcher.watch(newcomer)
    watcher.start()
    try:
        with starting(slow_engine, workloads, newcomer, kernel):
            assert kernel.allowed(newcomer) == REST
            if is_restarted:
                sidecar.kill()
            workloads.api.remove(owner)
            if is_restarted:
                sidecar.start()
            sidecar.until(newcomer, lambda it: it.sharing is SharingStatus.EXCLUSIVE, "granted what came free")
            see_that_it_has(sidecar, kernel, newcomer)
        sidecar.until(newcomer, lambda it: it.is_alone, "alone")
    finally:
        watcher.stop()
    assert watcher.violations == []
    eventually(lambda: kernel.allowed(newcomer) == LAST, "it runs there")
