"""The answers to owners are never ahead of the books on the disk, and are withdrawn before these."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from sidecar.api.owner_answers import OwnerAnswers
from sidecar.decide.facts import GiveUpRequested
from sidecar.decide.world import replace
from state.cpuset import CPUSet
from state.errors import StateError
from state.model import State
from tests.decide.moves.test_glanced import ONE, Host


class Disk:
    """What fronts find."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.writes = 0
        self.is_full = False

    def keep(self, answers: Mapping[str, str]) -> None:
        """Have these answers."""
        self.writes += 1
        if self.is_full:
            self.answers = {}
            raise StateError("the disk is full")
        self.answers = dict(answers)


@pytest.fixture
def host() -> Host:
    return Host()


def test_an_answer_is_that_of_the_route_and_is_written_once(host: Host) -> None:
    """And again only when it changes. Where ids begin alike, it names no projection."""
    disk, id = Disk(), host.owner.key.id
    kept = OwnerAnswers(disk.keep)
    for _ in range(3):
        kept.narrow(host.world)
        kept.extend(host.world.state)
        host.arrive("plain-more")
    cpus = str(host.world.state.assignments[host.owner.key].cpus)
    assert {each: json.loads(answer) for each, answer in disk.answers.items()} == {
        id: {
            "update": {"cpus": cpus, "mems": None, "quota": None},
            "exclusive": True,
            "projection": None,
        }
    }
    assert disk.writes == 1


def test_nothing_stands_that_the_saved_books_do_not_have(host: Host) -> None:
    """They could not be written, or are those of before."""
    disk, state = Disk(), host.world.state
    kept = OwnerAnswers(disk.keep)
    kept.narrow(host.world)
    grant = state.assignments[host.owner.key]
    other = replace(grant, cpus=grant.cpus | CPUSet.of(max(state.shared)))
    for saved in (None, State(), replace(state, assignments={host.owner.key: other})):
        kept.extend(saved)
        assert disk.answers == {}
    kept.extend(state)
    assert disk.answers.keys() == {host.owner.key.id}


def test_it_is_withdrawn_before_books_are_committed_and_another_is_added_after(host: Host) -> None:
    """In the same decision."""
    disk, second = Disk(), host.arrive("second", labels=ONE)
    kept = OwnerAnswers(disk.keep)
    kept.narrow(host.world)
    kept.extend(host.world.state)
    assert disk.answers.keys() == {host.owner.key.id, second.key.id}
    saved = host.world.state
    host.feed(GiveUpRequested(host.owner.key, "2026-01-01T00:00:00Z"))
    kept.narrow(host.world)
    assert disk.answers.keys() == {second.key.id}
    kept.extend(saved)
    assert disk.answers.keys() == {second.key.id}


def test_what_could_not_be_written_is_tried_again(host: Host) -> None:
    """With the next decision, whether or not it changes anything."""
    disk = Disk()
    kept = OwnerAnswers(disk.keep)
    kept.narrow(host.world)
    disk.is_full = True
    with pytest.raises(StateError):
        kept.extend(host.world.state)
    with pytest.raises(StateError):
        kept.narrow(host.world)
    disk.is_full = False
    kept.narrow(host.world)
    kept.extend(host.world.state)
    assert disk.answers.keys() == {host.owner.key.id}
