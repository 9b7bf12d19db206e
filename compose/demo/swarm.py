"""The demo of a swarm: three nodes on this machine, the stack of swarm.yaml on them, and the proof of what happened.

The nodes are those of the live tests: engines in namespaces of their own. Each runs the sidecar's image as a task of a
global service, and each can grant one CPU (all share this machine, and each treats it as its own). The kernel's view
of the workers' processes is compared with the promises; exit code 0 if all of them hold.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from compose.demo.project import FOLDER
from compose.host.commands import HostLacks, attempt, say
from compose.host.image import TARGETS, build_images
from sidecar.cli.setup.cmd_swarm import advertise
from sidecar.host.install.daemon_json import read_daemon_json
from tests.live.kernelview import KernelView, online
from tests.live.privateengine import NoPrivateEngine
from tests.live.swarmnodes import HOME, KIND, Node, Swarm, a_swarm

STACK = "cpus"
SECONDS = 90.0
REGISTRY = "127.0.0.1:1"  # nothing listens there: a node that asks is refused at once, and uses the image that it has


class Demo:
    """The story over one swarm. `failures` are the findings that are not true."""

    def __init__(self, swarm: Swarm) -> None:
        self.swarm = swarm
        self.kernel = KernelView()
        self.failures: list[str] = []
        self.last = str(max(online()))
        self.rest = ",".join(str(cpu) for cpu in online() if str(cpu) != self.last)
        self._began = time.monotonic()

    def play(self) -> int:
        """Play the whole story. Return the exit code."""
        self._headline("three nodes, one CPU each: advertised to the scheduler in dockerd's configuration")
        self._advertise()
        print(self._docker("node", "ls", "--format", "{{.Hostname}}  {{.Status}}  {{.ManagerStatus}}"))
        self._finding(f"every node advertises {KIND}=1", is_true=set(self.swarm.resources().values()) == {1})
        self._headline("the stack: the sidecar on every node, and a worker that asks for an exclusive CPU")
        self._deploy()
        self._until_alone(1, "the worker is alone on its CPU")
        self._headline("docker service scale cpus_worker=3: one on each node")
        self._scale(3)
        self._until_alone(3, "each worker is alone on its node's CPU")
        self._until(self._are_all_told, "each worker read this in its files")
        self._finding("each worker reads this in its projected files", is_true=True)
        self._headline("docker service scale cpus_worker=4: no node has a CPU left")
        self._scale(4)
        waiting = self._until(lambda: [each for each in self.swarm.waiting(f"{STACK}_worker") if each], "one waits")
        print(f"         the scheduler says: {waiting[0]}")
        self._finding("the fourth is not placed", is_true="insufficient resources" in waiting[0])
        self._scale(3)
        self._until_alone(3, "the three stay as they are")
        self._replacement()
        self._drain()
        self._figures()
        return 1 if self.failures else 0

    def _advertise(self) -> None:
        for node in self.swarm.nodes:
            advertise(read_daemon_json(str(node.daemon_json)), KIND, 1)
            node.stop()
            node.start()
        self._until(lambda: set(self.swarm.resources().values()) == {1}, "the scheduler knows")

    def _deploy(self) -> None:
        names = {target: f"{REGISTRY}/{tag}" for target, tag in TARGETS.items()}
        settings = {
            "SIDECAR_IMAGE": names["sidecar"],
            "WORKER_IMAGE": names["demo"],
            "DOCKER_SOCKET": f"{HOME}/engine.sock",
            "RESERVED": self.rest,
            "LISTEN": "0.0.0.0:9413",
            "SIDECAR_NETWORK": "host",
        }
        file = str(FOLDER / "swarm.yaml")
        self._docker("stack", "deploy", "--resolve-image", "never", "--compose-file", file, STACK, **settings)

    def _replacement(self) -> None:
        self._headline("a worker's process is killed: Swarm creates a new task, and the dead one does not keep its CPU")
        before = self._workers()
        name = min(before)
        began = time.monotonic()
        self.kernel.end(before[name][0])
        self._until(lambda: before[name][0] not in self._workers().get(name, []), "the engine noticed")
        self._until(lambda: self._alone() == 3, "its replacement is alone")
        passed = time.monotonic() - began
        print(f"         dead to alone again: {passed:.1f} s, of which Swarm waits 5 s before it starts a new task")
        self._show()
        [node] = [node for node in self.swarm.nodes if node.name == name]
        self._finding(
            "the dead task's container is still there", is_true=before[name][0] in node.tasks(running_only=False)
        )
        self._finding("its CPU was not kept for the ten seconds that a stopped container has", is_true=passed < 10 + 5)

    def _drain(self) -> None:
        self._headline("a node is drained: with two workers on three nodes, its own moves to the free one")
        self._scale(2)
        self._until_alone(2, "two workers")
        name = min(self._workers())
        self.swarm.set_availability(name, "drain")
        self._until(lambda: name not in self._workers(), f"{name} is empty")
        self._until_alone(2, f"both are alone, and none is on {name}")
        self.swarm.set_availability(name, "active")

    def _figures(self) -> None:
        self._headline("what Prometheus would scrape from each node")
        wanted = ("capacity_cpus", "free_cpus", "advertised_cpus")
        for node in self.swarm.nodes:
            found = self._until(partial(_metrics, node), "metrics")
            said = "  ".join(f"{each}={found.get(f'cpuset_sidecar_{each}', 0):.0f}" for each in wanted)
            print(f"         {node.name}:9413  {said}")
            self._finding(
                f"{node.name} can grant one CPU, and reports it", is_true=found["cpuset_sidecar_capacity_cpus"] == 1
            )

    def _until_alone(self, count: int, what: str) -> None:
        self._until(lambda: self._alone() == count == sum(map(len, self._workers().values())), what)
        self._show()
        self._finding(what, is_true=True)

    def _alone(self) -> int:
        """Return how many workers the kernel keeps on the granted CPU, and on no other."""
        ids = [id for found in self._workers().values() for id in found]
        return sum(1 for id in ids if str(self.kernel.allowed(id)) == self.last)

    def _are_all_told(self) -> bool:
        """Return whether each worker wrote that it read: settled, on the granted CPU."""
        for node in self.swarm.nodes:
            for id in self._workers().get(node.name, []):
                said = attempt("docker", "--host", f"unix://{node.socket_path}", "logs", id).stdout.splitlines()
                told = [line for line in map(json.loads, said) if line["kind"] == "told"]
                if not told or not told[-1]["settled"] or told[-1]["cpus"] != self.last:
                    return False
        return True

    def _workers(self) -> dict[str, list[str]]:
        """Return the running containers of the workers, by the node's name; nodes without any are left out."""
        found: dict[str, list[str]] = {}
        for node in self.swarm.nodes:
            wanted = json.dumps({"label": [f"com.docker.swarm.service.name={STACK}_worker"], "status": ["running"]})
            if ids := [each["Id"] for each in node.api.ask("GET", "containers/json", filters=wanted)]:
                found[node.name] = ids
        return found

    def _show(self) -> None:
        for name, ids in self._workers().items():
            for id in ids:
                print(f"         {name}  {id[:12]}  Cpus_allowed_list {self.kernel.allowed(id)}")

    def _scale(self, count: int) -> None:
        self._docker("service", "scale", "--detach", f"{STACK}_worker={count}")

    def _docker(self, *words: str, **settings: str) -> str:
        command = ["docker", "--host", f"unix://{self.swarm.manager.socket_path}", *words]
        done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
        if done.returncode:
            raise HostLacks(f"docker {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout.rstrip()

    def _until(self, look: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + SECONDS
        while not (found := look()):
            if time.monotonic() > deadline:
                raise HostLacks(f"this did not happen in time: {what}")
            time.sleep(0.2)
        return found

    def _headline(self, text: str) -> None:
        print(f"\n{time.monotonic() - self._began:5.1f} s  {text}", flush=True)

    def _finding(self, text: str, *, is_true: bool) -> None:
        print(f"  {'yes' if is_true else 'NO '}  {text}", flush=True)
        if not is_true:
            self.failures.append(text)


def main() -> int:
    """Return the exit code."""
    try:
        with a_swarm(3) as swarm:
            say("three engines are a swarm")
            _bring_images(swarm)
            return Demo(swarm).play()
    except (HostLacks, NoPrivateEngine) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1


def _bring_images(swarm: Swarm) -> None:
    """Build the images on the first node, and copy them to the others."""
    os.environ["DOCKER_HOST"] = f"unix://{swarm.manager.socket_path}"
    build_images()
    names = [f"{REGISTRY}/{tag}" for tag in TARGETS.values()]
    for tag, name in zip(TARGETS.values(), names, strict=True):
        subprocess.run(["docker", "tag", tag, name], check=True)
    for node in swarm.nodes[1:]:
        say(f"copying the images to {node.name}")
        with subprocess.Popen(["docker", "save", *names], stdout=subprocess.PIPE) as saving:
            load = ["docker", "--host", f"unix://{node.socket_path}", "load", "--quiet"]
            subprocess.run(load, stdin=saving.stdout, stdout=subprocess.DEVNULL, check=True)


def _metrics(node: Node) -> dict[str, float]:
    """Return the metrics without labels that the sidecar on this node serves over TCP; empty if it does not answer."""
    ask = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9413/metrics', timeout=5).read().decode())"
    done = subprocess.run(node.room.entered(sys.executable, "-c", ask), capture_output=True, text=True, check=False)
    pairs = (line.split(" ") for line in done.stdout.splitlines() if line and line[0] != "#" and "{" not in line)
    return {name: float(value) for name, value in pairs}


if __name__ == "__main__":
    sys.exit(main())
