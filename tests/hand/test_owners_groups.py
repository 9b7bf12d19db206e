"""Births inside owners' groups, as each hand tells them: the real one on v1 and v2, and the simulated one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.decide.orders import Answers
from sidecar.hand import owners_groups
from sidecar.hand.owners_groups import MOST_GROUPS
from sidecar.ports import GroupBorn, GroupGone, HandNews
from tests.hand.test_contract import ANSWERS, LAST, ONE, OWN, POOL, THREE, TWO, at, begun, born
from tests.support.hand.stages import Stage, news_until, v2_stage
from tests.support.keys import docker

# The owner is TWO.


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Stage]:
    """Yield a stage on plain files, with the watcher alone."""
    with v2_stage(tmp_path) as opened:
        yield opened


def told(stage: Stage, last: HandNews | str) -> list[tuple[str, str, str]]:
    """Wait for this news, or the birth of this id. Return the births inside owners that were told until then."""
    news = news_until(stage.hand, lambda each: each == last or (isinstance(each, GroupBorn) and each.id == last))
    return [(each.id, each.path, each.inside) for each in news if isinstance(each, GroupBorn) and each.inside]


def test_a_birth_inside_an_owner_is_told_and_nothing_is_written(stage: Stage) -> None:
    """It has what the owner has; and its end is told."""
    begun(stage)
    stage.make(at(TWO))
    path = f"{at(TWO)}/{ONE}"
    stage.make(path)
    assert told(stage, ONE) == [(ONE, path, TWO)]
    stage.remove(path)
    news_until(stage.hand, lambda each: each == GroupGone(ONE, path, TWO))
    stage.make(path)
    assert told(stage, ONE) == [(ONE, path, TWO)]


def test_one_that_is_deeper_is_told_as_well(stage: Stage) -> None:
    """However it came to be there: one level after the other, or all of them before a level was watched."""
    begun(stage)
    stage.make(at(TWO))
    for path in ("/deep", "/deep/er", f"/deep/er/docker-{ONE}.scope", f"/deep/er/docker-{ONE}.scope/{THREE}"):
        stage.make(f"{at(TWO)}{path}")
    found = told(stage, THREE)
    assert [(id, owner) for id, _, owner in found] == [(ONE, TWO), (THREE, TWO)]


def test_what_is_inside_a_container_that_becomes_an_owner_is_told_then(stage: Stage) -> None:
    """And that it is inside an owner no more, once that is none."""
    begun(stage, answers=Answers(others=POOL, own={docker(TWO): POOL}))
    stage.make(at(TWO))
    stage.make(path := f"{at(TWO)}/{ONE}")
    stage.make(at(LAST))
    assert told(stage, LAST) == []
    stage.hand.hold(ANSWERS)
    assert told(stage, ONE) == [(ONE, path, TWO)]
    stage.hand.hold(Answers(others=POOL, own={docker(TWO): POOL}))
    news_until(stage.hand, lambda each: each == GroupGone(ONE, path, TWO))


def test_what_has_no_containers_name_is_not_told(stage: Stage) -> None:
    """A system in the container makes groups of its own; nor is what is inside any other container told."""
    begun(stage)
    stage.make(at(TWO))
    stage.make(at(THREE))
    for path in (f"{at(TWO)}/init.scope", f"{at(TWO)}/system.slice", f"{at(THREE)}/{ONE}", at(LAST)):
        stage.make(path)
    assert told(stage, LAST) == []


def test_a_group_that_has_only_the_name_of_an_owner_is_none(stage: Stage) -> None:
    """The owner is elsewhere: what is inside that group runs where newborns do."""
    begun(stage)
    stage.hand.hold(Answers(others=POOL, own={docker(TWO): OWN}, owned=OWN, named={docker(TWO): "/docker/elsewhere"}))
    stage.make(at(TWO))
    stage.make(f"{at(TWO)}/{ONE}")
    stage.make(at(LAST))
    assert told(stage, LAST) == []


def test_events_that_were_lost_are_replaced_by_reading(files: Stage) -> None:
    """What is inside is told again: the news may be lost with them."""
    begun(files)
    files.make(at(TWO))
    files.make(path := f"{at(TWO)}/{ONE}")
    assert told(files, ONE) == [(ONE, path, TWO)]
    hand = files.hand
    with hand._lock:  # type: ignore[attr-defined]
        hand._read_all(0.0)  # type: ignore[attr-defined]
    assert told(files, ONE) == [(ONE, path, TWO)]


def test_no_more_groups_are_watched_than_the_limit(files: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workload that makes thousands takes no watches from others. What goes is watched no more."""
    monkeypatch.setattr(owners_groups, "MOST_GROUPS", 3)
    begun(files)
    files.make(at(TWO))
    born(files)
    for path in ("/a", "/b", "/c", f"/a/{ONE}", f"/c/{THREE}"):
        files.make(f"{at(TWO)}{path}")
    files.make(at(LAST))
    assert [id for id, _, _ in told(files, LAST)] == [ONE]
    inside = files.hand._inside  # type: ignore[attr-defined]
    assert len(inside._at) == 3
    for path in (f"/a/{ONE}", "/a", "/b"):
        files.remove(f"{at(TWO)}{path}")
    news_until(files.hand, lambda each: isinstance(each, GroupGone) and each.id == ONE)
    files.make(f"{at(TWO)}/d")
    files.make(f"{at(TWO)}/d/{ONE}")
    assert [id for id, _, _ in told(files, ONE)] == [ONE]
    assert MOST_GROUPS == 256, "the pages name it"


def test_an_owner_that_is_gone_has_no_watches(files: Stage) -> None:
    begun(files)
    files.make(at(TWO))
    files.make(f"{at(TWO)}/deep")
    born(files)
    files.remove(f"{at(TWO)}/deep")
    files.remove(at(TWO))
    news_until(files.hand, lambda each: isinstance(each, GroupGone) and each.id == TWO)
    inside = files.hand._inside  # type: ignore[attr-defined]
    assert (inside._owners, inside._at) == ({}, {})
