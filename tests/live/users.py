"""Users in a hurry: threads that create, start, stop, restart, kill, pause and remove their own containers."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from state.cpuset import EMPTY
from tests.live.containers import SLEEP, Containers
from tests.live.engineapi import ApiError
from tests.live.kernelview import online
from tests.live.waiting import PATIENCE
from tests.support.churn import Act, Mix, Scene, Verb, acts
from tests.support.kinds import ContainerKind, CpuLimit, Wanted

_WAITS: Final = {"cpuset.on-shortage": ("wait",)}
_FAILS: Final = ("sh", "-c", "sleep 0.4; false")

_VERBS: Final = {
    Verb.CREATE: 10,
    Verb.STOP: 1,
    Verb.START: 2,
    Verb.RESTART: 1,
    Verb.KILL: 1,
    Verb.PAUSE: 1,
    Verb.UNPAUSE: 2,
    Verb.REMOVE: 4,
}
"""Removing is what hands CPUs over, so it is the likeliest of what is done to a container."""

STATIC_MIX: Final = Mix(
    kinds=(
        ContainerKind(),
        ContainerKind(limits=(CpuLimit.NANO,)),
        ContainerKind(command=_FAILS, restarts=(True,)),
        ContainerKind(is_exclusive=True),
        ContainerKind(is_exclusive=True, labels=_WAITS),
        ContainerKind(labels={"cpuset.exclusive": ("true",), **_WAITS}, limits=(CpuLimit.NANO,)),
        ContainerKind(is_exclusive=True, limits=(CpuLimit.QUOTA,)),
        ContainerKind(is_exclusive=True, command=_FAILS, restarts=(True,)),
    ),
    verbs=_VERBS,
)
"""Plain ones, and several ways to ask for one CPU: waiting for it, with either limit, and dying again and again."""

_BRIEF: Final = {"cpuset.grace": (f"{400 * PATIENCE:.0f}ms",)}
_MANUAL: Final = {"cpuset.scale": ("manual",), **_BRIEF}

ELASTIC_MIX: Final = Mix(
    kinds=(
        ContainerKind(),
        ContainerKind(is_exclusive=True, above=(3,), labels=_BRIEF),
        ContainerKind(
            is_exclusive=True,
            above=(2,),
            labels={"cpuset.weight": ("40",), "cpuset.signal": ("HUP",), **_BRIEF},
        ),
        ContainerKind(is_exclusive=True, sizes=(2,), below=(1,), above=(2,), labels={**_WAITS, **_BRIEF}),
        ContainerKind(is_exclusive=True, sizes=(2,), below=(1,), above=(2,), labels=_MANUAL),
        ContainerKind(
            is_exclusive=True, sizes=(2,), below=(1,), above=(2,), labels={"cpuset.weight": ("20",), **_MANUAL}
        ),
        ContainerKind(is_exclusive=True, below=(0,), above=(3,), labels=_MANUAL),
        ContainerKind(
            is_exclusive=True,
            above=(2,),
            labels={"cpuset.scale": ("load",), **_BRIEF},
            command=("sh", "-c", "while :; do sleep 1; for i in 1 2 3 4 5 6 7 8 9; do :; done; done"),
        ),
        ContainerKind(is_exclusive=True, sizes=(2,)),
        ContainerKind(is_exclusive=True, labels=_WAITS),
    ),
    # Elastic containers must live for a while: for four removals, there are eight of each wish.
    verbs={**_VERBS, Verb.CREATE: 24, Verb.ACKNOWLEDGE: 8, Verb.RESIZE: 8},
)
"""For a machine with four CPUs to give: those that fill it, by weight or by order, and those who want their floors."""

_AT_ONCE: Final = 4
"""Containers of one user."""
_PAUSE_SECONDS: Final = 0.1 * PATIENCE
"""Most of the time between two actions."""


def host_config(wanted: Wanted) -> dict[str, Any]:
    """Return the container's limits and restart policy in the form of HostConfig, without absent ones."""
    limits = wanted.limits
    config = {"NanoCpus": limits.nano_cpus, "CpuQuota": limits.cpu_quota, "CpuPeriod": limits.cpu_period}
    policy = {"RestartPolicy": {"Name": "on-failure"}} if wanted.restarts else {}
    return {**{key: value for key, value in config.items() if value}, **policy}


class User(threading.Thread):
    """One user. `made` is called with each new container's id before it starts, `gone` when it is removed, and
    `touched` before any other action on it. `wishes` are further actions on a container.
    """

    def __init__(
        self,
        containers: Containers,
        seed: int,
        over: threading.Event,
        made: Callable[[str, Wanted], None],
        gone: Callable[[str], None],
        *,
        touched: Callable[[str], None],
        mix: Mix = STATIC_MIX,
        wishes: Mapping[Verb, Callable[[str, random.Random], None]] | None = None,
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
        self._wishes = dict(wishes or {})
        self._acts = acts(seed, self._scene, mix)
        self._mine: list[str] = []

    def run(self) -> None:
        """Act until the end. Wait for an engine that is down."""
        while not self._over.wait(self._rng.uniform(0, _PAUSE_SECONDS)):
            try:
                if (act := next(self._acts)) is not None:
                    self._do(act)
            except ApiError as error:
                self.answers[f"{error.status} {_without_names(error.message)}"] += 1
            except OSError:
                self.answers["no engine"] += 1

    def _scene(self) -> Scene:
        has_room = len(self._mine) < _AT_ONCE
        return Scene(containers=self._mine, has_room=has_room, online=online(), present=EMPTY, sizes=(1,))

    def _create(self, wanted: Wanted, number: int) -> None:
        command = wanted.command or SLEEP
        made = self._containers.create(
            f"{self.name}-{number}", *command, labels=wanted.labels_of(number), **host_config(wanted)
        )
        self._mine.append(made)
        self._made(made, wanted)
        if self._rng.random() < 0.5:
            self._over.wait(self._rng.uniform(0, _PAUSE_SECONDS))
        self._containers.api.act(made, "start")

    def _do(self, act: Act) -> None:
        self.actions[act.verb] += 1
        if act.verb is Verb.CREATE:
            self._create(act.wanted, self.actions[act.verb])
            return
        if act.verb in self._wishes:
            self._wishes[act.verb](act.container, self._rng)
            return
        self._touched(act.container)
        if act.verb is Verb.REMOVE:
            self._containers.api.remove(act.container)
            self._mine.remove(act.container)
            self._gone(act.container)
        else:
            grace = {"t": "0"} if act.verb in (Verb.STOP, Verb.RESTART) else {}
            self._containers.api.act(act.container, act.verb.value, **grace)


def _without_names(message: str) -> str:
    return " ".join(
        word
        for word in message.split()
        if not any(mark in word for mark in ("cpuset-test-", "/")) and not (len(word) > 40)
    )[:160]
