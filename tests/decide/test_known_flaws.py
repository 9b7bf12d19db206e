"""What the daemon is known to do wrongly, each as the story of what it should do: a flaw that is mended fails here."""

from __future__ import annotations

import pytest

from state.cpuset import CPUSet
from tests.decide import strictstarts
from tests.decide.stories import Story, cpus, where
from tests.decide.test_starting import strict


@pytest.mark.xfail(reason="a start that was answered counts as on its way until an order ends", strict=True)
def test_one_that_died_before_its_answered_start_gives_its_cpus_back() -> None:
    """It can never start, and no order to it is given that would end the doubt; nothing ends its grant."""
    story = Story()
    real = strict(story, exclusive=2)
    strictstarts.hold(story, real)
    strictstarts.go_on(story, real, fails=True)
    story.remove(real, by_half=True)
    story.look(real)
    story.settle()
    while story.timers:
        story.time_out(0)
    assert real.id not in story.world.state.assignments


@pytest.mark.xfail(reason="what a glance does not show is taken for having no cpuset and no limits", strict=True)
def test_a_release_waits_for_a_look_at_what_was_only_glanced_at() -> None:
    """A sidecar that began during a start has not seen what the container is configured for: it may still differ from
    what it had, and its limits may still be lifted.
    """
    story = Story()
    real = strict(story, exclusive=2, quota=200_000)
    story.look(real)
    strictstarts.hold(story, real)
    story.crash([True])
    assert story.known(real).view.is_glance
    story.release()
    assert real.id in story.world.state.originals


@pytest.mark.xfail(reason="the footprint of a strict container that runs is where it was seen", strict=True)
def test_what_a_strict_container_was_ordered_onto_without_effect_is_in_its_footprint() -> None:
    """The cgroup above it lacks CPUs: once that has them, the kernel lets it run there, and nobody says so."""
    story = Story()
    real = strict(story)
    strictstarts.hold(story, real)
    strictstarts.go_on(story, real, fails=False)
    story.look(real)
    story.settle()
    story.tamper(real, cpus("4"))
    story.look(real)
    story.deliver(0, "ineffective")
    assert where(real) == "4"
    story.relent(real)
    assert where(real) == "0-7"
    assert cpus("0-7") <= CPUSet.from_mask(story.known(real).footprint)
