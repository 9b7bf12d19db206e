"""What a daemon knows by a glance alone: containers whose lock another program holds, and what others owe to those.

The promise (decision 0049): beside a hand, nobody waits for one that rests and was only glanced at, but for where the
hand and orders may put it. It may name any cgroup parent, so nobody is alone where it may start.
"""

from __future__ import annotations

from sidecar.decide.facts import Phase
from sidecar.decide.world import World
from sidecar.simulation.model_hand import ModelHand
from sidecar.simulation.model_host import STARTABLE
from state.cpuset import CPUSet
from state.key import ContainerKey
from tests.support.decide.real import Real
from tests.support.decide.reality import Reality


def is_only_glanced_at(world: World, key: ContainerKey) -> bool:
    """Return whether a hand answers, and a container rests of which nothing but a glance is known, nor that it asks.
    One that a glance shows half removed never starts.
    """
    known = world.containers[key]
    is_answering = world.hand is not None and world.hand.is_answering
    may_start = known.is_idle and known.view.phase is not Phase.DEAD
    return is_answering and known.view.is_glance and may_start and not known.is_strict


def may_start_unanswered(reality: Reality, real: Real) -> bool:
    """Return whether such a container is born where no hand answers, or where its group counts as another's."""
    if real.key not in reality.world.containers or not is_only_glanced_at(reality.world, real.key):
        return False
    return _answer_to(reality, real) is None


def _answer_to(reality: Reality, real: Real) -> CPUSet | None:
    """Return where a hand would put it at its birth, as itself or as a newborn; None if no hand would, and if its group
    is called like another one of which nothing but a glance is known: that may be below any parent as well.
    """
    hand = real.kernel.watcher
    if isinstance(hand, ModelHand) and hand.key_of(real.id, f"/{real.home}") not in (real.key, None):
        return None
    return real.answer(reality.online)


def _is_anybodys(real: Real) -> bool:
    """Return whether its group is called like a container whose group is elsewhere."""
    hand = real.kernel.watcher
    return isinstance(hand, ModelHand) and hand.key_of(real.id, f"/{real.home}") is None


def is_still_newborn(world: World, key: ContainerKey) -> bool:
    """Return whether the hand does not hold the first answer of its own of such a container yet: until then that one
    keeps what its runtime writes, as what is not known does.
    """
    held = world.hand.held if world.hand else None
    return is_only_glanced_at(world, key) and held is not None and key not in held.answers.own


def waited_for(reality: Reality, key: ContainerKey, *, by_owner: bool = True, at_rest: bool = False) -> int:
    """Return where others may not go because of this container, as a mask. Where its group counts as anybody's, it is
    born among the newborns of the pool, if with a grant or without: owners wait for those, and the pool does not. What
    goes there while it is `at_rest` waits for no newborn (`plan`, 4).
    """
    known, real = reality.world.containers[key], reality.containers.get(key)
    if not is_only_glanced_at(reality.world, key):
        return known.footprint
    if at_rest and is_still_newborn(reality.world, key):
        return known.coming
    answer = _answer_to(reality, real) if real and (by_owner or not _is_anybodys(real)) else None
    return known.coming | (answer.mask if answer else 0)


def begin_start(reality: Reality, real: Real) -> bool:
    """Start a container whose program runs at once, while the engine has its lock for long, and calls it what it was;
    return whether that began.
    """
    was = real.phase
    if real.asks or real.is_locked or was not in STARTABLE or not reality.start(real):
        return False
    real.called, real.is_busy = was, True
    return True


def release(reality: Reality, real: Real, *, then_starts: bool = False) -> None:
    """Let the other program release the lock. A start may have waited for that, before the looks that did."""
    real.is_busy, real.called = False, None
    if then_starts and not real.asks:
        reality.start(real)
    reality.unlock(real)


def release_all(reality: Reality) -> None:
    """Let all other programs release their locks."""
    for real in reality.containers.values():
        if real.is_busy:
            release(reality, real)
