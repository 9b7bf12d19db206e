"""What is said of a container that is pinned by hand is what is decided: until when no other gets its CPUs."""

from __future__ import annotations

from sidecar.decide.settings import TenantRight
from sidecar.status.cpu_view import CPUKind, cpu_view
from sidecar.status.describe import status_of
from sidecar.words.neighbours import pin_text, pinned_text
from state.cpuset import EMPTY
from state.topology import uniform
from tests.support.decide.real import Real
from tests.support.decide.stories import Story, cpus


def told(story: Story, real: Real) -> str:
    return pin_text(story.world, story.known(real))


def test_while_it_runs_no_other_container_is_granted_its_cpus() -> None:
    """Without the right to pin, too: the sentence, the status and the decision agree, for one CPU and for several."""
    story = Story(uniform(cores=4), may=())
    one, two = story.arrive("one", cpuset="3"), story.arrive("two", cpuset="0,2")
    story.settle()
    assert told(story, one) == "pinned by hand to CPU 3, which is granted to no other container while this one runs"
    assert told(story, two) == "pinned by hand to CPUs 0,2, which are granted to no other container while this one runs"
    status = status_of(story.world)
    assert {each.name: each.pinned for each in status.containers} == {"one": cpus("3"), "two": cpus("0,2")}
    view = cpu_view(status, 3)
    assert view is not None
    assert view.kind is CPUKind.STRANGER
    asks = story.arrive("asks", 2)
    assert story.granted(asks) is None
    assert "in use by containers pinned by hand: one, two" in story.why_refused(asks)


def test_while_it_does_not_run_another_container_may_be_granted_them() -> None:
    story = Story(uniform(cores=2), may=())
    real = story.arrive("pinned", cpuset="1")
    story.settle()
    story.end(real)
    assert told(story, real) == (
        "pinned by hand to CPU 1, which another container may be granted while this one does not run"
    )
    assert status_of(story.world).containers[0].pinned == EMPTY
    asks = story.arrive("asks", 1)
    assert story.granted(asks) == "1"
    assert told(story, real) == (
        "pinned by hand to CPU 1, of which others were granted CPU 1: it runs in the shared pool"
    )


def test_cpus_that_are_offline_are_granted_to_none() -> None:
    """They are not said to be another container's."""
    story = Story(uniform(cores=4), may=())
    real = story.arrive("pinned", cpuset="2-3")
    story.settle()
    story.hotplug(3)
    assert told(story, real) == (
        "pinned by hand to CPUs 2-3, which are granted to no other container while this one runs"
    )
    asks = story.arrive("asks", 1)
    assert story.granted(asks) == "1"
    story.hotplug(2)
    assert told(story, real) == "pinned by hand to CPUs 2-3, all of which are offline: it runs in the shared pool"


def test_one_that_keeps_itself_out_has_its_cpus_while_it_runs() -> None:
    """It is never moved; what it has while it rests is for all, as long as tenants may not pin."""
    story = Story(uniform(cores=2), may=(TenantRight.OPT_OUT,))
    real = story.arrive("out", cpuset="1", labels={"cpuset.manage": "off"})
    never = "pinned by hand to CPU 1: it is never moved, "
    assert pinned_text(story.world, story.known(real)) == f"{never}and no other container gets these CPUs exclusively"
    story.end(real)
    said = pinned_text(story.world, story.known(real))
    assert said == f"{never}but others may be granted these CPUs while it does not run"
    asks = story.arrive("asks", 1)
    assert story.granted(asks) == "1"


def test_one_that_the_owner_of_the_host_keeps_out_has_its_cpus_while_it_rests() -> None:
    """The owner's list is the right to pin as well."""
    story = Story(uniform(cores=2), may=(), unmanaged=("out",))
    real = story.arrive("out", cpuset="1")
    story.end(real)
    never = "pinned by hand to CPU 1: it is never moved, "
    assert pinned_text(story.world, story.known(real)) == f"{never}and no other container gets these CPUs exclusively"
    asks = story.arrive("asks", 1)
    assert story.granted(asks) is None
    assert "in use by containers pinned by hand" in story.why_refused(asks)
