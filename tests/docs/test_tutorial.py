"""What the tutorial and the README show is what the program prints beside a hand, but for identifiers, versions and
times.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sidecar.cli.cmd_status import rendered
from sidecar.cli.explained_tenant import rendered as explained
from sidecar.decide.container.container import Standing
from sidecar.decide.container.grip import Guarded
from sidecar.decide.facts import ContainerView
from sidecar.decide.hand_state import HandState
from sidecar.decide.orders import Answers, HoldAnswers
from sidecar.decide.world import World, replace
from sidecar.status.describe import status_of
from sidecar.status.sight import WORKS
from sidecar.words.reasons import reason_of
from sidecar.words.units import HostConfinement
from state.topology import uniform
from tests.cli.worlds import container, world
from tests.docs.pages import ROOT

TUTORIAL = ROOT / "docs" / "tutorial.md"

NOISY, SIDECAR = container("quiet-noisy-1"), container("quiet-sidecar-1")
QUIET = container("quiet-quiet-1", exclusive=1)
SECOND = container("second", exclusive=1, labels={"cpuset.on-shortage": "wait"})
DEMO = [container(f"cpuset-sidecar-demo_{name}_1") for name in ("noisy", "sidecar")]
ALONE = container("cpuset-sidecar-demo_exclusive_1", exclusive=1)


def general(text: str) -> str:
    """Return a text without what differs from host to host and from time to time."""
    text = re.sub(r"\b[0-9a-f]{12}\b", "ID", text)
    text = re.sub(r" on docker [^ ]+", " on docker VERSION", text)
    return re.sub(r"the last change was .* ago", "the last change was SOME TIME ago", text)


def host(*views: ContainerView) -> World:
    """Return the World of a sidecar with a hand, as the compose files mount what it needs."""
    made = world(uniform(cores=2), *views)
    state = made.state
    answers = Answers(others=state.shared, owned=state.exclusive)
    hand = HandState(parents=("/docker",), since=1, held=HoldAnswers(0, answers, online=state.online))
    guarded = {
        key: replace(each, grip=Guarded(each.place.seen)) if each.wish.standing is Standing.MANAGED else each
        for key, each in made.containers.items()
    }
    return replace(made, hand=hand, containers=guarded)


def page(*views: ContainerView, unconfined: str = "") -> str:
    told = HostConfinement(is_confining=False, why_not=unconfined) if unconfined else None
    status = status_of(host(*views), host=told)
    return "\n".join(rendered(status, datetime.now(UTC), WORKS))


def sentences(name: str, *views: ContainerView) -> str:
    [told] = [each for each in status_of(host(*views)).containers if each.name == name]
    # The last sentence of the page needs the machine, which `explain` reads itself.
    return "\n".join(explained(told, WORKS))


@pytest.mark.parametrize(
    ("where", "printed"),
    [
        (TUTORIAL, page(SIDECAR, NOISY)),
        (TUTORIAL, page(SIDECAR, NOISY, QUIET)),
        (TUTORIAL, sentences("quiet-quiet-1", SIDECAR, NOISY, QUIET)),
        (TUTORIAL, sentences("second", SIDECAR, NOISY, QUIET, SECOND)),
        (ROOT / "README.md", page(*DEMO, ALONE, unconfined="on cgroup v1, name groups in host_groups")),
    ],
    ids=["before", "after", "why", "refused", "README"],
)
def test_a_page_shows_what_the_program_prints(where: Path, printed: str) -> None:
    """Word for word, line by line."""
    assert general(printed) in general(where.read_text())


def test_the_tutorial_shows_the_reason_that_a_workload_reads() -> None:
    """In the line of `watch`."""
    made = host(SIDECAR, NOISY, QUIET, SECOND)
    assert reason_of(made, made.containers[SECOND.key]) in TUTORIAL.read_text()
