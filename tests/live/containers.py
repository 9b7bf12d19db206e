"""Containers of a live test: created under a prefix of their own, and all removed at its end."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final

from tests.live.engineapi import ApiError, EngineApi

SLEEP: Final = ("sleep", "3600")
"""What a container runs when the test does not say."""


class Containers:
    """Creates containers for one test; blocking, so call it from a thread in async tests."""

    def __init__(self, api: EngineApi, image: str) -> None:
        self.api = api
        self.image = image
        self.prefix = f"cpuset-test-{uuid.uuid4().hex[:8]}"
        self.made: list[str] = []

    def create(self, name: str, *command: str, labels: Mapping[str, str] | None = None, **host: Any) -> str:
        """Create one, not started, and return its full id; `name` gets the prefix, `host` has the keys of
        HostConfig.
        """
        made = self.api.create(f"{self.prefix}-{name}", self.image, *(command or SLEEP), labels=labels, **host)
        self.made.append(made)
        return made

    def run(self, name: str, *command: str, labels: Mapping[str, str] | None = None, **host: Any) -> str:
        """Create one and start it; return its full id."""
        made = self.create(name, *command, labels=labels, **host)
        self.api.act(made, "start")
        return made

    def execute(self, container: str, *command: str) -> str:
        """Run a command inside, and return what it wrote, in the engine's raw form (a terminal's: no frames)."""
        wanted = {"AttachStdout": True, "AttachStderr": True, "Tty": True, "Cmd": list(command)}
        made = self.api.ask("POST", f"containers/{container}/exec", wanted)
        answer = self.api.ask("POST", f"exec/{made['Id']}/start", {"Detach": False, "Tty": True})
        return str(answer.decode("utf-8", "replace"))

    def remove_all(self) -> None:
        """Remove everything that was created here. What fails is raised once all was tried."""
        failed: ApiError | None = None
        while self.made:
            try:
                self.api.remove(self.made.pop())
            except ApiError as error:
                failed = error
        if failed is not None:
            raise failed
