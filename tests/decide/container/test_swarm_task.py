"""Tasks of Docker Swarm: a task that ended leaves its CPUs to its replacement, and its reservation is compared."""

from __future__ import annotations

import pytest

from sidecar.decide.container.swarm_task import TASK_LABEL, is_over
from sidecar.decide.facts import Phase, Purpose
from sidecar.decide.orders import StartTimer
from sidecar.decide.settings import PolicyName
from sidecar.simulation.model_kernel import ModelKernel
from sidecar.words.mistaken import sentence
from state.key import ContainerKey
from state.topology import uniform
from tests.support.decide.real import ENGINE, Real
from tests.support.decide.stories import Story, where

TASK = {TASK_LABEL: "z5z4ui7c3t20p5yutsvhuy4x0"}


def lingers(story: Story) -> list[StartTimer]:
    return [each for each in story.given if isinstance(each, StartTimer) and each.purpose is Purpose.LINGER]


def warnings(story: Story, real: Real) -> tuple[str, ...]:
    return tuple(map(sentence, story.known(real).wish.warnings))


@pytest.mark.parametrize("policy", [PolicyName.STATIC, PolicyName.DYNAMIC])
def test_a_task_that_ended_leaves_its_cpus_to_its_replacement(policy: PolicyName) -> None:
    """On a node with one CPU to grant: the old container still exists, and no timer has passed."""
    story = Story(uniform(cores=2), policy=policy)
    old = story.arrive("web.1.old", 1, labels=TASK)
    story.settle()
    assert (story.granted(old), where(old)) == ("1", "1")
    before = lingers(story)
    story.end(old)
    story.settle()
    assert (story.granted(old), lingers(story)) == (None, before)
    new = story.arrive("web.1.new", 1, labels=TASK)
    story.settle()
    assert (story.granted(new), where(new)) == ("1", "1")
    assert story.is_settled(new)


def test_a_replacement_that_came_first_gets_the_cpus_once_the_old_one_ends() -> None:
    """Swarm may start the new task before it stops the old one: if it waits, it is granted at that moment."""
    story = Story(uniform(cores=2))
    old = story.arrive("web.1.old", 1, labels=TASK)
    new = story.arrive("web.1.new", 1, labels={**TASK, "cpuset.on-shortage": "wait"})
    story.settle()
    assert (story.granted(new), where(new)) == (None, "0")
    story.end(old)
    story.settle()
    assert (story.granted(old), story.granted(new), where(new)) == (None, "1", "1")


def test_a_task_that_is_not_started_yet_has_all_its_time() -> None:
    """Swarm, too, creates and starts in two steps: between them the task keeps its CPUs."""
    story = Story(uniform(cores=2))
    task = story.arrive("web.1.new", 1, labels=TASK, starts=False)
    story.settle()
    assert (story.granted(task), where(task)) == ("1", "stopped 1")
    assert [each.container for each in lingers(story)] == [task.key]


def test_any_other_container_that_stops_is_waited_for() -> None:
    """A label with the same beginning does not make it a task."""
    story = Story(uniform(cores=2))
    other = story.arrive("other", 1, labels={TASK_LABEL + "s": "x"})
    story.settle()
    story.end(other)
    story.settle()
    assert story.granted(other) == "1"
    assert lingers(story)[-1] == story.given[-1]


def test_a_task_is_over_only_once_it_ran() -> None:
    """By its phase, regardless of all else."""
    task = Real(
        key=ContainerKey(ENGINE, "0" * 64), name="web.1.x", kernel=ModelKernel(uniform(cores=2)), labels=dict(TASK)
    )
    over = []
    for phase in Phase:
        task.phase = phase
        if is_over(task.view()):
            over.append(phase)
    assert set(over) == {Phase.REMOVING, Phase.EXITED, Phase.DEAD}


@pytest.mark.parametrize(
    ("exclusive", "set_aside", "says"),
    [
        (1, 1, ()),
        (None, 0, ()),
        (2, 1, ("Swarm set exclusive-cpu=1 aside for it, and it asks for 2: make them equal",)),
        (2, 0, ("Swarm set no exclusive-cpu aside for it, and it asks for 2: reserve exclusive-cpu=2 in the service",)),
        (
            None,
            3,
            ("Swarm set exclusive-cpu=3 aside for it, and it has no label cpuset.exclusive: make them equal",),
        ),
    ],
)
def test_what_the_scheduler_counted_is_what_the_task_asks_for(
    exclusive: int | None, set_aside: int, says: tuple[str, ...]
) -> None:
    """If not, it is reported; the task gets what it asks for in both cases."""
    story = Story()
    task = story.unseen("web.1.x", exclusive, labels=TASK)
    task.set_aside = set_aside
    story.look(task)
    assert warnings(story, task) == says
    assert (story.granted(task) is not None) == (exclusive is not None)


def test_a_container_that_is_no_task_is_not_asked_what_was_set_aside() -> None:
    """Whatever its environment contains."""
    story = Story()
    plain = story.unseen("plain", 2)
    plain.set_aside = 1
    story.look(plain)
    assert warnings(story, plain) == ()
