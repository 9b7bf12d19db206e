"""The turn of owners that wait for the word that they are settled: before all others, and before what is gone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from sidecar.projection import teller
from state.projection import Projection
from tests.projection.test_teller import Bench

pytestmark = pytest.mark.trio


async def test_an_owner_is_told_before_all_others_and_before_what_is_gone_is_removed(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """However many share the pool that changed, and however many are gone: it waits for the word that it is settled.
    What claims a name is first told in the turn of its age.
    """
    bench = Bench(tmp_path)
    gone = [bench.story.arrive(f"gone-{number}") for number in range(3)]
    for number in range(3):
        bench.story.arrive(f"web-{number}")
    bench.story.settle()
    await bench.tell()
    for each in gone:
        bench.story.remove(each)
    bench.story.arrive("named", 1, labels={"cpuset.projection": "game"})
    bench.story.arrive("rt", 2)
    bench.story.settle()
    removed: list[list[str]] = []
    bench.projections.removing = lambda: removed.append([*bench.projections.written])
    assert await bench.tell() == ["rt", "web-0", "web-1", "web-2", "named"]
    assert removed == [["rt"]] * 3


async def test_an_owner_that_settles_meanwhile_is_told_next(autojump_clock: MockClock, tmp_path: Path) -> None:
    """While others are told, one after the other."""
    bench = Bench(tmp_path)
    for number in range(3):
        bench.story.arrive(f"web-{number}")
    bench.story.settle()
    before = bench.story.world
    bench.story.arrive("rt", 2)
    bench.story.settle()
    after, write = bench.story.world, bench.projections.write

    def settle(container: str, names: Iterable[str], projection: Projection) -> None:
        write(container, names, projection)
        if bench.projections.written == ["web-0"]:
            bench.board.post(after)

    bench.projections.write = settle  # type: ignore[method-assign]
    bench.board.post(before)
    await bench.teller.tell(before)
    assert bench.projections.written == ["web-0", "rt", "web-1", "web-2"]


async def test_an_owner_that_settles_while_files_are_checked_is_told_next(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What workloads did to their files is found some containers at a time, after all that is to be told."""
    monkeypatch.setattr(teller, "CHECKED_AT_ONCE", 2)
    bench = Bench(tmp_path)
    for number in range(5):
        bench.story.arrive(f"web-{number}")
    bench.story.settle()
    await bench.tell()
    await trio.sleep(teller.CHECK_SECONDS)
    bench.story.arrive("late")
    bench.story.settle()
    before = bench.story.world
    bench.story.arrive("rt", 2)
    bench.story.settle()
    after, lost = bench.story.world, bench.projections.lost
    checked: list[tuple[int, list[str]]] = []

    def look(containers: Iterable[str], *, reads_files: bool = False) -> list[str]:
        found = [*containers]
        checked.append((len(found), [*bench.projections.written]))
        bench.board.post(after)
        return lost(found, reads_files=reads_files)

    monkeypatch.setattr(bench.projections, "lost", look)
    bench.projections.written.clear()
    bench.board.post(before)
    await bench.teller.tell(before)
    assert [many for many, _ in checked] == [2, 2, 2]
    assert [told for _, told in checked[:2]] == [["late"], ["late", "rt"]]


async def test_an_owner_that_settled_is_told_before_the_pause(autojump_clock: MockClock, tmp_path: Path) -> None:
    """The others, and an owner that has yet to wait, are told after it: the orders of a decision leave first."""
    bench = Bench(tmp_path)
    when: list[tuple[str, float]] = []
    write = bench.projections.write

    def timed(container: str, names: Iterable[str], projection: Projection) -> None:
        when.append((projection.name, round(trio.current_time() - began, 6)))
        write(container, names, projection)

    bench.projections.write = timed  # type: ignore[method-assign]
    bench.story.arrive("web")
    bench.story.settle()
    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        bench.board.post(bench.story.world)
        nursery.start_soon(bench.teller.run)
        await trio.sleep(1)
        assert when == [("web", teller.PAUSE)]
        for settles in (False, True):
            when.clear()
            bench.story.arrive("rt", 2) if not settles else bench.story.settle()
            began = trio.current_time()
            bench.board.post(bench.story.world)
            await trio.sleep(1)
            assert ("rt", 0.0 if settles else teller.PAUSE) in when
            assert all(late == teller.PAUSE for name, late in when if name != "rt")
        nursery.cancel_scope.cancel()
    assert bench.problems[-1] is None


async def test_an_early_word_that_cannot_be_written_is_tried_again_and_told(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    bench = Bench(tmp_path)
    bench.story.arrive("web")
    bench.story.settle()
    async with trio.open_nursery() as nursery:
        bench.board.post(bench.story.world)
        nursery.start_soon(bench.teller.run)
        await trio.sleep(1)
        rt = bench.story.arrive("rt", 2)
        bench.story.settle()
        bench.projections.failing = {rt.key.id}
        bench.projections.written.clear()
        bench.board.post(bench.story.world)
        await trio.sleep(1)
        assert bench.projections.written.count("rt") >= 2
        assert "disk full" in (bench.problems[-1] or "")
        nursery.cancel_scope.cancel()
