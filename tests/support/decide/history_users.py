"""What users do in a history: the acts of a churn, applied to a Reality, which mostly sees them."""

from __future__ import annotations

from random import Random
from typing import Final

import msgspec

from sidecar.decide.container.swarm_task import TASK_LABEL, TASK_NAME_LABEL
from sidecar.decide.facts import DefragmentRequested, Phase, ResizeRequested, ViewKind
from sidecar.decide.settings import PolicyName, Settings
from state.cpuset import CPUSet
from tests.support.churn import Act, Mix, Scene, Verb, act
from tests.support.decide import strictstarts
from tests.support.decide.glances import begin_start
from tests.support.decide.history_rules import change_rules, give_up, rename
from tests.support.decide.real import Real
from tests.support.decide.reality import Reality
from tests.support.decide.workloads import acknowledge, measure
from tests.support.kinds import ELASTIC, FIXED, ODD, Wanted

MOST: Final = 7
"""Containers at a time."""

STATIC_MIX: Final = Mix(
    kinds=(*FIXED, *ODD),
    verbs={
        Verb.CREATE: 3,
        Verb.START: 3,
        Verb.STOP: 1,
        Verb.EXIT: 1,
        Verb.RESTART: 1,
        Verb.REMOVE: 1,
        Verb.PAUSE: 1,
        Verb.UNPAUSE: 1,
        Verb.RENAME: 1,
        Verb.TAMPER: 1,
        Verb.SWITCH: 1,
    },
)

_SOMETIMES_ALIGNED: Final = msgspec.structs.replace(
    ELASTIC, weight=27, labels={**ELASTIC.labels, "cpuset.numa": (*[""] * 6, "single")}
)

DYNAMIC_MIX: Final = Mix(
    kinds=(*FIXED, *ODD, _SOMETIMES_ALIGNED),
    verbs={**STATIC_MIX.verbs, Verb.LOAD: 2, Verb.ACKNOWLEDGE: 2, Verb.RESIZE: 1, Verb.DEFRAGMENT: 1},
)

MIXED: Final = (
    Settings(policy=PolicyName.STATIC, reserved_cpus=CPUSet.of(0), shared_min=1),
    Settings(policy=PolicyName.DYNAMIC, reserved_cpus=CPUSet.of(0), shared_min=1),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=2, shared_min=3),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=2, shared_min=1, min_change=2),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1, shared_min=1, options=("strict-cpu-reservation",)),
)
"""Settings under which containers that require whole cores run beside others."""

_OPTIONS: Final = (
    *("", "full-pcpus-only", "full-pcpus-only"),
    *("full-pcpus-only,distribute-cpus-across-numa", "distribute-cpus-across-cores"),
)

_OF_CORES: Final = tuple(
    msgspec.structs.replace(kind, labels={"cpuset.options": _OPTIONS, **kind.labels}) if kind.is_exclusive else kind
    for kind in (*FIXED, *ODD)
)

_MIXES: Final = {
    PolicyName.STATIC: msgspec.structs.replace(STATIC_MIX, kinds=_OF_CORES),
    PolicyName.DYNAMIC: msgspec.structs.replace(
        DYNAMIC_MIX,
        kinds=(
            *_OF_CORES,
            msgspec.structs.replace(
                _SOMETIMES_ALIGNED, labels={**_SOMETIMES_ALIGNED.labels, "cpuset.options": _OPTIONS}
            ),
        ),
    ),
}


def mix_of(reality: Reality) -> Mix:
    """Return the probabilities of users' actions under the present policy."""
    settings = msgspec.structs.replace(reality.settings, rules=()) if reality.is_ruled else reality.settings
    if settings in MIXED:
        return _MIXES[reality.settings.policy]
    return DYNAMIC_MIX if reality.settings.policy is PolicyName.DYNAMIC else STATIC_MIX


def use(reality: Reality, verb: Verb, seed: int) -> None:
    """Let users do this, if they can, in a way drawn from the seed."""
    chance = Random(seed)
    drawn = act(verb, chance, _scene(reality), mix_of(reality))
    if drawn is None:
        return
    if drawn.container:
        _with_one(reality, reality.real_with(drawn.container), drawn, chance)
        return
    match verb:
        case Verb.CREATE:
            _create(reality, drawn.wanted, chance)
        case Verb.SWITCH:
            reality.toggle_cpu(min(drawn.cpus))
            if _is_seen(chance):
                reality.read_topology()
            if _is_seen(chance):
                reality.take_inventory()
        case Verb.DEFRAGMENT:
            reality.feed(DefragmentRequested())
        case _:
            pass


def _scene(reality: Reality) -> Scene:
    free = [real.id for real in reality.containers.values() if not real.is_locked and real is not reality.group]
    return Scene(
        containers=free,
        has_room=len(reality.containers) < MOST,
        online=reality.online,
        present=reality.machine.online,
        sizes=range(1, max(2, len(reality.online))),
    )


def _is_seen(chance: Random) -> bool:
    return chance.random() < 0.75


def _create(reality: Reality, wanted: Wanted, chance: Random) -> None:
    labels, limits = wanted.labels_of(reality.created), wanted.limits
    if labels and chance.random() < 0.15:
        labels[TASK_LABEL] = str(reality.created)
    elif labels and reality.redeploys:
        labels.update(_role(reality.created))
    if labels and reality.redeploys and reality.created % 4 == 0:
        labels["cpuset.priority"] = str(reality.created % 10)
    real = reality.create(
        labels,
        cpuset=limits.cpuset or _pin(reality, labels, chance),
        nano_cpus=limits.nano_cpus,
        quota=limits.cpu_quota,
        mems="1" if 1 in reality.machine.memory and chance.random() < 0.2 else "",
        is_member=chance.random() < 0.35,
    )
    real.asks = chance.random() < 0.25 and real.kind is ViewKind.CONTAINER
    if _is_seen(chance):
        reality.begin_look(real.key)
    if chance.random() < 0.35:
        _start(reality, real)
        reality.begin_look(real.key)


def _pin(reality: Reality, labels: dict[str, str], chance: Random) -> str:
    """Return the CPU that is mostly reserved, for some that ask by a rule: a grant moves them off it."""
    return str(min(reality.online)) if reality.is_ruled and not labels and chance.random() < 0.5 else ""


def _role(number: int) -> dict[str, str]:
    """Return the labels with which a redeploy makes its successor; none for some. They depend on the number alone."""
    kind = number % 5
    if kind < 2:
        names = ("compose.project", "compose.service", "compose.container-number")
        return {f"com.docker.{name}": str(1 + number % 3) for name in names}
    if kind == 2:
        return {TASK_LABEL: str(number), TASK_NAME_LABEL: f"service.{number % 2}.{number}"}
    return {"PODMAN_SYSTEMD_UNIT": f"{number % 2}.service"} if kind == 3 else {}


def _redeploy(reality: Reality, real: Real, chance: Random) -> None:
    """Replace a container by one that asks for the same: created first, as compose does, or last, as Podman does."""
    is_first = chance.random() < 0.6
    if not is_first:
        reality.remove(real)
        _seen(reality, real, chance)
    made = reality.create(dict(real.labels), nano_cpus=real.had.nano_cpus, quota=real.had.cpu_quota)
    if TASK_NAME_LABEL in real.labels:
        made.labels = {**real.labels, TASK_NAME_LABEL: f"{real.labels[TASK_NAME_LABEL].rpartition('.')[0]}.{made.name}"}
    made.name = made.name if is_first else real.name
    _seen(reality, made, chance)
    if is_first:
        reality.stop(real)
        _seen(reality, real, chance)
        reality.remove(real)
        _seen(reality, real, chance)
    _start(reality, made)
    _seen(reality, made, chance)


def _seen(reality: Reality, real: Real, chance: Random) -> None:
    """Look at it, mostly; the looks are delivered at once, in part."""
    if _is_seen(chance):
        reality.begin_look(real.key)
        while reality.looks and chance.random() < 0.8:
            reality.deliver_look(0)


def _start(reality: Reality, real: Real) -> None:
    if real.asks or (reality.wraps and reality.tickets % 4):
        strictstarts.hold(reality, real)
    elif not real.is_locked and not (reality.is_slow_to_start(real) and begin_start(reality, real)):
        reality.start(real)


def _with_one(reality: Reality, real: Real, drawn: Act, chance: Random) -> None:
    match drawn.verb:
        case Verb.START:
            _start(reality, real)
        case Verb.STOP:
            reality.stop(real)
        case Verb.EXIT:
            reality.stop(real, restarts=chance.random() < 0.6)
        case Verb.RESTART:
            reality.stop(real)
            _start(reality, real)
        case Verb.REMOVE if reality.redeploys and real.labels.get("cpuset.exclusive") and chance.random() < 0.5:
            _redeploy(reality, real, chance)
            return
        case Verb.REMOVE:
            reality.remove(real, by_half=chance.random() < 0.15)
        case Verb.PAUSE if reality.is_ruled and chance.random() < 0.8:
            give_up(reality, real)
            return
        case Verb.UNPAUSE | Verb.RENAME | Verb.TAMPER if reality.is_ruled and chance.random() < 0.8:
            change_rules(reality, chance.randrange(1000))
            return
        case Verb.PAUSE if real.phase is Phase.RUNNING:
            reality.pause(real)
        case Verb.UNPAUSE if real.phase is Phase.PAUSED:
            reality.unpause(real)
        case Verb.RENAME:
            rename(reality, real)
        case Verb.TAMPER:
            reality.tamper(real, drawn.cpus)
        case Verb.LOAD:
            real.demand = drawn.load
            measure(reality, real, is_throttled=chance.random() < 0.15)
            return
        case Verb.RESIZE:
            reality.feed(ResizeRequested(real.key, drawn.size))
            return
        case Verb.ACKNOWLEDGE:
            acknowledge(reality, chance.randrange(100), None if chance.random() < 0.75 else chance.randrange(3))
            return
        case _:
            return
    if chance.random() < 0.8:
        reality.begin_look(real.key)
