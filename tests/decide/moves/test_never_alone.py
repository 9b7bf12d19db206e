"""Whether a container may still become alone by itself: what ends a gate at once, and what it waits for."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.moves.never_alone import is_never_alone
from sidecar.decide.settings import PolicyName
from sidecar.decide.sightings import sighted
from state.demand import NumaRule
from state.topology import uniform
from tests.support.decide.real import Real
from tests.support.decide.stories import Story

WAITS = {"cpuset.on-shortage": "wait"}


def never(story: Story, real: Real) -> bool:
    return is_never_alone(story.world, story.known(real))


@pytest.mark.parametrize(
    ("asks", "fields"),
    [
        (None, {}),
        ("two", {}),
        (2, {"labels": {"cpuset.weight": "1000000"}}),
        (2, {"labels": {"cpuset.manage": "off"}}),
        (None, {"cpuset": "3"}),
    ],
    ids=["no demand", "bad number", "bad label", "unmanaged", "pinned by hand"],
)
def test_what_cannot_be_granted_anything_is_never_alone(asks: object, fields: dict[str, Any]) -> None:
    """Whatever happens around it."""
    story = Story()
    assert never(story, story.arrive("plain", asks, **fields))


def test_what_its_engine_has_not_shown_may_become_alone() -> None:
    """The kernel alone tells of it: its labels may ask for CPUs."""
    view = ContainerView(engine="docker", id="b" * 64, name="b" * 12, phase=Phase.RUNNING, is_glance=True)
    world = sighted(Story().world, view, 1000)
    assert not is_never_alone(world, world.containers[view.key])
    world = sighted(world, replace(view, is_glance=False), 1001)
    assert is_never_alone(world, world.containers[view.key])


def test_what_was_granted_may_become_alone() -> None:
    """Even beside an unmanaged container, which may go."""
    story = Story()
    rt = story.arrive("rt", 2)
    assert not never(story, rt)
    story.arrive("monitor", labels={"cpuset.manage": "off"})
    story.settle()
    assert not never(story, rt)


def test_a_refusal_is_for_good_unless_it_waits() -> None:
    story = Story()
    story.arrive("rt", 7)
    late, patient = story.arrive("late", 3), story.arrive("patient", 3, labels=WAITS)
    assert never(story, late)
    assert not never(story, patient)


@pytest.mark.parametrize("labels", [{}, WAITS])
def test_more_than_the_machine_can_give_is_never_alone(labels: dict[str, str]) -> None:
    """Even if it waits, and before its start."""
    story = Story()
    assert never(story, story.arrive("huge", 9, labels=labels))
    assert never(story, story.arrive("created", 9, labels=labels, starts=False))


def test_a_floor_that_no_machine_could_give_is_not_for_good_if_its_number_could_be() -> None:
    """Four CPUs fit on one NUMA node, and may not come onto two; five may."""
    story = Story(uniform(packages=2, cores=4), policy=PolicyName.DYNAMIC, numa=NumaRule.RESTRICTED)
    story.hotplug(7)
    rt = story.arrive("rt", 2)
    wide = story.arrive("wide", 5, labels={"cpuset.min": "4", **WAITS})
    assert story.granted(wide) is None
    assert not never(story, wide)
    story.away(rt)
    assert story.granted(wide) is not None


def test_before_a_start_a_refusal_is_not_for_good() -> None:
    """It is asked again when it starts."""
    story = Story()
    story.arrive("rt", 7)
    late = story.arrive("late", 3)
    story.end(late)
    assert not never(story, late)
    story.again(late)
    assert never(story, late)


def test_no_refusal_is_for_good_while_the_engine_is_away() -> None:
    """Settings that change meanwhile are answered afterwards."""
    story = Story(shared_min=6)
    rt = story.arrive("rt", 3, labels=WAITS)
    assert never(story, rt)
    story.disconnect()
    story.change_settings(shared_min=1)
    assert not never(story, rt)
    story.connect()
    assert story.granted(rt) == "1-3"
