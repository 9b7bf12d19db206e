"""Laws of waiting: the pauses after failed orders, the timers of rests, takes and growths, and looks."""

from __future__ import annotations

from typing import TypeGuard

from sidecar.decide.container.machine import rests
from sidecar.decide.container.start import Answered, Held
from sidecar.decide.facts import ContainerRemoved, CpusetFailed, Fact, Failure, Purpose
from sidecar.decide.orders import ApplyCpuset, StopContainer
from tests.support.decide.reality import Reality


def ordered_in_a_pause(reality: Reality) -> list[str]:
    """Return orders to containers whose last order failed, before the pause of that order was over."""
    return [
        f"{reality.world.containers[order.container].view.name} was ordered again before its pause was over"
        for order in reality.new_orders
        if order.container in reality.paused
    ]


def ordered_though_gone(reality: Reality) -> list[str]:
    """Return orders to containers that the engine, in a look or an answer, reported gone: an id never comes back."""
    orders = [each for each in reality.last_orders if isinstance(each, ApplyCpuset | StopContainer)]
    if not orders:
        return []
    gone = {fact.container for burst in reality.bursts for fact in burst if _says_gone(fact)}
    return [
        f"{each.container.id[-4:]} was said to be gone, and is given {each}"
        for each in orders
        if each.container in gone - reality.ended_unread
    ]


def _says_gone(fact: Fact) -> TypeGuard[ContainerRemoved | CpusetFailed]:
    return isinstance(fact, ContainerRemoved) or (isinstance(fact, CpusetFailed) and fact.failure is Failure.GONE)


def memory_again(reality: Reality) -> list[str]:
    """Return memory nodes in an order to a container whose CPUs failed with memory nodes before."""
    return [
        f"{reality.world.containers[order.container].view.name} was ordered memory {order.update.mems} again"
        for order in reality.new_orders
        if order.update.mems is not None and order.container in reality.failed_with_memory
    ]


def untimed(reality: Reality) -> list[str]:
    """Return containers that rest on a grant without a timer."""
    world = reality.world
    if not world.is_ready or world.is_releasing:
        return []
    timed = {timer.container for timer in reality.timers if timer.purpose is Purpose.LINGER}
    return [
        f"{container.view.name} rests, and nobody counts for how long"
        for id, container in world.containers.items()
        if id in world.state.assignments
        and rests(container.view)
        and not container.is_lapsed
        and id not in timed
        # A start that is held or was answered is no rest; one that was only glanced at may be starting.
        and not isinstance(container.start, Held | Answered)
        and not container.view.is_glance
    ]


def waited_for_nothing(reality: Reality) -> list[str]:
    """Return timers that still run in the World after all have ended."""
    return [f"{id.id[-4:]} is waited for: {dict(running)}" for id, running in reality.world.timers.items()]
