"""Sentences about the hand: whether births are answered, and by which leg a container is moved."""

from __future__ import annotations

import msgspec
import pytest

from sidecar.decide.container.grip import Closed, Guarded
from sidecar.decide.container.line import Fault, FaultKind
from sidecar.decide.hand_state import HandState
from sidecar.decide.orders import Answers, HoldAnswers
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from sidecar.status.describe import status_of
from sidecar.words.explanations import trouble
from sidecar.words.hands import MOUNT, SWITCHED_OFF, births_told, leg_told, many_writes, parents_taken, unwritable
from state.cpuset import CPUSet
from state.model import State
from state.topology import uniform
from tests.support.decide.stories import Story, static

ALL = CPUSet(range(4))
HELD = HoldAnswers(0, Answers(others=ALL), ())
HAND = HandState(parents=("/docker", "/system.slice"), since=1, held=HELD)


@pytest.fixture
def world() -> World:
    return begin(State(), uniform(cores=4), static())


def test_nothing_is_told_before_it_is_known(world: World) -> None:
    """A document of an older release, and the first moment of a daemon, have no line."""
    assert births_told(world) == ""
    assert status_of(world).hand is None


def test_answered_births_are_told_with_their_parents(world: World) -> None:
    """In one line, with what is stuck."""
    world = replace(world, hand=HAND)
    line = "the kernel first: the sidecar answers births below /docker and /system.slice"
    assert births_told(world) == line
    stuck = replace(world, hand=msgspec.structs.replace(HAND, stuck=CPUSet.of(3)))
    assert births_told(stuck) == f"{line}; newborn groups on CPU 3 cannot be written yet"
    told = status_of(stuck).hand
    assert told is not None
    assert (told.is_answering, told.stuck) == (True, CPUSet.of(3))


def test_no_hand_is_told_with_the_mount_to_add(world: World) -> None:
    """The reason has the cure."""
    world = replace(world, handless=unwritable("/sys/fs/cgroup"))
    assert births_told(world).startswith("the engine alone changes CPUs: /sys/fs/cgroup cannot be written")
    assert births_told(world).endswith(MOUNT)
    told = status_of(world).hand
    assert told is not None
    assert not told.is_answering


def test_a_hand_without_parents_or_answers_is_not_told_as_one(world: World) -> None:
    """Each state has a sentence of its own."""
    assert births_told(replace(world, hand=HandState(held=HELD))).endswith("once a cgroup parent of containers exists")
    assert births_told(replace(world, hand=HandState(parents=("/docker",)))) == "births are not answered yet"


def test_a_container_is_told_by_which_leg_it_is_moved() -> None:
    """Guarded, closed with the reason, or below a parent that is not watched; nothing of the host's own reason."""
    story = Story()
    container = story.known(story.arrive("web"))
    world = replace(story.world, hand=HAND)
    assert leg_told(story.world, container) == ""
    assert "guarded there" in leg_told(world, msgspec.structs.replace(container, grip=Guarded(ALL)))
    closed = msgspec.structs.replace(container, grip=Closed("no permission"))
    assert leg_told(world, closed) == "The engine alone changes its CPUs: no permission."
    elsewhere = replace(world, hand=HandState(parents=("/docker",), since=1, held=HELD, unwatched=("",)))
    assert leg_told(elsewhere, container).endswith("its cgroup parent is not watched.")


def test_a_container_below_another_parent_than_the_configured_one_is_told_so() -> None:
    """Births there are answered, so it is not said that its parent is not watched; the cure is said."""
    story = Story()
    container = story.known(story.arrive("web"))
    found = msgspec.structs.replace(container, view=replace(container.view, found_below="/second"))
    hand = replace(HAND, home=("/nowhere",), parents=("/second",), met=("/second",))
    told = leg_told(replace(story.world, hand=hand), found)
    assert told.startswith("The engine alone changes its CPUs: the cgroup /nowhere, which `hand` names, was not found")
    for part in ("births below /second", 'set `hand = "/second"`', "restart"):
        assert part in told
    elsewhere = leg_told(replace(story.world, hand=hand), container)
    assert "/second" not in elsewhere
    assert "correct `hand`" in elsewhere
    there = replace(hand, met=("/nowhere", "/second"), unwatched=("",))
    assert leg_told(replace(story.world, hand=there), container).endswith("its cgroup parent is not watched.")


@pytest.mark.parametrize("reason", [SWITCHED_OFF, unwritable("/sys/fs/cgroup")], ids=["off", "read-only"])
def test_a_container_of_a_host_without_a_hand_is_told_why(reason: str) -> None:
    """Where the sidecar moves it: not at rest, nor under the policy none."""
    story = Story()
    story.arrive("web")
    resting = story.arrive("resting", starts=False)
    world = replace(story.world, handless=reason)
    told = {each.name: each.explanation for each in status_of(world).containers}
    assert told["web"][-1] == f"The engine alone changes its CPUs: {reason}."
    assert not any("engine alone" in each for each in told["resting"])
    assert resting.key in world.containers
    idle = replace(world, settings=replace(world.settings, policy=PolicyName.NONE))
    assert not any("engine alone" in each for row in status_of(idle).containers for each in row.explanation)


def test_a_container_below_another_sidecars_parent_is_told_so() -> None:
    """That one undoes what this one's engine does; the fault alone would show no cure."""
    story = Story()
    container = story.known(story.arrive("web"))
    world = replace(story.world, hand=replace(HAND, taken=("/machine.slice",), unwatched=("",)))
    fault = Fault(FaultKind.INEFFECTIVE, "the engine accepted CPUs 0-1, but the kernel shows 0")
    there = replace(container, view=replace(container.view, found_below="/machine.slice/pod"), fault=fault)
    cause = ": ".join(parents_taken(("/machine.slice",)))
    assert trouble(world, there) == f"{fault.text}: {cause}"
    assert leg_told(world, there) == f"The engine alone changes its CPUs: {cause}."
    beside = replace(there, view=replace(container.view, found_below="/machine.slices"))
    assert trouble(world, beside) == fault.text
    assert trouble(world, replace(there, fault=Fault(FaultKind.REFUSED, "no"))) == "no"
    assert trouble(world, container) == ""


def test_many_writes_are_told_with_their_number() -> None:
    """And where the last one would have put the container."""
    assert many_writes("web", CPUSet.of(3), 70) == (
        "another program writes the cpuset of web, corrected each time: 70 times so far, last to CPU 3"
    )
