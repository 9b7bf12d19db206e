"""Churn: what users do to containers and to their host, drawn at random by one generator for every driver.

Its drivers are random histories, a daemon on a simulated engine, and a daemon on a real one. Each carries out an action
in its own way, and adds faults of its own.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Final

import msgspec

from state.cpuset import EMPTY, CPUSet
from tests.support.kinds import ContainerKind, Wanted


class Verb(enum.StrEnum):
    """What users do. Actions on a container have the names of the engine's API, where it has one."""

    CREATE = "create"
    START = "start"
    STOP = "stop"
    RESTART = "restart"
    EXIT = "exit"
    """Its program ends by itself."""
    KILL = "kill"
    REMOVE = "remove"
    PAUSE = "pause"
    UNPAUSE = "unpause"
    RENAME = "rename"
    TAMPER = "tamper"
    """Somebody pins it by hand."""
    LOAD = "load"
    """It is as busy as that from now on."""
    RESIZE = "resize"
    ACKNOWLEDGE = "acknowledge"
    """Somebody says that it has left what is leaving it."""
    DEFRAGMENT = "defragment"
    SWITCH = "switch"
    """A CPU goes offline or comes back."""


_OF_THE_HOST: Final = (Verb.CREATE, Verb.DEFRAGMENT, Verb.SWITCH)

LOADS: Final = (0.0, 0.4, 1.2, 3.5, 7.0, 12.0)


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What exists when an action is drawn."""

    containers: Sequence[str]
    """Those that something may be done to."""
    has_room: bool
    """Whether there may be one more."""
    online: CPUSet
    present: CPUSet
    """The CPUs that may be switched."""
    sizes: Sequence[int] = (1, 2, 3)
    """CPUs that a container may ask for."""


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """The probability of each action."""

    kinds: tuple[ContainerKind, ...]
    verbs: Mapping[Verb, int]


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """One action; fields that its verb does not use are empty."""

    verb: Verb
    container: str = ""
    wanted: Wanted = Wanted()
    cpus: CPUSet = EMPTY
    """To pin it to; or the CPU to switch."""
    size: int = 0
    load: float = 0.0


def acts(seed: int, scene: Callable[[], Scene], mix: Mix) -> Iterator[Act | None]:
    """Yield actions without end. Each is drawn from the scene at the time of the call; None stands for one that is
    impossible at that time.
    """
    chance, verbs, weights = Random(seed), list(mix.verbs), list(mix.verbs.values())
    while True:
        yield act(chance.choices(verbs, weights)[0], chance, scene(), mix)


def act(verb: Verb, chance: Random, scene: Scene, mix: Mix) -> Act | None:
    """Draw one of these actions; None if it is impossible."""
    if verb not in _OF_THE_HOST and not scene.containers:
        return None
    container = "" if verb in _OF_THE_HOST else chance.choice(scene.containers)
    match verb:
        case Verb.CREATE:
            if not scene.has_room:
                return None
            kind = chance.choices(mix.kinds, [each.weight for each in mix.kinds])[0]
            return Act(verb=verb, wanted=kind.drawn(chance, scene.sizes, scene.online))
        case Verb.TAMPER:
            cpus = CPUSet(cpu for cpu in scene.online if chance.random() < 0.4)
            return Act(verb=verb, container=container, cpus=cpus)
        case Verb.SWITCH:
            return Act(verb=verb, cpus=CPUSet.of(chance.choice(list(scene.present)))) if scene.present else None
        case Verb.RESIZE:
            return Act(verb=verb, container=container, size=chance.randint(1, 6))
        case Verb.LOAD:
            return Act(verb=verb, container=container, load=chance.choice(LOADS))
        case _:
            return Act(verb=verb, container=container)
