"""A Podman of the tests' own, and the choice of the engine for live tests.

CPUSET_TESTS_ENGINE sets it: `docker`, `podman`, `rootless` (a user's own), or empty for the host's Docker. Podman has
no daemon: its service is a process that answers, and containers outlive it. It gets folders of its own, and on hosts
that still have cgroup v1 the runtime runc, since crun refuses them. Ulimits are those of this process: more may not be
allowed here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.live.engineapi import ApiError, PodmanApi
from tests.live.kernelview import KernelView
from tests.live.privateengine import NoPrivateEngine, PrivateEngine
from tests.live.waiting import PATIENCE

_VARIABLE: Final = "CPUSET_TESTS_ENGINE"

CONFIGURATION: Final = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
netns = "none"
[engine]
events_logger = "{events}"
cgroup_manager = "{manager}"
runtime = "{runtime}"
"""


def asked_engine() -> str:
    """Return the engine that the tests must run privately; "" if none is set."""
    return os.environ.get(_VARIABLE, "")


class PrivatePodman(PrivateEngine):
    """Podman below one new folder, with a service that answers. Every method blocks."""

    program = "podman"

    def __init__(self, *, events: str = "file") -> None:
        super().__init__()
        self.api = PodmanApi(self.socket_path)
        self.configuration = self.folder / "containers.conf"
        is_systemd = Path("/run/systemd/system").is_dir()
        is_v1 = Path("/sys/fs/cgroup/cpuset").is_dir()
        if is_v1 and shutil.which("runc") is None:
            raise NoPrivateEngine("Podman needs runc on a host with cgroup v1, which is not here")
        self.configuration.write_text(
            CONFIGURATION.format(
                events=events,
                manager="systemd" if is_systemd else "cgroupfs",
                runtime="runc" if is_v1 or shutil.which("crun") is None else "crun",
            )
        )

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment in which the command sees only this Podman's configuration."""
        return {**os.environ, "CONTAINERS_CONF": str(self.configuration)}

    @property
    def command(self) -> tuple[str, ...]:
        """Return the command, without service, on the same containers."""
        folders = ("--root", f"{self.folder}/root", "--runroot", f"{self.folder}/run", "--tmpdir", f"{self.folder}/tmp")
        return ("podman", *folders, "--storage-driver", "vfs")

    def run(self, *words: str) -> str:
        """Run the command, without service; return its output."""
        done = subprocess.run(
            [*self.command, *words],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120 * PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *, live_restore: bool = False) -> None:
        """Start its service, and wait until it answers. Containers survive it in any case."""
        del live_restore
        service = (*self.command, "system", "service", "--time=0", f"unix://{self.socket_path}")
        self._run_until_it_answers(service, self.environment)

    def close(self) -> None:
        """Remove every container, end the service, and remove its folder."""
        with contextlib.suppress(ApiError, OSError):
            for each in self.api.ask("GET", "containers/json", all="1"):
                self.api.remove(each["Id"])
        super().close()

    def _await_children(self) -> None:
        """Do nothing: no children end with it."""

    def _end_what_was_left(self) -> None:
        """End containers that could not be removed: their watchers name this folder."""
        kernel = KernelView()
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                words = (entry / "cmdline").read_text(errors="replace").split("\0")
                if "-c" in words and any(word.startswith(f"{self.folder}/") for word in words):
                    kernel.end(words[words.index("-c") + 1])
