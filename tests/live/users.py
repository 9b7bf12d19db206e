"""Users in a hurry: threads that create, start, stop, restart, kill, pause and remove containers of their own."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from tests.live.containers import SLEEP, Containers
from tests.live.engineapi import ApiError
from tests.live.waiting import PATIENCE

NANO: Final = 1_000_000_000


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A sort of container: labels, limits in the words of HostConfig, and what it runs."""

    labels: Mapping[str, str] = {}
    limits: Mapping[str, Any] = {}
    command: tuple[str, ...] = SLEEP


_ONE: Final = {"cpuset.exclusive": "1"}
_WAITING: Final = {"cpuset.on-shortage": "wait"}

KINDS: Final = (
    Kind(),
    Kind(limits={"NanoCpus": NANO // 2}),
    Kind(command=("sh", "-c", "sleep 0.4; false"), limits={"RestartPolicy": {"Name": "on-failure"}}),
    Kind(labels=_ONE),
    Kind(labels=_ONE | _WAITING),
    Kind(labels={"cpuset.exclusive": "true"} | _WAITING, limits={"NanoCpus": NANO}),
    Kind(labels=_ONE, limits={"CpuQuota": 100_000, "CpuPeriod": 100_000}),
    Kind(labels=_ONE, command=("sh", "-c", "sleep 0.4; false"), limits={"RestartPolicy": {"Name": "on-failure"}}),
)
"""Plain ones, and several ways to ask for one CPU: waiting for it, with either limit, and dying again and again."""

_BRIEF: Final = {"cpuset.grace": f"{400 * PATIENCE:.0f}ms"}
_MANUAL: Final = {"cpuset.exclusive": "2", "cpuset.min": "1", "cpuset.max": "4", "cpuset.scale": "manual"} | _BRIEF

ELASTIC_KINDS: Final = (
    Kind(),
    Kind(labels=_ONE | {"cpuset.max": "4"} | _BRIEF),
    Kind(labels=_ONE | {"cpuset.max": "3", "cpuset.weight": "40", "cpuset.signal": "HUP"} | _BRIEF),
    Kind(labels={"cpuset.exclusive": "2", "cpuset.min": "1", "cpuset.max": "4"} | _WAITING | _BRIEF),
    Kind(labels=_MANUAL),
    Kind(labels=_MANUAL | {"cpuset.weight": "20"}),
    Kind(labels=_MANUAL | {"cpuset.exclusive": "1"}),
    Kind(
        labels=_ONE | {"cpuset.max": "3", "cpuset.scale": "load"} | _BRIEF,
        command=("sh", "-c", "while :; do sleep 1; for i in 1 2 3 4 5 6 7 8 9; do :; done; done"),
    ),
    Kind(labels={"cpuset.exclusive": "2"}),
    Kind(labels=_ONE | _WAITING),
)
"""For a machine with four CPUs to give: those that fill it, by weight or by order, and those who want their floors."""

_ACTIONS: Final = ("stop", "start", "start", "restart", "kill", "pause", "unpause", "unpause", *("remove",) * 4)
"""Removing is what hands CPUs over, so it is the likeliest."""
_AT_ONCE: Final = 4
"""Containers of one user."""
_PAUSE_SECONDS: Final = 0.1 * PATIENCE
"""Most of the time between two actions."""
_WISHFUL: Final = 8
"""How often each wish is made for four removals: what grows and shrinks must live for a while."""


class User(threading.Thread):
    """One of them. `made` is called with each new container's id before it starts, `gone` when it is removed, and
    `touched` before anything else is done to it. `wishes` are what else may be done to a container, by name.
    """

    def __init__(
        self,
        containers: Containers,
        seed: int,
        over: threading.Event,
        made: Callable[[str, Kind], None],
        gone: Callable[[str], None],
        *,
        touched: Callable[[str], None],
        kinds: Sequence[Kind] = KINDS,
        wishes: Mapping[str, Callable[[str, random.Random], None]] | None = None,
    ) -> None:
        super().__init__(name=f"user{seed}", daemon=True)
        self.actions: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        """Errors of the engine, in its words, without names: most are the user's own doing."""
        self._containers = containers
        self._rng = random.Random(seed)
        self._over = over
        self._made = made
        self._gone = gone
        self._touched = touched
        self._kinds = kinds
        self._wishes = dict(wishes or {})
        self._choices = (*_ACTIONS, *(name for name in self._wishes for _ in range(_WISHFUL)))
        self._mine: list[str] = []

    def run(self) -> None:
        """Act until it is over. An engine that is away is waited for."""
        while not self._over.wait(self._rng.uniform(0, _PAUSE_SECONDS)):
            try:
                if len(self._mine) < _AT_ONCE and self._rng.random() < 0.5:
                    self._create()
                elif self._mine:
                    self._act(self._rng.choice(self._choices), self._rng.choice(self._mine))
            except ApiError as error:
                self.answers[f"{error.status} {_without_names(error.message)}"] += 1
            except OSError:
                self.answers["no engine"] += 1

    def _create(self) -> None:
        kind = self._rng.choice(self._kinds)
        name = f"{self.name}-{self.actions['create']}"
        self.actions["create"] += 1
        made = self._containers.create(name, *kind.command, labels=kind.labels, **kind.limits)
        self._mine.append(made)
        self._made(made, kind)
        if self._rng.random() < 0.5:
            self._over.wait(self._rng.uniform(0, _PAUSE_SECONDS))
        self._containers.api.act(made, "start")

    def _act(self, action: str, id: str) -> None:
        self.actions[action] += 1
        if action in self._wishes:
            self._wishes[action](id, self._rng)
            return
        self._touched(id)
        if action == "remove":
            self._containers.api.remove(id)
            self._mine.remove(id)
            self._gone(id)
        else:
            self._containers.api.act(id, action, **({"t": "0"} if action in ("stop", "restart") else {}))


def _without_names(message: str) -> str:
    return " ".join(
        word
        for word in message.split()
        if not any(mark in word for mark in ("cpuset-test-", "/")) and not (len(word) > 40)
    )[:160]
