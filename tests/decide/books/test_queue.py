"""The queue: who is asked next, how long a refusal stands, and what is never waited for."""

from __future__ import annotations

import pytest

from sidecar.decide.books.queue import turn_of
from sidecar.decide.settings import PolicyName
from sidecar.words.explanations import explanation
from state.demand import Shortage
from state.refusal import RefusalCode
from state.topology import uniform
from tests.support.decide.real import Real
from tests.support.decide.stories import Story, compose, where

WAIT = {"cpuset.on-shortage": "wait"}


def turns(story: Story, *reals: Real) -> list[int]:
    return [turn_of(story.world, real.key) for real in reals]


def explained(story: Story, real: Real) -> str:
    """Return the sentences about a container without a grant."""
    refused = story.world.state.refusals[real.key]
    return " ".join(explanation(story.world, story.known(real), None, refused, None))


def restarted(story: Story) -> None:
    """Kill the daemon, and start it again from its checkpoint."""
    story.crash([True])
    story.settle()


@pytest.mark.parametrize("policy", [PolicyName.STATIC, PolicyName.DYNAMIC])
def test_cpus_that_come_free_go_to_the_one_that_has_waited_longest(policy: PolicyName) -> None:
    story = Story(policy=policy)
    holder = story.arrive("holder", 6)
    first, second = story.arrive("first", 5, labels=WAIT), story.arrive("second", 5, labels=WAIT)
    story.settle()
    assert turns(story, first, second) == [1, 2]
    story.away(holder)
    story.settle()
    assert story.granted(first) is not None
    assert story.granted(second) is None
    assert turns(story, first, second) == [0, 1]


def test_a_restart_of_the_sidecar_shuffles_no_queue() -> None:
    """A newcomer that was created meanwhile is asked last, however the engine lists them."""
    story = Story()
    holder = story.arrive("holder", 6)
    late = story.arrive("late", 6, labels=WAIT)
    story.settle()
    story.remove(holder)
    newcomer = story.unseen("newcomer", 6, labels=WAIT)
    story.containers = dict(reversed(story.containers.items()))
    restarted(story)
    assert (story.granted(late), story.granted(newcomer)) == ("1-6", None)


def test_newcomers_are_asked_in_the_order_of_their_creation() -> None:
    """Not of the looks at them, of which a slow one may come after that at a younger container."""
    story = Story()
    story.disconnect()
    old, young = story.unseen("old", 6), story.unseen("young", 6)
    story.connect(is_slow=True)
    story.look(young)
    story.deliver_inventory(0)
    assert (story.granted(old), story.granted(young)) == ("1-6", None)


def test_one_that_was_refused_does_not_overtake_by_a_cpuset_of_its_own() -> None:
    """It runs nothing there: its runtime asks first, so no order has moved it meanwhile."""
    story = Story(uniform(cores=2))
    holder = story.arrive("holder", 1)
    story.settle()
    first = story.arrive("first", 1, starts=False)
    pinned = story.unseen("pinned", 1, starts=False, cpuset="1")
    pinned.asks = True
    story.look(pinned)
    story.settle()
    assert (pinned.cpuset, turns(story, first, pinned)) == ("1", [1, 2])
    story.away(holder)
    assert (story.granted(first), story.granted(pinned)) == ("1", None)


def test_a_higher_priority_is_asked_first_and_takes_nothing() -> None:
    story = Story()
    holder = story.arrive("holder", 6)
    first = story.arrive("first", 6, labels=WAIT)
    urgent = story.arrive("urgent", 6, labels={**WAIT, "cpuset.priority": "9"})
    story.settle()
    assert turns(story, first, urgent) == [2, 1]
    assert story.granted(holder) == "1-6"
    story.away(holder)
    story.settle()
    assert (story.granted(first), story.granted(urgent)) == (None, "1-6")


def test_one_that_fits_where_an_earlier_one_does_not_is_granted_and_named() -> None:
    story = Story()
    story.arrive("holder", 4)
    large = story.arrive("large", 6, labels=WAIT)
    small = story.arrive("small", 2)
    story.settle()
    assert story.granted(small) == "5-6"
    assert "It is 1st of 1 waiting. Granted meanwhile, because their requests fit: small." in explained(story, large)


def test_a_request_for_more_than_the_machine_has_does_not_wait() -> None:
    """It says the most that could be granted, whatever runs now."""
    story = Story()
    story.arrive("holder", 5)
    never = story.arrive("never", 9, labels=WAIT)
    later = story.arrive("later", 3, labels=WAIT)
    story.settle()
    assert story.why_refused(never) == "asked for 9 exclusive CPUs, but this machine can give 7 at most (1 reserved: 0)"
    assert turns(story, never, later) == [0, 1]
    assert "It runs in the shared pool and does not wait: no release of CPUs makes room for it." in explained(
        story, never
    )


def test_one_node_can_give_what_it_has_at_most() -> None:
    story = Story(uniform(packages=2, cores=4))
    never = story.arrive("never", 5, labels={**WAIT, "cpuset.numa": "single"})
    assert "on one NUMA node (cpuset.numa single), but this machine can give 4 at most" in story.why_refused(never)
    assert turns(story, never) == [0]


def test_a_refusal_is_reconsidered_at_a_restart_that_no_look_showed_stopped() -> None:
    """`docker restart` is a stop and a start while the engine answers no look."""
    story = Story()
    first, sharing = story.arrive("first", 6), story.arrive("sharing", 6)
    story.away(first)
    story.settle()
    assert story.granted(sharing) is None
    story.stop(sharing)
    story.again(sharing)
    story.settle()
    assert where(sharing) == "1-6"


def test_a_container_that_has_not_started_gets_cpus_that_come_free_before_it_does() -> None:
    """Whatever it chose: it finds its CPUs when it starts."""
    story = Story()
    first, coming = story.arrive("first", 6), story.arrive("coming", 6, starts=False)
    assert "It gets them if they come free before it starts" in explained(story, coming)
    story.away(first)
    story.settle()
    assert where(coming) == "stopped 1-6"


def test_the_reason_of_a_stop_stays_readable_until_the_next_start() -> None:
    story = Story()
    first = story.arrive("first", 6)
    second = story.arrive("second", 6, labels={"cpuset.on-shortage": "stop"})
    story.settle()
    assert where(second).startswith("stopped")
    said = explained(story, second)
    assert "It was refused: asked for 6 exclusive CPUs, 1 free" in said
    assert "It was stopped, as its label asks." in said
    restarted(story)
    assert explained(story, second) == said
    story.away(first)
    story.again(second)
    story.settle()
    assert where(second) == "1-6"


def test_cpus_that_a_machine_lost_are_granted_again_when_they_are_back() -> None:
    """It asks in each decision, whatever it chose, and says that it lost them meanwhile."""
    story = Story(uniform(cores=4))
    rt = story.arrive("rt", 3)
    story.settle()
    story.hotplug(3)
    assert story.refusal(rt).code is RefusalCode.CPUS_LOST
    story.hotplug(3)
    assert story.granted(rt) == "1-3"


@pytest.mark.parametrize("linger", [0.0, 30.0])
def test_a_created_container_keeps_its_cpus_for_its_start(linger: float) -> None:
    """For ten seconds at least; what stopped keeps them for `linger`, and without one not at all."""
    story = Story(linger_seconds=linger)
    rt = story.arrive("rt", 2, starts=False)
    story.settle()
    assert [timer.seconds for timer in story.timers] == [max(linger, 10.0)]
    story.again(rt)
    story.settle()
    story.end(rt)
    assert [timer.seconds for timer in story.timers if timer.seconds != max(linger, 10.0)] == []
    assert story.granted(rt) == ("1-2" if linger else None)


def test_a_successor_takes_the_place_of_the_one_that_it_replaces() -> None:
    """Also after a restart of the sidecar; one that is not replaced stays before it."""
    story = Story()
    story.arrive("holder", 6)
    first = story.arrive("first", 5, labels=WAIT)
    old = story.arrive("old", 5, labels={**WAIT, **compose()})
    last = story.arrive("last", 5, labels=WAIT)
    new = story.arrive("new", 5, labels={**WAIT, **compose()}, starts=False)
    story.settle()
    assert turns(story, first, old, last, new) == [1, 2, 3, 4]
    story.away(old)
    story.start(new)
    story.look(new)
    restarted(story)
    assert turns(story, first, new, last) == [1, 2, 3]


def test_a_stranger_to_it_takes_no_place() -> None:
    """A container of another role stays where it is when one before it goes."""
    story = Story()
    story.arrive("holder", 6)
    old, second = story.arrive("old", 5, labels=WAIT), story.arrive("second", 5, labels=WAIT)
    asked = story.world.state.refusals[second.key].asked
    story.away(old)
    assert story.world.state.refusals[second.key].asked == asked


@pytest.mark.parametrize("policy", [PolicyName.STATIC, PolicyName.DYNAMIC])
def test_one_refused_under_an_option_is_granted_once_a_reload_removes_that(policy: PolicyName) -> None:
    """It could never be granted under the option, so it was not in the queue; what waits is asked again."""
    story = Story(uniform(cores=4, threads=2), policy=policy, options=("full-pcpus-only",))
    waits, shares = story.arrive("waits", 1, labels=WAIT), story.arrive("shares", 1)
    story.settle()
    assert (turns(story, waits), story.granted(waits)) == ([0], None)
    story.change_settings(policy=policy)
    story.settle()
    assert (story.granted(waits), story.granted(shares)) == ("4", None)


def test_whether_it_waits_follows_its_present_wish() -> None:
    """The settings say so after a reload, and did not when it was refused."""
    story = Story()
    holder, other = story.arrive("holder", 6), story.arrive("other", 5)
    story.settle()
    assert turns(story, other) == [0]
    story.change_settings(shortage=Shortage.WAIT)
    story.settle()
    story.away(holder)
    story.settle()
    assert story.granted(other) is not None


@pytest.mark.parametrize("policy", [PolicyName.STATIC, PolicyName.DYNAMIC])
def test_a_refusal_counts_what_was_granted_after_it_in_the_same_decision(policy: PolicyName) -> None:
    """The next decision tells the same: nothing has changed since."""
    story = Story(policy=policy)
    most = story.arrive("most", 6, labels=WAIT)
    holder = story.arrive("holder", 4)
    story.settle()
    story.remove(holder)
    waits = story.unseen("waits", 7, labels=WAIT)
    few = story.unseen("few", 1)
    story.take_inventory()
    told = story.world.state.refusals
    assert (most.key in told, waits.key in told, few.key in told) == (False, True, False)
    story.feed()
    assert story.world.state.refusals == told


def test_a_refusal_says_what_others_held_when_it_was_made() -> None:
    """The free CPUs, the reserved ones and those held are all that there are, also if a grant grows at once."""
    story = Story(uniform(cores=6), policy=PolicyName.DYNAMIC)
    grows = story.unseen("grows", 4, labels={"cpuset.min": "4", "cpuset.max": "8"})
    refused = story.unseen("refused", 4)
    story.take_inventory()
    assert story.granted(grows) == "1-5"
    assert "1 free: 5 (1 reserved: 0; 4 held by grows)" in story.why_refused(refused)


def test_what_must_stay_shared_is_the_reason_for_more_than_there_are_too() -> None:
    """Without it the numbers would not add up: seven are not reserved, and three can be had."""
    story = Story(shared_min=5)
    said = "but this machine can give 3 at most: 5 must stay shared (1 reserved: 0)"
    assert [story.why_refused(story.arrive(f"of-{count}", count)) for count in (7, 9)] == [
        f"asked for {count} exclusive CPUs, {said}" for count in (7, 9)
    ]
