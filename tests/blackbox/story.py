"""Random events of a scenario: arrivals, starts and ends, redeploys, crashes, CPUs offline, orders and reloads."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from tests.blackbox.drawn_settings import changes_of, reservations
from tests.blackbox.plain_values import Table, numbers

SPACES: Final = (0.0, 0.0, 0.005, 0.05, 0.21, 0.5, 1.0, 2.0, 4.0, 9.0)
"""Seconds between two events."""


class Story:
    """Draws the events: who is there, who was started, which CPUs are offline."""

    def __init__(
        self, rng: random.Random, machine: Table, settings: Table, containers: Sequence[Table], count: int
    ) -> None:
        """Begin without any container. `count` is the number of CPUs."""
        self._rng = rng
        self._machine = machine
        self._absent = [each["name"] for each in containers]
        self._there: list[str] = []
        self._manual = {e["name"] for e in containers if e.get("labels", {}).get("cpuset.scale") == "manual"}
        self._kept = frozenset(cpu for text in reservations(machine, count) if text[0] != "c" for cpu in numbers(text))
        self._pairs = [
            (each["name"], f"{each['name']}-new") for each in containers if not each["name"].endswith("-new")
        ]
        self._count = count
        self._offline: set[int] = set()
        self._is_down = False
        self._events: list[Table] = []
        self._at = 1.0
        self._has_hotplug = rng.random() < 0.4 and count > 3
        self._has_crashes = rng.random() < 0.4
        self._has_reloads = rng.random() < 0.4

    def told(self) -> list[Table]:
        """Return the events: about each container's arrival, then what comes; at last the sidecar runs."""
        for _ in range(self._rng.randint(3, 16)):
            self._one()
            self._at = round(self._at + self._rng.choice(SPACES), 3)
        if self._is_down:
            self._say("restart")
        return self._events

    def _say(self, do: str, **more: object) -> None:
        self._events.append({"at": self._at, "do": do, **more})

    def _one(self) -> None:
        rng = self._rng
        choices = ["arrive"] * (3 if self._absent else 0) + (
            ["stop", "start", "restart", "remove"] if self._there else []
        )
        choices += ["crash"] if self._has_crashes else []
        choices += ["hotplug"] if self._has_hotplug else []
        choices += ["defragment"] if rng.random() < 0.1 else []
        choices += ["resize"] * 2 if self._manual & set(self._there) else []
        choices += ["reload"] if self._has_reloads else []
        choices += ["release"] if self._there and rng.random() < 0.15 else []
        choices += ["redeploy"] if self._old() else []
        choices += ["replace"] if self._there and rng.random() < 0.3 else []
        what = rng.choice(choices or ["defragment"])
        if what == "arrive":
            name = rng.choice(self._absent)
            self._absent.remove(name)
            self._there.append(name)
            self._say(rng.choices(("run", "create"), (9, 1))[0], container=name)
        elif what in ("stop", "start"):
            self._say(what, container=rng.choice(self._there))
        elif what == "restart":
            name = rng.choice(self._there)
            self._say("stop", container=name)
            self._say("start", container=name)
        elif what == "remove":
            name = rng.choice(self._there)
            self._there.remove(name)
            self._absent.append(name)
            self._say("remove", container=name)
        elif what == "resize":
            name = rng.choice(sorted(self._manual & set(self._there)))
            self._say("resize", container=name, cpus=rng.randint(1, self._count))
        elif what == "redeploy":
            self._redeploy(*rng.choice(self._old()))
        elif what == "replace":
            name = rng.choice(self._there)
            self._say("remove", container=name)
            self._wait()
            self._say("run", container=name)
        elif what == "release":
            self._say("release", container=rng.choice(self._there))
        elif what == "reload":
            self._say("reload", settings=changes_of(rng, self._machine, self._count))
        elif what == "crash":
            self._is_down = not self._is_down
            self._say("crash" if self._is_down else "restart")
        elif what == "hotplug":
            self._switch()
        else:
            self._say("defragment")

    def _old(self) -> list[tuple[str, str]]:
        """Return the containers that can be replaced now, each with what replaces it."""
        both = [*self._pairs, *((new, old) for old, new in self._pairs)]
        return [(old, new) for old, new in both if old in self._there and new in self._absent]

    def _redeploy(self, old: str, new: str) -> None:
        """Create the new one, remove the old one, and start the new one, as compose does."""
        self._there.remove(old)
        self._absent.remove(new)
        self._there.append(new)
        self._absent.append(old)
        self._say("create", container=new)
        self._wait()
        self._say("remove", container=old)
        self._wait()
        self._say("start", container=new)

    def _wait(self) -> None:
        self._at = round(self._at + self._rng.choice(SPACES[2:]), 3)

    def _switch(self) -> None:
        if self._offline and self._rng.random() < 0.5:
            back = set(self._rng.sample(sorted(self._offline), self._rng.randint(1, len(self._offline))))
            self._offline -= back
            self._say("online", cpus=",".join(map(str, sorted(back))))
            return
        possible = [cpu for cpu in range(self._count) if cpu not in self._offline | self._kept]
        gone = set(self._rng.sample(possible, min(len(possible) - 1, self._rng.choice((1, 1, 1, 2, 3)))))
        if gone:
            self._offline |= gone
            self._say("offline", cpus=",".join(map(str, sorted(gone))))
