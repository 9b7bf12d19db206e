"""Who had which CPUs in the last hour: from worlds, through the file, to the history."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.status.grant_changes import changes_at_start, changes_between
from sidecar.status.grant_history import (
    HOUR,
    GrantChange,
    history,
    kept,
    last_changes,
)
from sidecar.status.history_file import LIMIT, NAME, HistoryFile
from sidecar.words.changes import news
from state.cpuset import CPUSet
from state.errors import StateError
from tests.support.decide.stories import Story

AT = 1_800_000_000.0


def told(story: Story, before: object, at: float = AT) -> list[tuple[str, str, str]]:
    """Return the changes since a world, as name, CPUs and reason."""
    assert isinstance(before, type(story.world))
    lines = list(news(before, story.world))
    changes = changes_between(before, story.world, at, lines)
    return [(each.name, str(each.cpus), each.reason) for each in changes]


def test_a_grant_its_end_and_their_reasons() -> None:
    """Granted, ended with the container, and not mentioned while it stays as it is."""
    story = Story(linger_seconds=0.0)
    before = story.world
    voice = story.arrive("voice", 2)
    story.settle()
    assert told(story, before) == [("voice", "1-2", "granted")]
    before = story.world
    story.arrive("web")
    story.settle()
    assert told(story, before) == []
    before = story.world
    story.away(voice)
    assert told(story, before) == [("voice", "", "released: it was removed")]


def test_what_changed_while_no_daemon_ran_is_found_at_its_start() -> None:
    """A start is recorded, then what is not as it was."""
    story = Story()
    story.arrive("voice", 2)
    story.settle()
    [(key, grant)] = story.world.state.assignments.items()
    same = GrantChange(at=AT - 60, container=key.id, name="voice", cpus=grant.cpus)
    gone = GrantChange(at=AT - 50, container="6f0c", name="db", cpus=CPUSet.of(5))
    begun = list(changes_at_start([same, gone], story.world, AT))
    assert [(each.container, each.name, str(each.cpus)) for each in begun] == [("", "", ""), ("6f0c", "db", "")]
    [_, other] = changes_at_start([], story.world, AT)
    assert (other.name, other.cpus, other.at) == ("voice", grant.cpus, AT)


CHANGES = st.lists(
    st.builds(
        GrantChange,
        at=st.floats(0, 3 * HOUR),
        container=st.sampled_from(["", "a", "b", "c"]),
        cpus=st.sampled_from([CPUSet(), CPUSet.of(1), CPUSet.of(2, 3)]),
    ),
    max_size=30,
).map(lambda found: sorted(found, key=lambda each: each.at))


def held(changes: object, at: float) -> dict[str, CPUSet]:
    """Return what each container holds at a time, by a walk through the changes."""
    now: dict[str, CPUSet] = {}
    for each in changes:  # type: ignore[attr-defined]
        if each.at <= at and each.container:
            now[each.container] = each.cpus
    return {container: cpus for container, cpus in now.items() if cpus}


@given(CHANGES, st.integers(3, 40))
def test_what_is_dropped_is_missed_at_no_time_of_the_hour(changes: list[GrantChange], most: int) -> None:
    """Whoever held CPUs in the last hour is told to have held them, however much is dropped before."""
    now = 3 * HOUR
    left = kept(changes, now)
    for at in (now - HOUR, now - HOUR / 2, now):
        assert held(left, at) == held(changes, at)
    few = kept(changes, now, most)
    assert len(few) <= most + 3
    assert held(few, now) == held(changes, now)
    assert kept(left, now) == left


@given(CHANGES)
def test_the_history_begins_with_those_that_hold_cpus_then(changes: list[GrantChange]) -> None:
    """With the changes after it, it gives what each container holds at every time."""
    now = 3 * HOUR
    found = history(kept(changes, now), now)
    assert found.until - found.since <= HOUR
    assert all(each.at >= found.since for each in found.changes)
    for at in (found.since + 1, now - 100, now):
        assert held((*found.began, *found.changes), at) == held(changes, at)


def test_the_file_gives_back_what_it_was_given(tmp_path: Path) -> None:
    """Appended, replaced, cut off in its last line; 0600."""
    file = HistoryFile(str(tmp_path / "state"))
    assert file.read() == ()
    changes = (GrantChange(at=AT), GrantChange(at=AT + 1, container="6f", name="<b>\u202e", cpus=CPUSet.of(1, 2)))
    assert not file.append(changes)
    assert not file.append(changes[:1])
    assert file.read() == (*changes, changes[0])
    path = tmp_path / "state" / NAME
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("ab") as opened:
        opened.write(b'{"at":1')
    assert file.read() == (*changes, changes[0])
    file.replace(changes[:1])
    assert file.read() == changes[:1]


def test_a_file_that_has_grown_says_so(tmp_path: Path) -> None:
    """So that it is replaced by what is still needed."""
    file = HistoryFile(str(tmp_path))
    long = tuple(GrantChange(at=AT, container=f"{n}", name="x" * 1000) for n in range(LIMIT // 1000))
    assert file.append(long)
    file.replace(last_changes(long))
    assert not file.append(long[:1])


@pytest.mark.parametrize("content", [b'{"version":2}\n', b"rubbish\n", b'{"version":1}\n{"at":"x"}\n'])
def test_a_file_that_is_none_of_ours_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(StateError):
        HistoryFile(str(tmp_path)).read()
