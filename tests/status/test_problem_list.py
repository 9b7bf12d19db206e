"""Problems of the status document: all of them, each once."""

from __future__ import annotations

from sidecar.decide.world import replace
from sidecar.status.describe import status_of
from sidecar.status.problem_list import Problem, ProblemKind, problems_of
from state.topology import uniform
from tests.cli.worlds import container, world


def test_every_problem_is_told_once() -> None:
    """A refusal for a wrong label is no warning as well; a label without effect is one beside it."""
    wrong = container("odd", exclusive="two", labels={"cpuset.grace": "5s"})
    status = status_of(world(uniform(cores=4), wrong, container("log")), problems=("the disk is full",))
    problems = problems_of(status)
    assert problems[0] == Problem(kind=ProblemKind.DAEMON, text="the disk is full")
    assert [(each.kind, each.container) for each in problems[1:]] == [
        (ProblemKind.REFUSED, "odd"),
        (ProblemKind.LABEL, "odd"),
    ]


def test_all_mistakes_in_the_labels_of_a_container_are_told() -> None:
    """Not the first one alone."""
    labels = {"cpuset.scale": "auto", "cpuset.weight": "1000", "cpuset.grace": "5m", "cpuset.signal": "WINSH"}
    status = status_of(world(uniform(cores=4), container("odd", exclusive="1", labels=labels)))
    said = "; ".join(each.text for each in problems_of(status))
    assert all(label in said for label in labels)


def test_a_container_without_problems_has_none() -> None:
    """A wait and a notice are no problems."""
    status = status_of(world(uniform(cores=4), container("web", exclusive=1), container("log")))
    assert problems_of(status) == ()
    failed = replace(status, containers=(replace(status.containers[0], trouble="the engine refused it"),))
    assert [each.kind for each in problems_of(failed)] == [ProblemKind.FAILED]
