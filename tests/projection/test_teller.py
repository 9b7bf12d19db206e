"""The teller: it writes the latest World to every workload's directory, and skips directories that are up to date."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar.board import Board
from sidecar.decide.facts import ContainerRemoved, ContainerSeen
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import replace
from sidecar.log import Log
from sidecar.projection.projections import Projections
from sidecar.projection.teller import CHECK_SECONDS, PAUSE, Teller
from state.cpuset import CPUSet
from state.errors import ProjectionError, ProjectionMissing
from state.leaving import Leaving
from state.projection import Projection, read
from state.refusal import Said
from state.topology import uniform
from tests.support.decide.hand_stories import lose_its_grant_while_the_engine_is_away, owner_alone
from tests.support.decide.real import Real
from tests.support.decide.stories import Story
from tests.support.planted import plant

pytestmark = pytest.mark.trio


class Counting(Projections):
    """Real directories, and the names of written containers; writes fail for the ids in `failing`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, clock=lambda: 0.0)
        self.written: list[str] = []
        self.failing: set[str] = set()
        self.removing: Callable[[], None] = lambda: None

    def remove(self, container: str) -> None:
        self.removing()
        super().remove(container)

    def write(self, container: str, names: Iterable[str], projection: Projection) -> None:
        self.written.append(projection.name)
        if container in self.failing:
            raise ProjectionError(f"by-id/{container[:12]}: disk full")
        super().write(container, names, projection)


class Bench:
    """A teller over a story."""

    def __init__(self, path: Path, *, brief_seconds: float = 0.0, **settings: Any) -> None:
        self.path = path
        self.story = Story(**settings)
        self.board = Board(self.story.world)
        self.projections = Counting(path)
        self.problems: list[str | None] = []
        self.log = Log(io.StringIO())
        self.teller = Teller(
            self.board, self.projections, lambda where, problem: self.problems.append(problem), self.log, brief_seconds
        )

    async def tell(self) -> list[str]:
        """Post the story's latest World; return the names of written containers."""
        self.board.post(self.story.world)
        self.projections.written.clear()
        await self.teller.tell(self.story.world)
        return self.projections.written

    def told(self, real: Real) -> Projection:
        return read(self.path / "by-id" / real.key.short)


async def test_every_container_is_told(autojump_clock: MockClock, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    plain, rt = bench.story.arrive("plain"), bench.story.arrive("rt", 2, labels={"cpuset.projection": "game"})
    bench.story.settle()
    assert await bench.tell() == ["plain", "rt"]
    assert bench.told(plain).cpus == CPUSet.parse("0,3-7")
    assert bench.told(rt).settled
    assert read(tmp_path / "by-name" / "game").cpus == CPUSet.of(1, 2)
    assert bench.problems == [None]


async def test_a_container_without_news_is_passed_over(autojump_clock: MockClock, tmp_path: Path) -> None:
    """After an arrival among many up-to-date containers, it writes those whose pool changed, and the newcomer."""
    bench = Bench(tmp_path)
    bench.story.arrive("plain")
    bench.story.settle()
    await bench.tell()
    assert await bench.tell() == []
    bench.story.arrive("other")
    assert await bench.tell() == ["other"]
    bench.story.arrive("rt", 1)
    bench.story.settle()
    assert sorted(await bench.tell()) == ["other", "plain", "rt"]


async def test_one_that_lost_its_grant_while_its_engine_is_away_is_told_once(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """Other settings gave its CPUs to the pool, and a newcomer was born there."""
    bench, (host, owner) = Bench(tmp_path), owner_alone()
    bench.board.post(host.world)
    await bench.teller.tell(host.world)
    assert bench.told(owner).alone
    lose_its_grant_while_the_engine_is_away(host)
    bench.board.post(host.world)
    bench.projections.written.clear()
    for _ in range(2):
        await bench.teller.tell(host.world)
    assert bench.projections.written == [owner.name]
    assert not bench.told(owner).alone


async def test_one_that_is_not_where_it_was_alone_is_told_before_its_engine_is_ready(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """It ended, and its runtime asks before it starts again: so it is nowhere, and others may be there."""
    bench = Bench(tmp_path)
    owner = bench.story.unseen("owner", 1, starts=False)
    owner.asks = True
    bench.story.look(owner)
    bench.story.again(owner)
    bench.story.settle()
    await bench.tell()
    assert bench.told(owner).alone
    bench.story.disconnect()
    bench.story.connect(is_slow=True)
    assert await bench.tell() == []
    bench.story.stop(owner)
    bench.story.look(owner)
    assert (bench.story.world.is_ready, await bench.tell()) == (False, ["owner"])
    assert not bench.told(owner).alone
    assert await bench.tell() == []


async def test_a_new_reason_is_told(autojump_clock: MockClock, tmp_path: Path) -> None:
    """A waiting container is refused again whenever another takes the CPUs: the reason names the present holders."""
    bench = Bench(tmp_path)
    first, _ = bench.story.arrive("first", 3), bench.story.arrive("second", 3)
    waiting = bench.story.arrive("waiting", 5, labels={"cpuset.on-shortage": "wait"})
    bench.story.settle()
    await bench.tell()
    assert "held by first, second" in bench.told(waiting).reason
    bench.story.remove(first)
    third = bench.story.unseen("third", 3, cpuset="1-3")
    tickets = bench.story.ticket(), bench.story.ticket()
    # In one burst, and onto the same CPUs: neither the pool nor the container that waits changes.
    bench.story.feed(ContainerRemoved(first.key, tickets[0]), ContainerSeen(third.view(), tickets[1]))
    await bench.tell()
    assert "held by second, third" in bench.told(waiting).reason


async def test_a_container_pinned_by_hand_is_told_the_present_name_of_the_owner(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """Neither the container nor the pool changes when an owner that cannot leave its CPUs is renamed."""
    bench = Bench(tmp_path, machine=uniform(cores=2))
    owner = bench.story.arrive("s1", 1)
    bench.story.settle()
    pinned = bench.story.arrive("pinned", cpuset="1")
    bench.story.settle()
    await bench.tell()
    assert "shares CPU 1 with s1" in bench.told(pinned).reason
    owner.name = "s2"
    bench.story.look(owner)
    await bench.tell()
    assert "shares CPU 1 with s2" in bench.told(pinned).reason


async def test_what_changes_in_a_grant_alone_is_told(autojump_clock: MockClock, tmp_path: Path) -> None:
    """A take begins: neither the container nor its surroundings change."""
    bench = Bench(tmp_path)
    rt = bench.story.arrive("rt", 3)
    bench.story.settle()
    await bench.tell()
    state = bench.story.world.state
    was = state.assignments[rt.key]
    leaving = Leaving(cpus=CPUSet.of(3), number=1, cause=Said("arrival of other took 1"))
    taken = replace(was, cpus=was.cpus - leaving.cpus, leaving=leaving)
    # The CPU is not in the pool yet, so that only the grant differs.
    books = replace(state.holding(taken), isolated=leaving.cpus)
    bench.story.world = replace(bench.story.world, state=books)
    assert await bench.tell() == ["rt"]
    assert (bench.told(rt).leaving, bench.told(rt).deadline_seconds) == (CPUSet.of(3), 2.0)
    assert await bench.tell() == []


async def test_a_container_that_is_gone_is_told_of_no_more(autojump_clock: MockClock, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    rt = bench.story.arrive("rt", 2)
    bench.story.settle()
    await bench.tell()
    bench.story.away(rt)
    await bench.tell()
    with pytest.raises(ProjectionMissing):
        bench.told(rt)


async def test_what_an_earlier_run_left_is_swept_once(autojump_clock: MockClock, tmp_path: Path) -> None:
    earlier = Bench(tmp_path)
    gone = earlier.story.arrive("gone", 2)
    earlier.story.settle()
    await earlier.tell()
    bench = Bench(tmp_path)
    other = bench.story.arrive("unseen")
    bench.story.away(other)
    stays = bench.story.arrive("stays")
    await bench.tell()
    assert bench.told(stays).name == "stays"
    with pytest.raises(ProjectionMissing):
        bench.told(gone)


async def test_a_directory_in_error_is_told_of_and_tried_again(autojump_clock: MockClock, tmp_path: Path) -> None:
    """The others are written all the same."""
    bench = Bench(tmp_path)
    plain, rt = bench.story.arrive("plain"), bench.story.arrive("rt", 2)
    bench.story.settle()
    bench.projections.failing = {plain.key.id}
    await bench.tell()
    assert bench.told(rt).settled
    assert bench.problems == [f"by-id/{plain.key.short}: disk full"]
    bench.projections.failing = set()
    assert await bench.tell() == ["plain"]
    assert bench.problems[-1] is None


async def test_one_that_could_never_be_told_in_full_is_forgotten_all_the_same(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """A workload planted something in the place of one of its files."""
    bench = Bench(tmp_path)
    plant(tmp_path / "by-name/game/status.json")
    rt = bench.story.arrive("rt", labels={"cpuset.projection": "game"})
    bench.story.settle()
    await bench.tell()
    assert "cannot write status.json" in str(bench.problems[-1])
    assert bench.told(rt).cpus
    bench.story.away(rt)
    await bench.tell()
    assert not (tmp_path / "by-id" / rt.key.short).exists()


@pytest.mark.parametrize("what", ["", "by-id", "by-name", "by-name/game"])
async def test_what_was_removed_is_told_again(autojump_clock: MockClock, tmp_path: Path, what: str) -> None:
    """Even without news: a volume that was mounted again is empty, and people clean up."""
    root = tmp_path / "root"
    bench = Bench(root)
    bench.story.arrive("plain")
    rt = bench.story.arrive("rt", 2, labels={"cpuset.projection": "game"})
    bench.story.settle()
    await bench.tell()
    before = bench.told(rt)
    shutil.rmtree(root / what)
    assert "rt" in await bench.tell()
    assert bench.told(rt) == read(root / "by-name" / "game") == before
    assert await bench.tell() == []


async def test_a_root_that_is_no_directory_is_told_of_though_there_is_no_news(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """A link is in its place: nothing is written beyond it."""
    root = tmp_path / "root"
    bench = Bench(root)
    plain = bench.story.arrive("plain")
    bench.story.settle()
    await bench.tell()
    shutil.rmtree(root)
    (tmp_path / "elsewhere").mkdir()
    root.symlink_to(tmp_path / "elsewhere")
    await bench.tell()
    assert "a symbolic link or a file is there" in str(bench.problems[-1])
    assert not list((tmp_path / "elsewhere").iterdir())
    root.unlink()
    assert await bench.tell() == ["plain"]
    assert bench.problems[-1] is None
    assert bench.told(plain).cpus


async def test_it_tells_as_the_world_changes(autojump_clock: MockClock, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.teller.run)
        rt = bench.story.arrive("rt", 2)
        bench.board.post(bench.story.world)
        await trio.sleep(2 * PAUSE)
        assert not bench.told(rt).settled or bench.story.is_settled(rt)
        bench.story.settle()
        bench.board.post(bench.story.world)
        await trio.sleep(2 * PAUSE)
        assert bench.told(rt).settled
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("case", ["none", "not ready"])
async def test_it_is_silent_where_there_is_nothing_to_say(autojump_clock: MockClock, tmp_path: Path, case: str) -> None:
    """Under the policy none, and before the first inventory."""
    bench = Bench(tmp_path, policy=PolicyName.NONE if case == "none" else PolicyName.STATIC)
    bench.story.arrive("plain")
    if case == "not ready":
        bench.story.disconnect()
    bench.board.post(bench.story.world)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.teller.run)
        await trio.sleep(2 * PAUSE)
        nursery.cancel_scope.cancel()
    assert bench.projections.written == []


async def test_what_an_earlier_run_told_is_removed_under_the_policy_none(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """No container is kept off CPUs under it, so none may be told that it is alone."""
    before = Bench(tmp_path)
    rt = before.story.arrive("rt", 2)
    await before.tell()
    bench = Bench(tmp_path, policy=PolicyName.NONE)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.teller.run)
        await trio.sleep(2 * PAUSE)
        nursery.cancel_scope.cancel()
    with pytest.raises(ProjectionMissing):
        bench.told(rt)


async def test_what_one_workload_planted_hides_no_other_problem(autojump_clock: MockClock, tmp_path: Path) -> None:
    """However many directories it spoils: a reason is told once, with the number of directories."""
    bench = Bench(tmp_path)
    for number in range(8):
        plant(tmp_path / f"by-name/evil{number}/status.json")
        bench.story.arrive(f"evil{number}", labels={"cpuset.projection": f"evil{number}"})
    honest = bench.story.arrive("honest")
    bench.projections.failing.add(honest.id)
    bench.story.settle()
    await bench.tell()
    assert "disk full" in str(bench.problems[-1])
    assert "(and 7 more)" in str(bench.problems[-1])
    assert len(str(bench.problems[-1])) < 500


async def test_a_container_that_cannot_read_it_waits_a_second_for_its_projection(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """It is told by itself then; one with a grant or a name is told at once, and one that is gone never was."""
    bench = Bench(tmp_path, brief_seconds=1.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.teller.run)
        plain, rt = bench.story.arrive("plain"), bench.story.arrive("rt", 1)
        named = bench.story.arrive("named", labels={"cpuset.projection": "game"})
        gone = bench.story.arrive("gone")
        # Its start waits for the directory, which it mounts.
        strict = bench.story.unseen("strict", starts=False)
        strict.asks = True
        bench.story.look(strict)
        bench.board.post(bench.story.world)
        await trio.sleep(0.5)
        assert sorted(bench.projections.written) == ["named", "rt", "strict"]
        bench.story.remove(gone)
        bench.story.feed(ContainerRemoved(gone.key, bench.story.ticket()))
        bench.board.post(bench.story.world)
        await trio.sleep(0.4)
        assert not (tmp_path / "by-id" / plain.key.short).exists()
        await trio.sleep(0.2)
        assert bench.told(plain).cpus == bench.told(named).cpus
        assert bench.told(rt).cpus
        assert bench.projections.written.count("plain") == 1
        assert not bench.projections.written.count("gone")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("name", ["status.json", "cpuset"])
@pytest.mark.parametrize("content", [None, "7\n"], ids=["removed", "replaced"])
async def test_what_is_done_to_files_is_undone_with_the_next_news(
    autojump_clock: MockClock, tmp_path: Path, name: str, content: str | None
) -> None:
    """Nothing has changed but the file: an inventory is news enough, though not every one is."""
    bench = Bench(tmp_path)
    rt = bench.story.arrive("rt", 1, labels={"cpuset.projection": "game"})
    bench.story.settle()
    await bench.tell()
    file = tmp_path / "by-name" / "game" / name
    before = file.read_text()
    file.unlink()
    if content is not None:
        file.write_text(content)
    assert await bench.tell() == []
    await trio.sleep(CHECK_SECONDS)
    assert await bench.tell() == ["rt"]
    assert file.read_text() == before
    assert bench.told(rt).cpus == CPUSet.parse("1")
