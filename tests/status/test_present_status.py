"""The status document is made once for all that read it, and again when something else is true."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from sidecar.board import Board
from sidecar.decide.world import World
from sidecar.status import present_status
from sidecar.status.deadlines import Deadlines
from sidecar.status.describe import status_of
from sidecar.status.document import Status
from sidecar.status.present_status import PresentStatus
from sidecar.version import version
from sidecar.words.units import HostConfinement
from state.topology import uniform
from tests.support.decide.stories import Story

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def present(board: Board) -> PresentStatus:
    return PresentStatus(board, Deadlines(lambda: NOW))


def test_it_is_made_once_for_each_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is read, by whichever reader."""
    made: list[World] = []

    def counted(world: World, **told: Any) -> Status:
        made.append(world)
        return status_of(world, **told)

    monkeypatch.setattr(present_status, "status_of", counted)
    story = Story()
    board = Board(story.world)
    status = present(board)
    assert [status.of() for _ in range(3)] == [status.of()] * 3
    story.arrive("rt", 2)
    board.post(story.world)
    assert [each.name for each in status.of().containers] == ["rt"]
    board.post(story.world)
    status.of()
    assert [id(each) for each in made] == [id(made[0]), id(story.world)]


def test_it_is_what_is_true_now() -> None:
    """After a change of the World, of the machine, of a problem, or of what is known of the host's own processes."""
    story = Story()
    board = Board(story.world)
    status = present(board)

    def is_true() -> bool:
        problems = tuple(board.problems.values())
        return status.of() == status_of(board.latest, program=version(), problems=problems, host=board.host)

    assert is_true()
    story.arrive("rt", 2)
    board.post(story.world)
    assert is_true()
    board.report("disk", "the disk is full")
    assert is_true()
    assert status.of().problems == ("the disk is full",)
    board.report("disk", None)
    assert is_true()
    board.tell_host(HostConfinement(is_confining=True, holes={"sshd.service": "it is as it was"}))
    assert is_true()
    assert status.of().host is not None
    board.post(Story(uniform(cores=2)).world)
    assert is_true()
    assert str(status.of().machine.online) == "0-1"


def test_a_problem_that_is_told_of_the_present_world_is_told_anew() -> None:
    """Its text is made from the World that it is shown with."""
    story = Story()
    board = Board(story.world)
    board.report("one", lambda world: f"{len(world.containers)} containers are astray")
    status = present(board)
    assert status.of().problems == ("0 containers are astray",)
    story.arrive("rt", 2)
    board.post(story.world)
    assert status.of().problems == ("1 containers are astray",)
