"""Alone: it has CPUs of its own, they are in force, and no container that the sidecar can see may run on them."""

from __future__ import annotations

import pytest

from sidecar.decide.covering import after_hand
from sidecar.decide.facts import ContainerSeen, Fact
from sidecar.decide.hand_facts import HandLost, Overwritten, Slipped
from sidecar.decide.hand_state import HandState
from sidecar.decide.moves.alone import is_alone, neighbours
from sidecar.decide.moves.settled import is_settled
from sidecar.decide.orders import Answers, HoldAnswers, LookAgain
from sidecar.decide.sightings import sighted
from sidecar.decide.step import step
from sidecar.decide.world import World, replace
from sidecar.decide.wresting import MOST_UNDONE
from state.cpuset import EMPTY, CPUSet
from state.topology import uniform
from tests.decide.long_run import history
from tests.support.decide import strictstarts
from tests.support.decide.real import Real
from tests.support.decide.reality import Reality
from tests.support.decide.stories import Story
from tests.support.keys import docker

OFF = {"cpuset.manage": "off"}


def alone(story: Story, real: Real) -> bool:
    return is_alone(story.world, story.known(real))


def beside(story: Story, real: Real) -> list[str]:
    return [each.view.name for each in neighbours(story.world, story.known(real))]


def test_a_container_on_its_own_cpus_is_alone() -> None:
    """Once the others have left, and not before."""
    story = Story()
    plain = story.arrive("plain")
    rt = story.arrive("rt", 2)
    assert not alone(story, rt)
    assert beside(story, rt) == ["plain"]
    story.settle()
    assert alone(story, rt)
    assert beside(story, rt) == []
    assert not alone(story, plain)


def test_a_refused_container_is_settled_and_never_alone() -> None:
    """It has no CPUs of its own: what was decided for it is the shared pool."""
    story = Story()
    story.arrive("rt", 7)
    late = story.arrive("late", 3)
    story.settle()
    assert late.key in story.world.state.refusals
    assert not alone(story, late)
    assert beside(story, late) == []


def test_an_unmanaged_container_may_run_everywhere() -> None:
    """The owner is settled, since nothing more will be done; but it is not alone while the other runs."""
    story = Story()
    rt = story.arrive("rt", 2)
    monitor = story.arrive("monitor", labels=OFF)
    story.settle()
    assert story.is_settled(rt)
    assert not alone(story, rt)
    assert beside(story, rt) == ["monitor"]
    story.end(monitor)
    assert alone(story, rt)
    story.again(monitor)
    story.end(monitor, restarts=True)
    assert not alone(story, rt)


@pytest.mark.parametrize("fails", [False, True])
def test_an_owner_is_not_alone_while_the_held_start_of_one_that_is_left_alone_goes_on(*, fails: bool) -> None:
    """Also if that did not choose the runtime that asked: from the answer until a look, which shows what became of the
    start.
    """
    story = Story()
    rt = story.arrive("rt", 2)
    monitor = story.arrive("monitor", starts=False, labels=OFF)
    story.settle()
    assert alone(story, rt)
    strictstarts.hold(story, monitor)
    assert not alone(story, rt)
    assert beside(story, rt) == ["monitor"]
    strictstarts.go_on(story, monitor, fails=fails)
    story.look(monitor)
    assert alone(story, rt) == fails


def test_an_owner_is_not_alone_beside_one_whose_cpuset_is_wrested_from_the_hand() -> None:
    """It is settled, since all was done; the other has a name. A person's update changes nothing, nor does an engine's
    loop; and calm ends it, or the end of the hand.
    """
    story = Story()
    rt = story.arrive("rt", 2)
    plain = story.arrive("plain")
    story.settle()
    world = replace(story.world, hand=HandState(parents=("/docker",)))

    def after(times: int, *, is_wrested: bool = False) -> World:
        return after_hand(world, Overwritten(plain.key, CPUSet.of(1), times, is_wrested))[0]

    def told(world: World) -> tuple[bool, bool, list[str]]:
        owner = world.containers[rt.key]
        beside = [each.view.name for each in neighbours(world, owner)]
        return is_settled(world, owner), is_alone(world, owner), beside

    world = after(MOST_UNDONE - 1)
    assert told(world) == (True, True, [])
    assert told(after(1, is_wrested=True)) == (True, False, ["plain"]), "what it wrote stood"
    world = after(MOST_UNDONE)
    assert told(world) == (True, False, ["plain"])
    world = after(1)
    assert told(world) == (True, False, ["plain"]), "slower is not calm"
    assert told(after(0)) == (True, True, [])
    assert told(after_hand(world, HandLost("it broke", 0))[0])[2] == []


def test_what_is_kept_off_its_cpus_does_not_count() -> None:
    """An unmanaged container that the kernel shows elsewhere."""
    story = Story()
    rt = story.arrive("rt", 2)
    story.arrive("monitor", labels=OFF, cpuset="0,7")
    story.settle()
    assert str(story.known(rt).place.seen) == "1-2"
    assert alone(story, rt)


def test_nothing_runs_on_a_cpu_that_is_offline() -> None:
    """It was the only one on which a container, pinned there by hand, might have met the owner."""
    story = Story(uniform(cores=4))
    rt = story.arrive("rt", 2)
    story.settle()
    story.unseen("pinned", cpuset="2", starts=False)
    story.take_inventory()
    assert beside(story, rt) == ["pinned"]
    story.toggle_cpu(2)
    story.read_topology()
    assert beside(story, rt) == []


def test_its_neighbours_are_those_that_may_run_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each World of random histories: all others that may run on one of its CPUs which is online, and none
    besides.
    """
    feed = Reality.feed
    asked, wrong, found = 0, [], 0

    def checked(self: Reality, *facts: Fact) -> None:
        nonlocal asked, found
        feed(self, *facts)
        for key, container in self.world.containers.items():
            if key not in self.world.state.assignments or container.is_idle:
                continue
            where = container.footprint & self.world.topology.online.mask
            others = {at for at, other in self.world.containers.items() if self.world.may_run(other) & where}
            told = {each.view.key for each in neighbours(self.world, container)}
            asked += 1
            found += bool(told)
            if told != others - {key}:
                wrong.append(f"{container.view.name}: {sorted(told)}, not {sorted(others - {key})}")

    monkeypatch.setattr(Reality, "feed", checked)
    for seed in range(40):
        history(seed)
    assert wrong == []
    assert asked > found > 100


def test_no_owner_is_settled_beside_one_that_slipped_from_the_hand_until_a_look() -> None:
    """Nor is it alone then: a look does not show where the next write puts it. Calm ends that."""
    story = Story()
    rt = story.arrive("rt", 2)
    plain = story.arrive("plain")
    story.settle()

    def told() -> tuple[bool, bool]:
        owner = story.world.containers[rt.key]
        return is_settled(story.world, owner), is_alone(story.world, owner)

    story.world = replace(story.world, hand=HandState(parents=("/docker",)))
    assert told() == (True, True)
    slipped = Slipped(plain.key, "it is closed", story.world.containers[plain.key].looked + 1)
    story.world, orders = after_hand(story.world, slipped)
    assert orders == (LookAgain(plain.key),)
    assert told() == (False, False)
    seen = replace(story.world.containers[plain.key].view)
    story.world = sighted(story.world, seen, slipped.ended + 1)
    assert told() == (True, False)
    story.world, _ = after_hand(story.world, Overwritten(plain.key, EMPTY, 0))
    assert told() == (True, True)


def test_one_that_slipped_before_it_was_known_counts_as_soon_as_it_is() -> None:
    """It may close its group before its first look is over: an older one shows nothing. Calm ends that."""
    story = Story()
    rt = story.arrive("rt", 2)
    plain = story.arrive("plain")
    story.settle()
    view = story.known(plain).view
    unknown = replace(story.world, hand=HandState(parents=("/docker",)), containers={rt.key: story.known(rt)})
    slipped = Slipped(view.key, "it is closed", story.known(plain).known + 2)
    world, orders = after_hand(unknown, slipped)
    assert orders == ()

    def told(began: int, world: World) -> tuple[bool, bool, bool]:
        """Whether the owner is settled and alone after a look, and another one is due."""
        world, orders = step(world, (ContainerSeen(view, began),))
        owner = world.containers[rt.key]
        return is_settled(world, owner), is_alone(world, owner), LookAgain(view.key) in orders

    assert told(slipped.ended - 1, world) == (False, False, True)
    assert told(slipped.ended + 1, world) == (True, False, False)
    calm, _ = after_hand(world, Overwritten(view.key, EMPTY, 0))
    assert told(slipped.ended + 1, calm) == (True, True, False)
    assert calm == unknown


def test_one_that_slipped_while_its_engine_is_away_may_be_anywhere() -> None:
    """Its grant is in the books, and no look shows where it is. Of what has no answer of its own the hand tells where
    it is stuck. Calm ends neither: it stays where it is.
    """
    key, pool, own, online = docker("f" * 64), CPUSet.of(0), CPUSet.of(1), CPUSet.of(0, 1)
    answers = Answers(others=pool, own={key: own}, owned=own)
    hand = HandState(parents=("/docker",), held=HoldAnswers(number=1, answers=answers))
    world = replace(Story().world, hand=hand)
    assert hand.newborns(online) == pool.mask
    world, _ = after_hand(world, Slipped(key, "it is closed", 9))
    world, _ = after_hand(world, Overwritten(key, EMPTY, 0))
    assert world.hand is not None
    assert world.hand.newborns(online) == online.mask
    without = replace(world.hand, held=HoldAnswers(number=2, answers=replace(answers, own={})))
    assert without.newborns(online) == pool.mask
