"""What several arrivals of one decision took is told of each as it has it in the end."""

from __future__ import annotations

import pytest

from sidecar.decide.books import dynamic
from sidecar.decide.facts import ContainerSeen
from sidecar.words.causes import why
from state.topology import uniform
from tests.decide.lawbook.reasonlaws import untrue
from tests.support.decide import stories
from tests.support.decide.dynamic import Dynamic, elastic_labels
from tests.support.decide.real import Real
from tests.support.decide.stories import cpus


def two_at_once() -> tuple[Dynamic, Real, Real, Real]:
    """Return a host on which two containers arrive in one decision, both at the cost of a third one that has grown."""
    story = Dynamic(uniform(packages=2, cores=6, threads=2), reserved_cpus=cpus("0,12"), shared_min=3, grace_seconds=20)
    large = story.elastic("large", 11, 1, 29)
    first = story.unseen("first", 3, starts=False, labels=elastic_labels(1, None))
    second = story.unseen("second", 6, starts=False, labels=elastic_labels(3, None))
    story.feed(*(ContainerSeen(real.view(), story.ticket()) for real in (first, second)))
    return story, large, first, second


def test_what_was_lost_is_told_of_the_container_that_has_it() -> None:
    """The second one gets what the first was found."""
    story, large, first, second = two_at_once()
    told = {why(move.cause).partition(" above")[0]: str(move.lost) for move in story.grant(large).moves if move.lost}
    sizes = {name: len(story.grant(real).cpus) for name, real in (("first", first), ("second", second))}
    assert told == {
        f"{name} arrived and took {size} CPU{'s' if size > 1 else ''}": str(story.grant(real).cpus)
        for name, size, real in (("first", sizes["first"], first), ("second", sizes["second"], second))
    }


def test_there_is_one_notice_for_it() -> None:
    story, large, *_ = two_at_once()
    leaving = story.grant(large).leaving
    assert leaving is not None
    assert [batch.cpus for batch in leaving.batches] == [leaving.cpus]


def test_a_new_grant_begins_with_what_it_has_in_the_end() -> None:
    story, _, first, second = two_at_once()
    assert (story.grant(first).moves, story.grant(second).moves) == ((), ())


def test_another_taker_is_caught_by_the_law_of_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: each is told to have what it was found, though another one has it since."""
    monkeypatch.setattr(dynamic, "with_true_takers", lambda before, state: state)
    monkeypatch.setattr(stories, "breaches", lambda laws, reality, when: [])
    story, *_ = two_at_once()
    assert any("second arrived and has" in each for each in untrue(story))
