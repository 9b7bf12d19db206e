"""Histories: sequences of small numbers, each read as something that happens to a Reality.

Hypothesis (which shrinks the numbers), the long run from a seed, and the planted faults use the same interpreter.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from sidecar.decide.facts import OrderDelayed, ReleaseRequested
from sidecar.decide.settings import IsolatedRule, PolicyName, Settings
from sidecar.decide.world import replace
from state.cpuset import CPUSet
from state.demand import NumaRule
from state.topology import Kind, Topology, uniform
from tests.decide.lawbook.laws import LAWS
from tests.support.churn import Mix, Verb
from tests.support.decide import glances, hand_verbs, strictstarts, tenants
from tests.support.decide.durations import otherwise_timed
from tests.support.decide.handreality import HandReality
from tests.support.decide.history_rules import change_rules
from tests.support.decide.history_users import DYNAMIC_MIX, MIXED, STATIC_MIX, use
from tests.support.decide.owning_units import OwningUnits
from tests.support.decide.partly_seen import PartlySeen
from tests.support.decide.reality import Reality
from tests.support.decide.rights import EVERY_RIGHT
from tests.support.decide.two_by_hand import TwoByHand
from tests.support.decide.two_engines import TwoEngines
from tests.support.decide.workloads import measure_all
from tests.support.laws import Breach, Law, When, breaches

Op = tuple[int, int, int]
"""What happens, and two numbers that say to whom and how."""

_Step = Callable[[Reality, int, int], None]

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
    Settings(
        policy=PolicyName.STATIC,
        reserved_count=1,
        options=("full-pcpus-only", "strict-cpu-reservation"),
    ),
    Settings(policy=PolicyName.STATIC, reserved_count=1, options=("distribute-cpus-across-numa",)),
    Settings(policy=PolicyName.STATIC, reserved_count=1, options=("distribute-cpus-across-cores",)),
    Settings(policy=PolicyName.STATIC, reserved_count=1, options=("prefer-align-cpus-by-uncorecache",)),
    Settings(
        policy=PolicyName.STATIC,
        reserved_count=1,
        isolated=IsolatedRule.PREFER,
        numa=NumaRule.RESTRICTED,
    ),
    Settings(policy=PolicyName.STATIC, reserved_count=1, isolated=IsolatedRule.ONLY, shared_min=1),
)

DYNAMIC = (
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1),
    Settings(policy=PolicyName.DYNAMIC, reserved_cpus=CPUSet.of(0), max_moves=1),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1, shared_min=2, min_change=2),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1, options=("strict-cpu-reservation",)),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=2, options=("full-pcpus-only",)),
    Settings(
        policy=PolicyName.DYNAMIC,
        reserved_count=1,
        options=("full-pcpus-only", "strict-cpu-reservation"),
    ),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1, options=("distribute-cpus-across-numa",)),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1, options=("prefer-align-cpus-by-uncorecache",)),
    Settings(
        policy=PolicyName.DYNAMIC,
        reserved_count=1,
        isolated=IsolatedRule.PREFER,
        numa=NumaRule.RESTRICTED,
    ),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1, isolated=IsolatedRule.ONLY, shared_min=1),
)

GROUPED = (
    Settings(policy=PolicyName.STATIC, reserved_count=1, shared_slice="pool.slice"),
    Settings(policy=PolicyName.DYNAMIC, reserved_count=1, shared_slice="pool.slice"),
)

SETTINGS = (*STATIC, *DYNAMIC, *GROUPED)
"""What the sidecar may be told, one of each kind."""

BEGUN_WITH = (*SETTINGS, *MIXED)
"""What a history may begin with."""

_ASTRAY = ("ineffective", "overwritten")
"""What an order comes to that the engine takes, and the kernel does not."""

_OUTCOMES = (*["ok"] * 5, *_ASTRAY, "lost-before", "lost-after", "lost-late", "failed", "failed-after")


class Broken(AssertionError):
    """Laws were broken: all those broken at the first step that broke any."""

    def __init__(self, found: Sequence[Breach]) -> None:
        super().__init__("; ".join(map(str, found)))
        self.laws: frozenset[Law[Any]] = frozenset(breach.law for breach in found)


def play(
    machine: Topology,
    settings: Settings,
    ops: Sequence[Op],
    *,
    with_hand: bool = False,
    with_two: bool = False,
    wraps: bool = False,
    with_units: bool = False,
    shuts: bool = False,
) -> Reality:
    """Play a history and check every law after every step; at the end let everything come to rest, and check again.
    With two engines, it comes to rest before as well, as far as it can while one of them is away.
    """
    reality = begun(machine, settings, ops, 0, with_hand=with_hand, with_two=with_two, with_units=with_units)
    reality.wraps, reality.has_tenants = wraps, shuts
    for op in ops:
        going_on(reality, op)
        check(reality, When.STEP)
    is_apart = isinstance(reality, PartlySeen) and reality.is_apart
    if is_apart and isinstance(reality, TwoEngines):
        rest_apart(reality)
    if reality.list_rests and not is_apart and reality.is_reached and reality.world.is_ready:
        rest_without_a_list(reality)
    rest(reality)
    return reality


def begun(
    machine: Topology,
    settings: Settings,
    ops: Sequence[Op],
    count: int,
    *,
    with_hand: bool = False,
    with_two: bool = False,
    with_units: bool = False,
) -> Reality:
    """Return the host after the first `count` numbers of a history. No law is checked.

    In one of three, tenants have the default rights: what they pin or keep out is confined all the same.
    """
    if not ops or ops[0][0] % 3:
        settings = replace(settings, may=EVERY_RIGHT)
    # In one of five the engine starts containers without its service.
    needs_service = not ops or ops[0][2] % 5 != 2
    settings = _of_any(settings) if with_two else settings
    if with_hand:
        kind_by_hand = TwoByHand if with_two else HandReality
        by_hand = kind_by_hand(machine, settings, hand_verbs.temper_of(ops), needs_service=needs_service)
        if isinstance(by_hand, TwoByHand):
            by_hand.has_own_group = ops[0][2] % 2 == 1 if ops else False
        # In one of two the engine is long about some starts; without them the others meet each rare fault more often.
        by_hand.has_slow_starts = bool(ops) and ops[0][1] % 2 == 1
        reality: Reality = by_hand
    else:
        kind = TwoEngines if with_two else OwningUnits if with_units else Reality
        reality = kind(machine, settings, needs_service=needs_service)
    # One in seven has redeploys and priorities; without them the others meet each rare fault more often.
    reality.redeploys = bool(ops) and ops[0][1] % 14 in (3, 8)
    # In one of five, tenants lose and get their rights.
    reality.changes_rights = bool(ops) and ops[0][0] % 5 == 1
    # One in eight has rules and releases.
    reality.is_ruled = bool(ops) and ops[0][0] % 7 == 5 and ops[0][1] % 9 > 0
    # In one of six the engine is slow to list its containers.
    reality.list_rests = bool(ops) and (ops[0][0] + ops[0][0] // 17) % 6 == 1
    if reality.is_ruled:
        change_rules(reality, ops[0][1])
    for op in ops[:count]:
        going_on(reality, op)
    return reality


def check(reality: Reality, when: When) -> None:
    """Raise Broken if any law for this moment is broken."""
    if found := breaches(LAWS, reality, when):
        raise Broken(found)


def rest(reality: Reality) -> None:
    """Answer everything until no order or look is outstanding. A history that never comes to rest is a deadlock or a
    loop.
    """
    _go_on(reality)
    reality.list_rests = False
    while not reality.is_reached:
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


def _go_on(reality: Reality) -> None:
    """Let go what is held back: locks, late orders, held starts, and the news of the machine."""
    glances.release_all(reality)
    while reality.land_late():
        pass
    strictstarts.ask_again(reality)
    while strictstarts.one_goes_on(reality):
        pass
    reality.read_topology()


def rest_apart(reality: TwoEngines) -> None:
    """Answer everything while one engine stays away, until nothing goes on."""
    _answer_what_can_be(reality)
    check(reality, When.APART)


def rest_without_a_list(reality: Reality) -> None:
    """Answer everything while no list can be had, until nothing goes on."""
    _answer_what_can_be(reality)
    check(reality, When.UNLISTED)


def _answer_what_can_be(reality: Reality) -> None:
    _go_on(reality)
    reality.take_inventory()
    for _ in range(40 + 60 * len(reality.containers)):
        if not strictstarts.one_goes_on(reality) and not reality.go_on():
            break
        check(reality, When.STEP)


def going_on(reality: Reality, op: Op) -> None:
    """Let one thing happen, whatever follows from it. No law is checked."""
    what, who, how = op
    verbs = _DYNAMIC_VERBS if reality.settings.policy is PolicyName.DYNAMIC else _VERBS
    if isinstance(reality, HandReality) and who % 3 == 0:
        hand_verbs.happen(reality, what, how)
    else:
        verbs[what % len(verbs)](reality, who, how)
        if isinstance(reality, HandReality):
            hand_verbs.follow(reality, how)
    tenants.act(reality, what, who, how)


def _end_start(reality: Reality, who: int, how: int) -> None:
    """Let a held start go on, fail, be given up, or be asked for once more; or let another program release a lock, for
    which a start may have waited.
    """
    if how % 4 and strictstarts.ask_again(reality):
        return
    locked = [real for real in reality.containers.values() if real.is_locked]
    if locked and (real := locked[who % len(locked)]).is_busy:
        glances.release(reality, real, then_starts=how % 3 == 0)
    elif locked and (real := locked[who % len(locked)]).verdict:
        strictstarts.go_on(reality, real, fails=how % 6 == 0)
        if how % 5:
            reality.begin_look(real.key)
    elif locked and how % 3 == 0:
        strictstarts.let_go(reality, real)


def _pick(
    choose: Callable[[Reality], Sequence[object]], act: Callable[[Reality, int, int], None]
) -> Callable[..., None]:
    def verb(reality: Reality, who: int, how: int) -> None:
        if things := choose(reality):
            act(reality, who % len(things), how)

    return verb


def crash(reality: Reality, who: int, how: int) -> None:
    """Kill the daemon, and begin another."""
    if how % 2:
        # Another configuration is written while it is down.
        reality.settings = otherwise_timed(reality.settings, who)
    reality.promises.restarted(reality.timers, reality.world, reality.containers)
    fates = [bool(who >> bit & 1) for bit in range(5)]
    reality.crash(fates, is_slow=how % 3 == 0, is_busy=how % 5 == 4)


def _release(reality: Reality, who: int, how: int) -> None:
    """Release everything and end the daemon; start it again at a later time."""
    if reality.world.is_releasing:
        crash(reality, who, how)
    elif how % 4 == 0:
        reality.given_up.clear()
        reality.feed(ReleaseRequested())


def _astray(reality: Reality, who: int, how: int) -> None:
    """The engine takes an order and the kernel does not; or the obstacle goes away without any event."""
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


def _switch(reality: Reality, who: int, how: int) -> None:
    """Change the settings, perhaps to another policy: the online CPUs stay a machine on which they are lawful."""
    others = replace(SETTINGS[who % len(SETTINGS)], rules=reality.settings.rules)
    others = _of_any(others) if isinstance(reality, TwoEngines) else others
    reality.read_settings(otherwise_timed(others if how % 3 == 0 else reality.settings, who))


def _of_any(settings: Settings) -> Settings:
    """Return settings that are possible with several engines: a shared group is one engine's, and the configuration
    refuses it beside `engines`.
    """
    return replace(settings, shared_slice="")


def _land_late(reality: Reality, who: int, how: int) -> None:
    reality.land_late()


_delay = _pick(
    lambda r: r.flight, lambda r, i, how: r.feed(OrderDelayed(r.flight[i].container, r.flight[i].number + how % 2))
)
_deliver = _pick(lambda r: r.flight, lambda r, i, how: r.deliver(i, _OUTCOMES[how % len(_OUTCOMES)]))
_land = _pick(lambda r: r.flight, lambda r, i, how: r.land(i))
_look = _pick(lambda r: r.looks, lambda r, i, how: r.deliver_look(i if how % 4 == 0 else 0))
_inventory = _pick(lambda r: r.inventories, lambda r, i, how: r.deliver_inventory(i))
_retry = _pick(lambda r: r.retries, lambda r, i, how: r.retry(i))
_linger = _pick(lambda r: r.timers, lambda r, i, how: r.time_out(i))
_end_stop = _pick(lambda r: r.stopping, lambda r, i, how: r.deliver_stop(i, fails=how % 2 == 0))

_FATES: list[_Step] = [
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
    crash,
    _reconnect,
    *[_astray] * 2,
    _end_stop,
    _release,
]


def _users(mix: Mix) -> list[_Step]:
    """Let users act, each action with the probability of the mix."""

    def step(verb: Verb) -> _Step:
        return lambda reality, who, how: use(reality, verb, 1000 * who + how)

    return [step(verb) for verb, weight in mix.verbs.items() for _ in range(weight)]


_VERBS = [*_users(STATIC_MIX), *_FATES]
_DYNAMIC_VERBS = [*_users(DYNAMIC_MIX), *_FATES, _switch]


def random_history(rng: random.Random, length: int) -> list[Op]:
    """Return a history of at most `length` numbers, drawn from a seeded source."""
    return [(rng.randrange(1000), rng.randrange(1000), rng.randrange(1000)) for _ in range(rng.randint(1, length))]
