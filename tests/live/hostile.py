"""A hostile tenant on a real engine: threads that do to their own containers what was found to cost others their CPUs.

It speaks to the engine's API alone, and touches only what it created.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from random import Random
from typing import Final

from tests.live.containers import Containers
from tests.live.engineapi import ApiError, lock_held
from tests.live.kernelview import online
from tests.support.attacks import CROWD, LOOP, NAMES, UNMANAGED, Attack, rounds

GIANT: Final = 2**20
"""Characters of a label."""

MOST: Final = 12
"""Containers that a tenant has at a time."""

LOCKED_SECONDS: Final = 1.5
"""A lock that is held for longer would hold up its own removal."""

PAUSE_SECONDS: Final = 0.05

_THREADS: Final = 4


class HostileTenant:
    """Acts in rounds, in four threads, until it is told to end.

    `victim` is a name of a projection, and an id. `parent` is the cgroup of the engine's containers, "" if no container
    can be inside another. `attacks` are its acts.
    """

    def __init__(
        self,
        containers: Containers,
        chance: Random,
        victim: str,
        parent: str = "",
        attacks: Sequence[Attack] = tuple(Attack),
    ) -> None:
        self._containers = containers
        self._api = containers.api
        self._chance = chance
        self._victim = victim
        self._parent = parent
        self._attacks = attacks
        self._guard = threading.Lock()
        self._own: list[str] = []
        self._count = 0
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._act, args=(chance.random(),)) for _ in range(_THREADS)]
        self.acts: Counter[Attack] = Counter()

    def __enter__(self) -> HostileTenant:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for each in self._threads:
            each.join()

    def _act(self, seed: float) -> None:
        for attack in rounds(Random(seed), self._attacks):
            # The engine refuses some: a name in use, a container that another thread has removed.
            has_acted = True
            with suppress(ApiError, OSError, HTTPException):
                has_acted = getattr(self, f"_{attack}")() is not False
            with self._guard:
                self.acts[attack] += has_acted
            if self._over.wait(PAUSE_SECONDS):
                return

    def _run(self, labels: Mapping[str, str] | None = None, cpuset: str = "", parent: str = "") -> str:
        """Start one container more; the oldest goes if there are too many."""
        made = self._create(labels, cpuset, parent)
        self._api.act(made, "start")
        return made

    def _create(self, labels: Mapping[str, str] | None = None, cpuset: str = "", parent: str = "") -> str:
        with self._guard:
            self._count += 1
            number = self._count
        host = {"CgroupParent": parent} if parent else {}
        made = self._containers.create(f"evil-{number}", labels=labels, CpusetCpus=cpuset, **host)
        with self._guard:
            self._own.append(made)
            oldest = self._own.pop(0) if len(self._own) > MOST else ""
        if oldest:
            self._api.remove(oldest)
        return made

    def _one(self) -> str:
        with self._guard:
            if self._own:
                return self._chance.choice(self._own)
        return self._run()

    def _snapshot(self) -> list[str]:
        with self._guard:
            return list(self._own)

    def _is_placed(self, id: str) -> bool:
        """Return whether the engine's record shows CPUs that this tenant did not ask for: the sidecar's."""
        cpuset = str(self._api.inspect(id)["HostConfig"]["CpusetCpus"])
        return cpuset not in ("", str(online()))

    def _giant(self) -> None:
        self._run({"x": "a" * GIANT})

    def _lock(self) -> None:
        with lock_held(self._api, self._run()):
            self._over.wait(LOCKED_SECONDS)

    def _claim(self) -> None:
        self._run({"cpuset.projection": self._victim})

    def _repin(self) -> None:
        self._api.update(self._one(), CpusetCpus=str(online()))

    def _loop(self) -> None:
        for _ in range(LOOP):
            self._repin()

    def _rename(self) -> bool:
        """Rename one that was placed, by the engine's record or else at its birth: whoever may create a container
        with a name of the unmanaged is left alone. Return False if there is none.
        """
        placed = [each for each in self._snapshot() if self._is_placed(each)] or self._snapshot()[:1]
        if not placed:
            return False
        name = self._chance.choice([UNMANAGED, self._victim])
        self._api.ask(
            "POST", f"containers/{self._chance.choice(placed)}/rename", name=f"{self._containers.prefix}-{name}"
        )
        return True

    def _crowd(self) -> None:
        threads = [threading.Thread(target=self._quietly_run) for _ in range(CROWD)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    def _quietly_run(self) -> None:
        with suppress(ApiError, OSError, HTTPException):
            self._run()

    def _flee(self) -> None:
        self._run({"cpuset.manage": "off"}, str(online()))

    def _starve(self) -> None:
        self._create(cpuset=str(online()))

    def _exhaust(self) -> None:
        for _ in range(NAMES):
            with self._guard:
                self._count += 1
                name = f"name-{self._count}"
            made = self._containers.create(name, labels={"cpuset.projection": name})
            self._api.remove(made)

    def _nest(self) -> bool:
        if not self._parent:
            return False
        self._run(parent=f"{self._parent}/{self._one()}")
        return True
