"""The demo's compose project: bring parts of it up and down, and read their output."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compose.host.commands import HostLacks, attempt, output, quietly

NAME = "cpuset-sidecar-demo"
FOLDER = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Project:
    """`compose` are the words that start Docker Compose; `settings` fill the variables of the `file` in this folder, to
    which the files `more` add.
    """

    compose: tuple[str, ...]
    settings: dict[str, str]
    file: str = "compose.yaml"
    more: tuple[str, ...] = ()

    def up(self, *services: str, scale: str | None = None) -> None:
        """Create and start services, and nothing else; `scale` is like "noisy=2"."""
        more = ["--scale", scale] if scale else []
        self._run(
            f"start {' and '.join(services)}", "up", "-d", "--no-build", "--no-deps", "--no-recreate", *more, *services
        )

    def stop(self, service: str) -> None:
        """Stop the containers of a service, and keep them."""
        self._run(f"stop {service}", "stop", service)

    def restart(self, service: str) -> None:
        """Restart the containers of a service."""
        self._run(f"restart {service}", "restart", service)

    def down(self) -> None:
        """Remove the project, including containers and volumes."""
        self._run("take the project down", "down", "--volumes", "--remove-orphans", "--timeout", "5")

    def containers(self, service: str, *, running_only: bool = False) -> list[str]:
        """Return the full ids of a service's containers, oldest first."""
        filters = [
            f"--filter=label=com.docker.compose.{key}={value}"
            for key, value in (("project", NAME), ("service", service))
        ]
        every = [] if running_only else ["--all"]
        return output("docker", "ps", *every, "--quiet", "--no-trunc", *filters).split()[::-1]

    def lines(self, container: str) -> list[dict[str, Any]]:
        """Return what a workload wrote on its stdout: one object per line."""
        return list(_objects(attempt("docker", "logs", container).stdout))

    def ask(self, *words: str, terminal: bool = False) -> subprocess.CompletedProcess[str]:
        """Run `cpuset-sidecar ...` inside the sidecar's container."""
        sidecars = self.containers("sidecar", running_only=True)
        if not sidecars:
            return subprocess.CompletedProcess(words, 1, "", "the sidecar does not run")
        colours = ["--tty", f"--env=COLUMNS={shutil.get_terminal_size().columns}"] if terminal else []
        return attempt("docker", "exec", *colours, sidecars[0], "cpuset-sidecar", *words, timeout=30)

    def status(self, colours: bool) -> str:
        """Return the output of `cpuset-sidecar status`."""
        said = self.ask("status", terminal=colours)
        return said.stdout.rstrip() if said.returncode == 0 else "the sidecar is not ready yet"

    def is_ready(self) -> bool:
        """Return whether the sidecar answers. Raise HostLacks if it ended."""
        if self.has_failed("sidecar"):
            raise HostLacks("the sidecar ended by itself")
        return self.ask("status").returncode == 0

    def release(self) -> None:
        """Stop the sidecar and release everything: other containers regain their cpusets."""
        self.stop("sidecar")
        self._run("give everything back", "run", "--rm", "-T", "--no-deps", "sidecar", "release")

    def strangers(self) -> list[str]:
        """Return the containers on this engine, running or not, that do not belong to this project."""
        every = output("docker", "ps", "--all", "--quiet").split()
        ours = output("docker", "ps", "--all", "--quiet", f"--filter=label=com.docker.compose.project={NAME}").split()
        return [container for container in every if container not in ours]

    def has_failed(self, service: str) -> bool:
        """Return whether a container of this service ended by itself; it may have been started again."""
        form = "{{.RestartCount}} {{.State.Status}}"
        ends = [attempt("docker", "inspect", "--format", form, each).stdout for each in self.containers(service)]
        return any(not end.startswith("0 ") or "exited" in end for end in ends)

    def _run(self, what: str, *words: str) -> None:
        files = [f"--file={FOLDER / each}" for each in (self.file, *self.more)]
        # Docker Compose 1.29 is a Python program: it must not see modules of ours.
        quietly(
            what,
            [*self.compose, "--project-name", NAME, *files, *words],
            env=self.settings | {"PYTHONPATH": ""},
        )


def machine_size() -> int:
    """Return how many CPUs the engine's host has."""
    return int(output("docker", "info", "--format", "{{.NCPU}}"))


def _objects(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue  # a traceback of a workload that died: its absence will be noticed
        if isinstance(value, dict):
            yield value
