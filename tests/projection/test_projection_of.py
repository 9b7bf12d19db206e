"""Each workload's projection, by example: never ahead of the truth, with the reason for its CPUs."""

from __future__ import annotations

from sidecar.decide.facts import Purpose
from sidecar.projection.projection_of import names_of, projection_of
from state.cpuset import EMPTY
from state.model import State
from state.projection import Projection, Sharing
from tests.support.decide.real import Real
from tests.support.decide.stories import Story, cpus


def told(story: Story, real: Real) -> Projection:
    return projection_of(story.world, story.known(real))


def test_an_exclusive_container_that_is_settled() -> None:
    story = Story()
    story.arrive("plain")
    rt = story.arrive("rt", 2)
    story.settle()
    assert told(story, rt) == Projection(
        container=rt.key.id,
        name="rt",
        policy="static",
        sharing=Sharing.EXCLUSIVE,
        cpus=cpus("1-2"),
        desired=cpus("1-2"),
        original=cpus("1-2"),
        settled=True,
        alone=True,
        shared_pool=cpus("0,3-7"),
        reason="granted 2 exclusive CPUs: 1-2",
    )


def test_one_cpu_is_one_cpu() -> None:
    story = Story()
    assert told(story, story.arrive("rt", 1)).reason == "granted 1 exclusive CPU: 1"


def test_what_is_given_is_told_after_the_kernel_confirms() -> None:
    """And lost CPUs go before the order is sent: in between, it names only CPUs that it has in both cases."""
    story = Story()
    plain = story.arrive("plain")
    rt = story.unseen("rt", 2, cpuset="")
    story.look(rt)
    saying = told(story, rt)
    assert (saying.cpus, saying.desired, saying.arriving, saying.settled) == (cpus("1-2"), cpus("1-2"), EMPTY, False)
    saying = told(story, plain)
    assert (saying.cpus, saying.desired, saying.settled) == (cpus("0,3-7"), cpus("0,3-7"), False)
    story.settle()
    assert told(story, plain).settled
    story.away(rt)
    assert story.pending(plain) == "0-7"
    saying = told(story, plain)
    assert (saying.cpus, saying.desired, saying.arriving) == (cpus("0,3-7"), cpus("0-7"), cpus("1-2"))
    assert not saying.settled
    story.settle()
    assert told(story, plain).cpus == cpus("0-7")


def test_between_two_sets_without_a_common_cpu_nothing_is_told() -> None:
    story = Story()
    rt = story.unseen("rt", 2, cpuset="5,6")
    story.look(rt)
    assert story.granted(rt) == "5-6"
    story.settle()
    story.tamper(rt, cpus("3"))
    story.look(rt)
    saying = told(story, rt)
    assert (saying.cpus, saying.arriving) == (EMPTY, cpus("5-6"))


def test_a_shared_container_and_why() -> None:
    story = Story()
    saying = told(story, story.arrive("plain"))
    assert (saying.sharing, saying.cpus, saying.settled) == (Sharing.SHARED, cpus("0-7"), True)
    assert saying.reason == "in the shared pool: it asks for no exclusive CPUs"


def test_a_refused_container_reads_why() -> None:
    story = Story()
    saying = told(story, story.arrive("rt", 9))
    assert saying.sharing is Sharing.SHARED
    assert saying.reason.startswith(
        "in the shared pool: asked for 9 exclusive CPUs, but this machine can give 7 at most"
    )
    saying = told(story, story.arrive("bad", "two"))
    assert saying.reason.startswith("in the shared pool: cpuset.exclusive is 'two'")


def test_a_bad_label_of_a_stopped_container_is_told_too() -> None:
    story = Story()
    bad = story.arrive("bad", "two")
    story.end(bad)
    assert told(story, bad).reason.startswith("in the shared pool: cpuset.exclusive is 'two'")


def test_a_container_that_lingered_too_long_reads_why() -> None:
    """One that ran did start in time, and ended."""
    story = Story()
    rt, never = story.arrive("rt", 2), story.arrive("never", 1, starts=False)
    story.settle()
    story.end(rt)
    while [timer for timer in story.timers if timer.purpose is Purpose.LINGER]:
        story.time_out(-1)
    until = "in the shared pool until it starts"
    ended = f"{until}: it is not running (exited), and asks for 2 exclusive CPUs when it starts"
    assert told(story, rt).reason == ended
    assert told(story, never).reason == f"{until}: it did not start in time to keep its CPUs"


def test_strangers_and_those_left_alone_are_unmanaged() -> None:
    story = Story()
    stranger = told(story, story.arrive("stranger", cpuset="3"))
    assert (stranger.sharing, stranger.cpus, stranger.settled) == (Sharing.UNMANAGED, cpus("3"), True)
    assert (
        stranger.reason
        == "pinned by hand to CPU 3: it is never moved, and no other container gets these CPUs exclusively"
    )
    alone = told(story, story.arrive("alone", labels={"cpuset.manage": "off"}))
    assert (alone.sharing, alone.cpus, alone.reason) == (Sharing.UNMANAGED, cpus("0-7"), "left alone, as requested")


def test_every_container_reads_that_the_sidecar_leaves() -> None:
    story = Story()
    rt = story.arrive("rt", 2)
    story.settle()
    story.release()
    saying = told(story, rt)
    assert (saying.sharing, saying.desired) == (Sharing.SHARED, cpus("0-7"))
    assert saying.reason == "the sidecar is releasing every container"


def test_an_engine_that_is_away_unsettles_all_containers() -> None:
    """The sidecar cannot see what happens now."""
    story = Story()
    rt = story.arrive("rt", 2)
    story.settle()
    story.disconnect()
    assert not told(story, rt).settled
    assert told(story, rt).cpus == cpus("1-2")


def test_replicas_may_share_a_name() -> None:
    story = Story()
    one = story.arrive("one", 1, labels={"cpuset.projection": "game"})
    two = story.arrive("two", 1, labels={"cpuset.projection": "game"})
    plain = story.arrive("plain")
    names = [names_of(story.world, story.known(real)) for real in (one, two, plain)]
    assert names == [("game",), ("game",), ()]


def test_the_first_grant_is_remembered_as_the_original() -> None:
    """For as long as any of its CPUs is still granted."""
    story = Story()
    rt = story.arrive("rt", 3)
    story.settle()
    story.toggle_cpu(2)
    story.read_topology()
    story.settle()
    assert (told(story, rt).cpus, told(story, rt).original) == (cpus("1,3-4"), cpus("1,3"))
    assert isinstance(story.world.state, State)
