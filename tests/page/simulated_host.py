"""A whole daemon on a simulated engine, in real time, as a program: `python -m tests.page.simulated_host FOLDER SOCKETS
NODES CORES THREADS [KEY=VALUE ...]`. It takes commands on its standard input, a JSON list a line, and answers each.

    ["run", NAME, {LABEL: VALUE}]   create and start a container; answers its id
    ["crowd", MANY, {LABEL: VALUE}] create and start many at once
    ["stop", ID], ["start", ID], ["remove", ID], ["offline", CPUS], ["busy", ID, CPUS]
    ["daemon", "down"]              end the daemon, as a crash does; "up" starts it again
    ["engine", "down"]              the engine goes away; "up" brings it back
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import trio

from sidecar import daemon
from sidecar.config.config import Config
from sidecar.decide.settings import PolicyName
from sidecar.log import Log
from sidecar.simulation.model_limits import Limits
from state.cpuset import CPUSet
from state.topology import uniform
from tests.support.engine.simulated import SimulatedEngine
from tests.support.engine.simulated_docker import SimulatedDocker
from tests.support.engine.simulated_kernel import SimulatedKernel
from tests.support.hand.kernel_hand import KernelHand


class SimulatedHost:
    """The engine, and the daemon on it as long as it is wanted."""

    def __init__(self, folder: str, shape: list[int], options: list[str]) -> None:
        sockets, nodes, cores, threads = shape
        machine = uniform(packages=sockets, nodes=nodes, cores=cores, threads=threads)
        self.docker = SimulatedDocker(machine, chance=Random(1), cgroup_version=2)
        self.docker.kernel = self.kernel = SimulatedKernel(machine, cgroup_version=2)
        chosen = dict(each.split("=", 1) for each in options)
        fixed = {"policy": PolicyName(chosen.pop("policy", "static")), "reserved": CPUSet.of(0)}
        more: dict[str, Any] = {
            key: float(value) if key.endswith("seconds") else value for key, value in chosen.items()
        }
        self.config = Config(**{**fixed, "state_dir": f"{folder}/state", "projections": f"{folder}/cpus", **more})
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Serve until the end of the standard input."""
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._daemon)
            lines = trio.wrap_file(sys.stdin)
            while line := await lines.readline():
                told = await self._do(*json.loads(line))
                sys.stdout.write(json.dumps(told) + "\n")
                sys.stdout.flush()
            self._nursery.cancel_scope.cancel()

    async def _daemon(self) -> None:
        self._ended = trio.Event()
        with trio.CancelScope() as self._scope:
            engine = SimulatedEngine(self.docker)
            await daemon.serve(
                self.config,
                Log(sys.stderr),
                engine=engine,
                kernel=self.kernel,
                usages=self.kernel,
                open_hand=partial(KernelHand, self.kernel),
            )
        self._ended.set()

    async def _do(self, verb: str, *rest: Any) -> Any:
        assert self._nursery is not None
        match verb, rest:
            case "run", (name, labels):
                return await self.docker.run(name, Limits(), labels=labels)
            case "crowd", (many, labels):
                first = len(self.docker.ids())
                async with trio.open_nursery() as users:
                    for number in range(first, first + many):
                        users.start_soon(partial(self.docker.run, f"tenant-{number}", Limits(), labels=labels))
            case "stop" | "start" | "remove", (id,):
                await getattr(self.docker, verb)(id)
            case "busy", (id, cpus):
                self.kernel.keep_busy(id, cpus)
            case "offline", (cpus,):
                self.kernel.take_offline(CPUSet.parse(cpus))
            case "daemon", ("down",):
                self._scope.cancel()
                # It closes its connections first, and holds its locks and its port until it has ended.
                await self._ended.wait()
            case "daemon", ("up",):
                self._nursery.start_soon(self._daemon)
            case "engine", (wanted,):
                await (self.docker.come_up() if wanted == "up" else self.docker.go_down())
            case _:
                raise AssertionError(verb)
        return None


def main() -> None:
    """Serve."""
    with suppress(KeyboardInterrupt):
        trio.run(SimulatedHost(sys.argv[1], [int(each) for each in sys.argv[2:6]], sys.argv[6:]).run)


if __name__ == "__main__":
    main()
