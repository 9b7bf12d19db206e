"""A swarm on this one machine: engines that are nodes, each in a network of its own, wired together by a bridge.

Every node is a `dockerd` of its own in namespaces for network, host name and mounts, which a sleeping process keeps; a
further one has the bridge. Nothing of the machine's own is touched, and all of it is gone with these processes. Tasks
use the host's network, which is the node's namespace: overlay networks would need kernel modules. The image is named
after a registry that does not exist, so that a node's request there is refused at once, and it uses its local copy.
Every node sees its own folder at `HOME`: a service that mounts the engine's socket names one path for all nodes.

The nodes share the machine's CPUs, and each treats them as its own: several nodes may grant the same CPU.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tests.live.engineapi import ApiError
from tests.live.image import ensure_image
from tests.live.privateengine import NoPrivateEngine, PrivateEngine
from tests.live.waiting import eventually

IMAGE: Final = "127.0.0.1:1/cpuset-sidecar-test"
TAG: Final = "1"
KIND: Final = "exclusive-cpu"
HOME: Final = "/mnt"
TASK_LABEL: Final = "com.docker.swarm.task.id"

_PROGRAMS: Final = ("dockerd", "ip", "mount", "nsenter", "unshare")


class Room:
    """Namespaces for network, host name and mounts, for as long as a sleeping process keeps them."""

    def __init__(self, name: str) -> None:
        command = f"hostname {name} && echo ready && exec sleep infinity"
        self._keeper = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._keeper.stdout is not None
        if self._keeper.stdout.readline() != "ready\n":
            _, complaint = self._keeper.communicate()
            raise NoPrivateEngine(f"no network namespace can be made here: {complaint.strip()}")
        self.pid = self._keeper.pid

    def entered(self, *command: str) -> list[str]:
        """Return this command, run inside."""
        return ["nsenter", "--target", str(self.pid), "--net", "--uts", "--mount", *command]

    def do(self, *command: str) -> None:
        """Run this command inside. Raises NoPrivateEngine where that does not work."""
        done = subprocess.run(self.entered(*command), capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoPrivateEngine(f"{' '.join(command)}: {done.stderr.strip()}")

    def close(self) -> None:
        """End the process; the kernel removes what was in it."""
        self._keeper.kill()
        self._keeper.communicate()


class Node(PrivateEngine):
    """One engine of the swarm, with an address on the bridge."""

    def __init__(self, number: int, bridge: Room) -> None:
        missing = [program for program in _PROGRAMS if shutil.which(program) is None]
        if missing:
            raise NoPrivateEngine(f"a swarm of the tests' own needs {', '.join(missing)}, which is not here")
        super().__init__()
        self.name = f"node{number}"
        self.address = f"10.99.0.{number}"
        self.daemon_json = self.folder / "daemon.json"
        self.room = Room(self.name)
        end = f"v{number}"
        self.room.do("mount", "--bind", str(self.folder), HOME)
        bridge.do("ip", "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", str(self.room.pid))
        bridge.do("ip", "link", "set", end, "master", "br0", "up")
        for words in (
            ("link", "set", "lo", "up"),
            ("address", "add", f"{self.address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
        ):
            self.room.do("ip", *words)

    def start(self, *, live_restore: bool = False) -> None:
        """Start it with its own configuration file, and wait until it answers. A node cannot have live-restore."""
        assert not live_restore
        if not self.daemon_json.exists():
            self.daemon_json.write_text(json.dumps({"cgroup-parent": self.cgroup_parent}))
        command = [
            *("dockerd", "-H", f"unix://{self.socket_path}", "-p", f"{self.folder}/pid"),
            *("--data-root", f"{self.folder}/data", "--exec-root", f"{self.folder}/exec"),
            *("--containerd-namespace", self._namespace, "--containerd-plugins-namespace", f"{self._namespace}-p"),
            *("--bridge=none", "--iptables=false", "--ip-forward=false", "--ip-masq=false"),
            *("--config-file", str(self.daemon_json)),
        ]
        self._run_until_it_answers(self.room.entered(*command))

    def close(self) -> None:
        """Close it like any private engine, and remove its network."""
        super().close()
        self.room.close()

    def advertised(self) -> Any:
        """Return what the engine itself reports as advertised."""
        return self.api.ask("GET", "info").get("GenericResources")

    def tasks(self, *, running_only: bool = True) -> list[str]:
        """Return the full ids of the containers that are tasks of the swarm here, oldest first."""
        filters = {"label": [TASK_LABEL]} | ({"status": ["running"]} if running_only else {})
        found = self.api.ask("GET", "containers/json", all="1", filters=json.dumps(filters))
        return [each["Id"] for each in sorted(found, key=lambda each: each["Created"])]


class Swarm:
    """The nodes; the first one manages."""

    def __init__(self, count: int) -> None:
        self._bridge: Room | None = None
        self.nodes: list[Node] = []
        try:
            self._bridge = Room("bridge")
            self._bridge.do("ip", "link", "add", "br0", "type", "bridge")
            self._bridge.do("ip", "link", "set", "br0", "up")
            for number in range(1, count + 1):
                self.nodes.append(Node(number, self._bridge))
            for node in self.nodes:
                node.start()
        except BaseException:
            self.close()
            raise

    @property
    def manager(self) -> Node:
        return self.nodes[0]

    def join(self) -> None:
        """Make one swarm of them. ApiError, NoPrivateEngine."""
        first, *others = self.nodes
        first.api.ask("POST", "swarm/init", {"AdvertiseAddr": first.address, "ListenAddr": f"{first.address}:2377"})
        token = first.api.ask("GET", "swarm")["JoinTokens"]["Worker"]
        for node in others:
            node.api.ask(
                "POST",
                "swarm/join",
                {
                    "RemoteAddrs": [f"{first.address}:2377"],
                    "JoinToken": token,
                    "AdvertiseAddr": node.address,
                    "ListenAddr": f"{node.address}:2377",
                },
            )
        eventually(lambda: self.are_ready(), "all nodes are ready", seconds=60)

    def are_ready(self) -> bool:
        """Return whether the manager calls every node ready."""
        told = self.manager.api.ask("GET", "nodes")
        return len(told) == len(self.nodes) and all(each["Status"]["State"] == "ready" for each in told)

    def bring_image(self) -> str:
        """Give every node the test image under a name that no registry serves; return that name."""
        for node in self.nodes:
            made = ensure_image(node.api)
            node.api.ask("POST", f"images/{made}/tag", repo=IMAGE, tag=TAG)
        return f"{IMAGE}:{TAG}"

    def resources(self) -> dict[str, int]:
        """Return how many exclusive CPUs the scheduler counts on each node, by the node's name."""
        found = {}
        for each in self.manager.api.ask("GET", "nodes"):
            about = each["Description"]
            specs = [one.get("DiscreteResourceSpec") or {} for one in about["Resources"].get("GenericResources") or []]
            found[about["Hostname"]] = sum(spec["Value"] for spec in specs if spec.get("Kind") == KIND)
        return found

    def set_availability(self, name: str, availability: str) -> None:
        """Set a node to active, pause or drain."""
        node = self._node(name)
        self._update(f"nodes/{node['ID']}", node, {**node["Spec"], "Availability": availability})

    def create(
        self, name: str, *command: str, replicas: int = 1, reserve: int = 1, labels: Mapping[str, str] | None = None
    ) -> str:
        """Create a service whose tasks reserve this many exclusive CPUs and ask for them by label; return its id."""
        resources = [{"DiscreteResourceSpec": {"Kind": KIND, "Value": reserve}}] if reserve else []
        wanted = {
            "Name": name,
            "TaskTemplate": {
                "ContainerSpec": {
                    "Image": f"{IMAGE}:{TAG}",
                    "Command": list(command or ("sleep", "3600")),
                    "Labels": dict(labels or {"cpuset.exclusive": str(reserve)}),
                    "StopSignal": "SIGKILL",
                },
                "Resources": {"Reservations": {"GenericResources": resources}},
                "RestartPolicy": {"Condition": "any", "Delay": 0},
                "Networks": [{"Target": "host"}],
            },
            "Mode": {"Replicated": {"Replicas": replicas}},
        }
        return str(self.manager.api.ask("POST", "services/create", wanted)["ID"])

    def scale(self, service: str, replicas: int) -> None:
        """Set the number of tasks of a service."""
        found = self.manager.api.ask("GET", f"services/{service}")
        self._update(f"services/{service}", found, {**found["Spec"], "Mode": {"Replicated": {"Replicas": replicas}}})

    def remove(self, service: str) -> None:
        """Remove a service, and wait until its containers are gone."""
        with contextlib.suppress(ApiError):
            self.manager.api.ask("DELETE", f"services/{service}")
        eventually(lambda: not any(node.tasks(running_only=False) for node in self.nodes), "all its tasks are gone")

    def waiting(self, service: str) -> list[str]:
        """Return why tasks of a service are not placed: the scheduler's message for each."""
        filters = json.dumps({"service": [service], "desired-state": ["running"]})
        tasks = self.manager.api.ask("GET", "tasks", filters=filters)
        return [each["Status"].get("Err", "") for each in tasks if each["Status"]["State"] == "pending"]

    def running(self) -> dict[str, list[str]]:
        """Return the running tasks, by the node's name."""
        return {node.name: node.tasks() for node in self.nodes}

    def close(self) -> None:
        """Remove every trace."""
        for node in reversed(self.nodes):
            node.close()
        if self._bridge is not None:
            self._bridge.close()

    def _node(self, name: str) -> Any:
        return next(each for each in self.manager.api.ask("GET", "nodes") if each["Description"]["Hostname"] == name)

    def _update(self, path: str, found: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
        """Update a service; the update names the version that it was made from, and is refused if another came
        first.
        """
        for attempt in range(5):
            try:
                self.manager.api.ask("POST", f"{path}/update", dict(spec), version=str(found["Version"]["Index"]))
            except ApiError as error:
                if "out of sequence" not in error.message or attempt == 4:
                    raise
                time.sleep(0.2)
                found = self.manager.api.ask("GET", path)
            else:
                return


@contextmanager
def a_swarm(count: int) -> Iterator[Swarm]:
    """Provide this many nodes in one swarm, with the test image. Raises NoPrivateEngine where that is impossible."""
    made = Swarm(count)
    try:
        try:
            made.join()
        except (ApiError, AssertionError) as error:
            raise NoPrivateEngine(f"no swarm can be made here: {error}") from error
        made.bring_image()
        yield made
    finally:
        made.close()
