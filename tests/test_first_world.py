"""The World with which a daemon begins is recorded before it is told."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.commit.fallback_books import SparedCheckpoint
from sidecar.config.config import Config
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from sidecar.first_world import first_world
from sidecar.log import Log
from state.checkpoint import CheckpointFile
from state.errors import FileUnwritable
from state.model import State
from state.topology import Topology, topology, uniform
from tests.support.decide.stories import Story, cpus

MACHINE = uniform(cores=8)


class Lines(io.StringIO):
    """A log that has what the books had when a line was written."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.books: list[State | None] = []

    def write(self, text: str) -> int:
        self.books.append(CheckpointFile(str(self.folder)).load().state)
        return super().write(text)


@pytest.fixture
def checkpoints(tmp_path: Path) -> Iterator[SparedCheckpoint]:
    """Yield books that have a grant of 1-2."""
    with SparedCheckpoint(str(tmp_path), str(tmp_path / "spare")) as opened:
        opened.save(recorded())
        yield opened


def recorded() -> State:
    story = Story(MACHINE)
    story.arrive("rt", 2)
    story.settle()
    return story.world.state


def without_cpu_2() -> Topology:
    return topology(cores=[core.cpus for core in MACHINE.cores if core.cpus != cpus("2")])


def begun(checkpoints: SparedCheckpoint, lines: io.StringIO) -> World:
    config = Config(policy=PolicyName.STATIC, reserved=cpus("0"))
    return first_world(config, recorded(), without_cpu_2(), checkpoints, Log(lines), (), ())


def test_what_it_says_is_in_the_books(checkpoints: SparedCheckpoint, tmp_path: Path) -> None:
    """A daemon that is killed then is followed by one that goes on from there."""
    lines = Lines(tmp_path)
    world = begun(checkpoints, lines)
    assert "were adapted" in lines.getvalue()
    assert {str(each.cpus) for each in world.state.assignments.values()} == {"1,3"}
    assert lines.books
    assert all(each and each.assignments == world.state.assignments for each in lines.books)


def test_it_begins_also_if_that_cannot_be_written(
    checkpoints: SparedCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first decision tells why, and tries again."""

    def failing(self: SparedCheckpoint, state: State) -> str:
        raise FileUnwritable("the disk is full")

    monkeypatch.setattr(SparedCheckpoint, "save", failing)
    lines = io.StringIO()
    begun(checkpoints, lines)
    assert "were adapted" in lines.getvalue()
