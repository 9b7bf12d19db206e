"""A container is pinned by hand onto CPUs that another holds: the other moves if it can, and stays otherwise."""

from __future__ import annotations

import pytest

from sidecar.decide.books.clashes import clashes
from sidecar.decide.settings import PolicyName
from sidecar.log import LogLevel
from sidecar.projection.projection_of import projection_of
from sidecar.status.describe import status_of
from sidecar.status.problem_list import ProblemKind, problems_of
from sidecar.words.changes import news
from sidecar.words.neighbours import pinned_text
from state.cause import Pinned
from state.refusal import RefusalCode
from state.topology import uniform
from tests.support.decide.dynamic import Dynamic
from tests.support.decide.stories import Story, cpus, where


def test_the_owner_moves_to_free_cpus() -> None:
    """Both are then where they should be, and alone; the reason is recorded."""
    story = Story()
    plain, rt = story.arrive("plain"), story.arrive("rt", 2)
    story.settle()
    pinned = story.arrive("pinned", cpuset="2")
    story.settle()
    assert (where(rt), where(pinned), where(plain)) == ("1,3", "2", "0,2,4-7")
    assert story.is_settled(rt)
    assert story.world.state.assignments[rt.key].moves[-1].cause == Pinned(cpus("2"))


def test_the_owner_stays_where_no_other_cpus_are_free() -> None:
    """It is settled, since nothing more can be done; and the clash is known."""
    story = Story(uniform(cores=3))
    rt = story.arrive("rt", 2)
    story.settle()
    story.arrive("pinned", cpuset="1")
    story.settle()
    assert (story.granted(rt), where(rt)) == ("1-2", "1-2")
    assert story.is_settled(rt)
    (clash,) = clashes(story.world)
    assert (clash.owner.name, clash.pinned.view.name, clash.cpus) == ("rt", "pinned", cpus("1"))


def test_an_elastic_owner_that_cannot_move_gives_up_what_it_gained() -> None:
    """It keeps its floor, and shares one CPU of that."""
    story = Dynamic(uniform(cores=4))
    rt = story.elastic("rt", 2, most=3)
    assert (str(story.grant(rt).original), story.granted(rt)) == ("1-2", "1-3")
    story.arrive("pinned", cpuset="2-3")
    assert story.granted(rt) == "1-2"
    assert story.why(rt) == "a container that is pinned by hand keeps CPU 3"
    (clash,) = clashes(story.world)
    assert clash.cpus == cpus("2")


def test_it_moves_by_its_own_rules() -> None:
    """Whole cores stay whole: its sibling comes along."""
    story = Story(uniform(cores=4, threads=2), reserved_cpus=cpus("0,4"), options=("full-pcpus-only",))
    rt = story.arrive("rt", 2)
    story.settle()
    assert story.granted(rt) == "1,5"
    story.arrive("pinned", cpuset="5")
    story.settle()
    assert story.granted(rt) == "2,6"


def test_an_elastic_owner_leaves_with_notice() -> None:
    """What it keeps stays; the rest is leaving until its grace is over."""
    story = Story(policy=PolicyName.DYNAMIC)
    rt = story.arrive("rt", 1, labels={"cpuset.max": "4"})
    story.settle()
    assert story.granted(rt) == "1-4"
    story.arrive("pinned", cpuset="1,3")
    grant = story.world.state.assignments[rt.key]
    assert grant.leaving is not None
    assert (grant.leaving.cpus, grant.leaving.is_due) == (cpus("1,3"), False)
    assert grant.cpus.isdisjoint(cpus("1,3"))
    assert len(grant.cpus) == 4


@pytest.mark.parametrize(("cores", "granted"), [(4, "3"), (3, None)])
def test_a_replacement_at_the_start_is_not_beside_a_pin(cores: int, granted: str | None) -> None:
    """The sidecar was down when the pin and the hotplug came, so it chose unaware. Where no other CPU is free, the
    container is refused instead.
    """
    story = Story(uniform(cores=cores))
    rt = story.arrive("rt", 1)
    story.settle()
    story.unseen("pinned", cpuset="2")
    story.toggle_cpu(1)
    story.crash([True])
    story.settle()
    assert story.granted(rt) == granted
    if granted is None:
        assert story.refusal(rt).code is RefusalCode.CPUS_LOST


@pytest.mark.parametrize("restarts", [1, 2])
@pytest.mark.parametrize("is_down", [True, False])
def test_a_replacement_that_was_chosen_unaware_is_so_also_after_another_restart(
    restarts: int, *, is_down: bool
) -> None:
    """Whether the sidecar was down, or only the engine away, when the pin and the hotplug came."""
    story = Story(uniform(cores=3))
    rt = story.arrive("rt", 1)
    story.settle()
    story.unseen("pinned", cpuset="2")
    story.toggle_cpu(1)
    if not is_down:
        story.disconnect()
        story.read_topology()
    for _ in range(restarts - 1 + is_down):
        story.crash([True], is_slow=True)
    if not story.is_reached:
        story.connect()
    story.take_inventory()
    story.settle()
    assert (story.granted(rt), story.refusal(rt).code) == (None, RefusalCode.CPUS_LOST)
    assert not story.world.state.unlooked


def test_a_stopped_pin_to_an_offline_cpu_blocks_nothing() -> None:
    """The engine would not start it."""
    story = Story(uniform(cores=4))
    pinned = story.arrive("pinned", cpuset="3")
    story.end(pinned)
    story.hotplug(3)
    rt = story.arrive("rt", 1)
    story.settle()
    assert story.granted(rt) == "1"
    assert story.is_settled(rt)


def test_a_clash_is_told_everywhere() -> None:
    """In the status of both, as a problem, in the projections, and once in the log."""
    story = Story(uniform(cores=3))
    rt = story.arrive("rt", 2)
    story.settle()
    before = story.world
    pinned = story.arrive("pinned", cpuset="1")
    story.settle()
    status = status_of(story.world)
    owner, other = (next(each for each in status.containers if each.name == name) for name in ("rt", "pinned"))
    assert (owner.is_settled, owner.is_alone) == (True, False)
    assert "pinned (pinned by hand) may run there too." in owner.explanation
    assert "shares CPU 1 with rt" in other.explanation[0]
    assert [(each.kind, each.container) for each in problems_of(status)] == [(ProblemKind.CLASH, "rt")]
    told = projection_of(story.world, story.known(rt))
    assert (told.settled, told.alone) == (True, False)
    assert told.reason.endswith("; pinned (pinned by hand) may run there too")
    assert "shares CPU 1 with rt" in projection_of(story.world, story.known(pinned)).reason
    lines = [line.fields for line in news(before, story.world) if line.level is LogLevel.WARNING]
    assert lines == [{"container": "rt", "cpus": cpus("1"), "pinned": "pinned"}]
    assert [*news(story.world, story.world)] == []


def test_where_the_kernel_lets_one_run_whose_own_cpu_went_it_is_not_pinned() -> None:
    """Whichever is seen first, the CPU that went or where the container runs since, and when the CPU comes back."""
    story = Story(uniform(cores=4))
    pinned = story.arrive("pinned", cpuset="1")
    rt = story.arrive("rt", 2)
    story.settle()
    assert story.granted(rt) == "2-3"
    before = story.world
    story.toggle_cpu(1)
    story.look(pinned)
    assert clashes(story.world) == ()
    assert pinned_text(story.world, story.known(pinned)).startswith("pinned by hand to CPU 1, and seen on CPUs 0,2-3: ")
    story.read_topology()
    assert clashes(story.world) == ()
    told = "pinned by hand to CPU 1, which is offline: it runs on CPUs 0,2-3, which others may be granted"
    assert pinned_text(story.world, story.known(pinned)) == told
    story.toggle_cpu(1)
    story.read_topology()
    assert clashes(story.world) == ()
    assert [line for line in news(before, story.world) if line.level is LogLevel.WARNING] == []
    assert "pinned (pinned by hand) may run there too" in projection_of(story.world, story.known(rt)).reason


def test_one_that_rests_and_whose_cpus_are_offline_runs_nowhere() -> None:
    story = Story(uniform(cores=4))
    pinned = story.arrive("pinned", cpuset="2-3")
    story.end(pinned)
    story.hotplug(2, 3)
    assert pinned_text(story.world, story.known(pinned)) == "pinned by hand to CPUs 2-3, all of which are offline"
