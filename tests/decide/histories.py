"""Histories: sequences of small numbers that are read as things that happen to a Reality, one after another.

The same interpreter serves Hypothesis (which shrinks the numbers), the long run from a seed, and the planted faults.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from sidecar.decide.container.swarm_task import TASK_LABEL
from sidecar.decide.facts import DefragmentRequested, OrderDelayed, ReleaseRequested, ResizeRequested
from sidecar.decide.settings import IsolatedRule, PolicyName, Settings
from sidecar.decide.world import replace
from state.cpuset import CPUSet
from state.model import NumaRule
from state.topology import Kind, Topology, uniform
from tests.decide import strictstarts
from tests.decide.laws import Breach, Law, When, breaches
from tests.decide.real import Real
from tests.decide.reality import Reality
from tests.decide.workloads import acknowledge, measure, measure_all

Op = tuple[int, int, int]
"""What happens, and two numbers that say to whom and how."""

RICH = replace(
    uniform(packages=2, cores=3, threads=2),
    isolated=CPUSet.of(1, 7, 4),
    kinds=(
        Kind("performance", 1024, CPUSet.of(0, 6, 1, 7, 3, 9, 4, 10)),
        Kind("efficient", 512, CPUSet.of(2, 8, 5, 11)),
    ),
    memory=(0, 1),
    distances={0: {0: 10, 1: 21}, 1: {0: 21, 1: 10}},
    devices={"nic": CPUSet.of(3, 4, 5, 9, 10, 11)},
)
"""A machine that has everything: two nodes with memory, isolated CPUs, two kinds of cores, a device at node 1."""

MACHINES = (
    uniform(cores=2),
    uniform(cores=4, threads=2),
    uniform(packages=2, cores=2, threads=2, adjacent=True),
    uniform(packages=1, nodes=2, cores=3),
    RICH,
)

STATIC = (
    Settings(policy=PolicyName.STATIC, reserved_count=1),
    Settings(policy=PolicyName.STATIC, reserved_cpus=CPUSet.of(0)),
    Settings(policy=PolicyName.STATIC, reserved_count=1, shared_min=2),
    Settings(policy=PolicyName.STATIC, reserved_count=1, options=("strict-cpu-reservation",)),
    Settings(policy=PolicyName.STATIC, reserved_count=2, options=("full-pcpus-only",)),
    Settings(policy=PolicyName.STATIC, reserved_count=1, options=("full-pcpus-only", "strict-cpu-reservation")),
    Settings(policy=PolicyName.STATIC, reserved_count=1, options=("distribute-cpus-across-numa",)),
    Settings(policy=PolicyName.STATIC, reserved_count=1, options=("distribute-cpus-across-cores",)),
    Settings(policy=PolicyName.STATIC, reserved_count=1, options=("prefer-align-cpus-by-uncorecache",)),
    Settings(policy=PolicyName.STATIC, reserved_count=1, isolated=IsolatedRule.PREFER, numa=NumaRule.RESTRICTED),
    Settings(policy=PolicyName.STATIC, reserved_count=1, isolated=IsolatedRule.ONLY, shared_min=1),
)

DYNAMIC = (
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1),
    Settings(policy=PolicyName.DYNAMIC, reserved_cpus=CPUSet.of(0), max_moves=1),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1, shared_min=2, min_change=2),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1, options=("strict-cpu-reservation",)),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=2, options=("full-pcpus-only",)),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1, options=("full-pcpus-only", "strict-cpu-reservation")),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1, options=("distribute-cpus-across-numa",)),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1, options=("prefer-align-cpus-by-uncorecache",)),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1, isolated=IsolatedRule.PREFER, numa=NumaRule.RESTRICTED),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1, isolated=IsolatedRule.ONLY, shared_min=1),
)

GROUPED = (
    Settings(policy=PolicyName.STATIC, reserved_count=1, shared_slice="pool.slice"),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1, shared_slice="pool.slice"),
)

SETTINGS = (*STATIC, *DYNAMIC, *GROUPED)
"""What the sidecar may be told, one of each kind."""

_ASTRAY = ("ineffective", "overwritten")
"""What an order comes to that the engine takes, and the kernel does not."""

_FATES = (*["ok"] * 5, *_ASTRAY, "lost-before", "lost-after", "lost-late", "failed", "failed-after")


class Broken(AssertionError):
    """Laws were broken: all that were at the first step at which any was."""

    def __init__(self, found: Sequence[Breach]) -> None:
        super().__init__("; ".join(map(str, found)))
        self.laws: frozenset[Law] = frozenset(breach.law for breach in found)


def play(machine: Topology, settings: Settings, ops: Sequence[Op]) -> Reality:
    """Play a history and check every law after every step; at the end let everything come to rest, and check that."""
    reality = Reality(machine, settings)
    for op in ops:
        _do(reality, op)
        check(reality, When.STEP)
    rest(reality)
    return reality


def check(reality: Reality, when: When) -> None:
    """Raise Broken if any of the laws that hold then is broken."""
    if found := breaches(reality, when):
        raise Broken(found)


def rest(reality: Reality) -> None:
    """Answer everything until nothing is on its way. A history that never comes to rest is a deadlock or a loop."""
    while reality.land_late():
        pass
    while strictstarts.one_goes_on(reality):
        pass
    reality.read_topology()
    if not reality.is_reached:
        reality.connect()
    reality.take_inventory()
    told = sum(1 + 2 * len(inventory.views) for inventory in reality.inventories)
    waiting = len(reality.flight) + len(reality.looks) + len(reality.retries) + len(reality.timers) + told
    reality.came_to_rest = False
    for _ in range(40 + 60 * len(reality.containers) + 3 * waiting):
        if not strictstarts.one_goes_on(reality) and not reality.go_on() and not measure_all(reality):
            reality.came_to_rest = True
            break
        check(reality, When.STEP)
    check(reality, When.REST)


def _do(reality: Reality, op: Op) -> None:
    what, who, how = op
    verbs = _DYNAMIC_VERBS if reality.settings.policy is PolicyName.DYNAMIC else _VERBS
    verbs[what % len(verbs)](reality, who, how)


def _someone(reality: Reality, who: int) -> Real | None:
    everybody = [real for real in reality.containers.values() if not real.is_locked and real is not reality.group]
    return everybody[who % len(everybody)] if everybody else None


def _labels(how: int, cpus: int) -> dict[str, str]:
    exclusive = {"cpuset.exclusive": str(1 + how % max(1, cpus - 1))}
    return [
        {},
        {},
        exclusive,
        exclusive,
        {"cpuset.exclusive": "1"},
        {"cpuset.exclusive": "1", "cpuset.on-shortage": "wait"},
        {**exclusive, "cpuset.on-shortage": "stop"},
        {"cpuset.exclusive": "1.5"},
        {"cpuset.manage": "off"},
        {**exclusive, "cpuset.numa": "single"},
        {**exclusive, "cpuset.near": "nic", "cpuset.mems": "follow"},
        {"cpuset.exclusive": "2", "cpuset.options": "efficient", "cpuset.mems": "follow"},
    ][how % 12]


def _elastic(how: int, cpus: int) -> dict[str, str]:
    """Labels of a container whose CPUs may change."""
    count = 1 + how % max(1, cpus - 1)
    labels = {"cpuset.exclusive": str(count), "cpuset.min": str(1 + how // 3 % count)}
    labels["cpuset.max"] = str(count + how // 5 % max(1, cpus))
    labels["cpuset.scale"] = ("fill", "load", "manual")[how % 3]
    labels["cpuset.weight"] = str(1 + how % 20)
    if how % 4 == 0:
        labels["cpuset.move"] = "true"
    if how % 5 == 0:
        labels["cpuset.signal"] = "HUP"
    if how % 7 == 0:
        labels["cpuset.numa"] = "single"
    if how % 6 == 0:
        labels["cpuset.on-shortage"] = "wait"
    return labels


def _create(reality: Reality, who: int, how: int) -> None:
    if len(reality.containers) >= 7:
        return
    online = list(reality.online)
    labels = _labels(how, len(online))
    if reality.settings.policy is PolicyName.DYNAMIC and who % 5 < 3:
        labels = _elastic(how, len(online))
    pinned = str(online[who % len(online)]) if how % 11 == 0 and not labels else ""
    if who % 6 == 5 and labels:
        labels = {**labels, TASK_LABEL: str(who)}
    asked = int(labels.get("cpuset.exclusive", "0").partition(".")[0] or 0)
    limited = asked and "." not in labels["cpuset.exclusive"]
    nano = asked * 10**9 if limited and who % 3 == 0 else 0
    quota = asked * 100_000 if limited and who % 3 == 1 else 0
    mems = "1" if who % 5 == 0 and 1 in reality.machine.memory else ""
    real = reality.create(labels, cpuset=pinned, nano_cpus=nano, quota=quota, mems=mems, is_member=how % 3 == 0)
    real.asks = how % 4 == 1
    if who % 4:
        reality.begin_look(real.id)
    if who % 3 == 0:
        _begin_start(reality, real)
        reality.begin_look(real.id)


def _begin_start(reality: Reality, real: Real) -> None:
    if real.asks:
        strictstarts.hold(reality, real)
    else:
        reality.start(real)


def _start(reality: Reality, who: int, how: int) -> None:
    if real := _someone(reality, who):
        _begin_start(reality, real)
        if how % 5:
            reality.begin_look(real.id)


def _end_start(reality: Reality, who: int, how: int) -> None:
    """A start that was held goes on, fails, or is given up."""
    locked = [real for real in reality.containers.values() if real.is_locked]
    if locked and (real := locked[who % len(locked)]).verdict:
        strictstarts.go_on(reality, real, fails=how % 6 == 0)
        if how % 5:
            reality.begin_look(real.id)
    elif locked and how % 3 == 0:
        strictstarts.let_go(reality, real)


def _stop(reality: Reality, who: int, how: int) -> None:
    if real := _someone(reality, who):
        reality.stop(real, restarts=how % 3 == 0)
        if how % 5:
            reality.begin_look(real.id)


def _remove(reality: Reality, who: int, how: int) -> None:
    if real := _someone(reality, who):
        reality.remove(real, by_half=how % 7 == 0)
        if how % 5:
            reality.begin_look(real.id)


def _tamper(reality: Reality, who: int, how: int) -> None:
    if real := _someone(reality, who):
        reality.tamper(real, CPUSet.from_mask(how % (1 << len(reality.machine.online))) & reality.online)
        if how % 3:
            reality.begin_look(real.id)


def _pick(
    choose: Callable[[Reality], Sequence[object]], act: Callable[[Reality, int, int], None]
) -> Callable[..., None]:
    def verb(reality: Reality, who: int, how: int) -> None:
        if things := choose(reality):
            act(reality, who % len(things), how)

    return verb


def _toggle(reality: Reality, who: int, how: int) -> None:
    cpus = list(reality.machine.online)
    reality.toggle_cpu(cpus[who % len(cpus)])
    if how % 4:
        reality.read_topology()
    if how % 3:
        reality.take_inventory()


def _crash(reality: Reality, who: int, how: int) -> None:
    reality.crash([bool(who >> bit & 1) for bit in range(5)], is_slow=how % 3 == 0)


def _release(reality: Reality, who: int, how: int) -> None:
    """Everything is to be given back, and the daemon ends; it is started again at some time."""
    if reality.world.is_releasing:
        _crash(reality, who, how)
    elif how % 4 == 0:
        reality.feed(ReleaseRequested())


def _astray(reality: Reality, who: int, how: int) -> None:
    """An order is taken by the engine and not by the kernel; or what was in its way is gone, and nobody says so."""
    if reality.flight and how % 3:
        reality.deliver(who % len(reality.flight), _ASTRAY[how % 2])
        return
    confined = [real for real in reality.containers.values() if real.above is not None]
    if confined:
        reality.relent(confined[who % len(confined)])


def _reconnect(reality: Reality, who: int, how: int) -> None:
    reality.disconnect()
    if how % 2:
        reality.connect(is_slow=how % 3 == 0)


def _measure(reality: Reality, who: int, how: int) -> None:
    if real := _someone(reality, who):
        real.demand = how % 100 / 8
        measure(reality, real, is_throttled=how % 7 == 0)


def _resize(reality: Reality, who: int, how: int) -> None:
    if real := _someone(reality, who):
        reality.feed(ResizeRequested(real.id, 1 + how % len(reality.machine.online)))


def _acknowledge(reality: Reality, who: int, how: int) -> None:
    acknowledge(reality, who, None if how % 4 else how % 3)


def _switch(reality: Reality, who: int, how: int) -> None:
    """Other settings, another policy perhaps: what is online stays a machine on which they are lawful."""
    reality.read_settings(SETTINGS[who % len(SETTINGS)] if how % 3 == 0 else reality.settings)


def _land_late(reality: Reality, who: int, how: int) -> None:
    reality.land_late()


_delay = _pick(
    lambda r: r.flight, lambda r, i, how: r.feed(OrderDelayed(r.flight[i].container, r.flight[i].number + how % 2))
)
_deliver = _pick(lambda r: r.flight, lambda r, i, how: r.deliver(i, _FATES[how % len(_FATES)]))
_land = _pick(lambda r: r.flight, lambda r, i, how: r.land(i))
_look = _pick(lambda r: r.looks, lambda r, i, how: r.deliver_look(i if how % 4 == 0 else 0))
_inventory = _pick(lambda r: r.inventories, lambda r, i, how: r.deliver_inventory(i))
_retry = _pick(lambda r: r.retries, lambda r, i, how: r.retry(i))
_linger = _pick(lambda r: r.timers, lambda r, i, how: r.time_out(i))
_end_stop = _pick(lambda r: r.stopping, lambda r, i, how: r.deliver_stop(i, fails=how % 2 == 0))

_VERBS: list[Callable[[Reality, int, int], None]] = [
    *[_create] * 3,
    *[_start] * 3,
    *[_stop] * 2,
    _remove,
    _tamper,
    *[_deliver] * 6,
    *[_land] * 2,
    *[_look] * 6,
    *[_retry] * 2,
    _linger,
    lambda reality, who, how: reality.take_inventory(),
    lambda reality, who, how: reality.begin_inventory(),
    *[_inventory] * 2,
    _land_late,
    *[_end_start] * 2,
    _delay,
    _toggle,
    _crash,
    _reconnect,
    *[_astray] * 2,
    _end_stop,
    _release,
]

_DYNAMIC_VERBS = [
    *_VERBS,
    *[_measure] * 2,
    *[_acknowledge] * 2,
    _resize,
    _switch,
    lambda reality, who, how: reality.feed(DefragmentRequested()),
]


def random_history(rng: random.Random, length: int) -> list[Op]:
    """A history of at most `length` things, from a seeded source."""
    return [(rng.randrange(1000), rng.randrange(1000), rng.randrange(1000)) for _ in range(rng.randint(1, length))]
