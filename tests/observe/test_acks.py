"""Acknowledgements: read from real files, while a take is pending; planted files have no effect."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest
import trio
from trio.testing import MockClock

from sidecar.board import Board
from sidecar.decide.facts import Fact, TakeAcknowledged
from sidecar.decide.world import World, replace
from sidecar.log import Log, LogLevel
from sidecar.observe import acks
from sidecar.observe.acks import AckReader
from sidecar.projection.projection_of import names_of, projection_of
from sidecar.projection.projections import Projections
from state import ack
from state.cpuset import CPUSet
from state.inotify import Deaf, Ears
from state.key import ContainerKey
from state.leaving import Leaving
from state.refusal import Said
from tests.support.decide.stories import Story

pytestmark = pytest.mark.trio

FAR = CPUSet.of(3, 4)


class Bench:
    """A reader over worlds that are made by hand, with real directories."""

    def __init__(self, nursery: trio.Nursery, path: Path) -> None:
        self.root = path / "cpus"
        self.story = Story()
        self.voice = self.story.arrive("voice", 4, labels={"cpuset.projection": "voice"})
        self.other = self.story.arrive("other", 2)
        self.story.settle()
        self.board = Board(self.story.world)
        self.projections = Projections(self.root, clock=lambda: 0.0, steady=trio.current_time)
        self.outbox, self.inbox = trio.open_memory_channel[Fact](100)
        self.lines = io.StringIO()
        self.reader = AckReader(self.board, self.projections, self.outbox, log=Log(self.lines, level=LogLevel.DEBUG))
        nursery.start_soon(self.reader.run)

    @property
    def by_name(self) -> Path:
        return self.root / "by-name" / "voice"

    @property
    def by_id(self) -> Path:
        return self.root / "by-id" / self.voice.key.short

    async def take(self, number: int, leaving: CPUSet = FAR, whose: ContainerKey | None = None) -> int:
        """Begin and announce a take; return the generation that lists it. The reader has looked once."""
        key = whose or self.voice.key
        world = self.board.latest
        was = world.state.assignments[key]
        cpus = (was.cpus | (was.leaving.cpus if was.leaving else CPUSet())) - leaving
        made = replace(was, cpus=cpus, leaving=Leaving(cpus=leaving, number=number, cause=Said("x")))
        self.post(replace(world, state=world.state.holding(made)))
        known = self.board.latest.containers[key]
        names, projection = names_of(self.board.latest, known), projection_of(self.board.latest, known)
        self.projections.announce(key.id, names, projection, grace_seconds=projection.deadline_seconds)
        await trio.sleep(2 * acks.PAUSE)
        return self.projections.awaited(key.id, leaving)[-1]

    def post(self, world: World) -> None:
        self.board.post(world)

    def end(self) -> None:
        """End the take."""
        world = self.board.latest
        made = replace(world.state.assignments[self.voice.key], leaving=None)
        self.post(replace(world, state=world.state.holding(made)))

    async def heard(self, seconds: float = 3) -> list[Fact]:
        """Return all acknowledgements within this many seconds."""
        facts: list[Fact] = []
        with trio.move_on_after(seconds):
            while True:
                facts.append(await self.inbox.receive())
        return facts

    def told(self, number: int) -> list[TakeAcknowledged]:
        return [TakeAcknowledged(self.voice.key, number)]


@pytest.fixture
def bench(nursery: trio.Nursery, tmp_path: Path) -> Bench:
    return Bench(nursery, tmp_path)


@pytest.mark.parametrize("place", ["by-id", "by-name", "by-name/by-id"])
async def test_it_is_told_once_wherever_it_is_written(autojump_clock: MockClock, bench: Bench, place: str) -> None:
    generation = await bench.take(7)
    short = bench.voice.key.short
    where = {"by-id": bench.by_id, "by-name": bench.by_name, "by-name/by-id": bench.by_name / "by-id" / short}[place]
    ack.write(where, generation)
    assert await bench.heard() == bench.told(7)


async def test_it_is_heard_and_not_only_looked_for(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By inotify: the next slow look is far off."""
    monkeypatch.setattr(acks, "SLOW_SECONDS", 1000.0)
    generation = await bench.take(7)
    await trio.sleep(5)
    ack.write(bench.by_name, generation)
    assert await bench.heard(0.1) == bench.told(7)


async def test_it_is_looked_for_where_nothing_can_be_heard(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoEars(Ears):
        def __init__(self) -> None:
            raise Deaf("inotify is not available: too many instances")

    monkeypatch.setattr(acks, "Ears", NoEars)
    generation = await bench.take(7)
    ack.write(bench.by_name, generation)
    assert await bench.heard(2 * acks.SLOW_SECONDS) == bench.told(7)
    assert "acknowledgements are polled for, without inotify" in bench.lines.getvalue()


@pytest.mark.parametrize("way", ["renamed", "in place", "in two parts", "no newline", "spaces"])
async def test_however_it_is_written(autojump_clock: MockClock, bench: Bench, way: str) -> None:
    generation = await bench.take(7)
    file = bench.by_name / "ack"
    match way:
        case "renamed":
            (bench.by_name / ".mine").write_text(f"{generation}\n")
            (bench.by_name / ".mine").rename(file)
        case "in place":
            file.write_text("0\n")
            file.write_text(f"{generation}\n")
        case "in two parts":
            with file.open("w") as opened:
                opened.flush()
                await trio.sleep(1)
                opened.write(f"{generation}\n")
        case "no newline":
            file.write_text(f"{generation}")
        case _:
            file.write_text(f"  {generation} \n")
    assert await bench.heard() == bench.told(7)


async def test_one_that_stands_before_the_reader_looks_counts(autojump_clock: MockClock, bench: Bench) -> None:
    """A container that acknowledged while no daemon ran."""
    key = bench.voice.key
    known = bench.board.latest.containers[key]
    bench.projections.write(key.id, ["voice"], projection_of(bench.board.latest, known))
    (bench.by_id / "ack").write_text("2\n")
    assert await bench.take(7) == 2
    assert await bench.heard() == bench.told(7)


async def test_a_rewriting_of_the_files_makes_it_no_older(autojump_clock: MockClock, bench: Bench) -> None:
    """Another container arrives in the middle: the shared pool's files change, and the generation grows."""
    generation = await bench.take(7)
    world = bench.board.latest
    known = world.containers[bench.voice.key]
    changed = msgspec.structs.replace(projection_of(world, known), shared_pool=CPUSet.of(0))
    bench.projections.write(bench.voice.key.id, ["voice"], changed)
    assert bench.projections.awaited(bench.voice.key.id, FAR)[-1] == generation + 1
    ack.write(bench.by_name, generation)
    assert await bench.heard() == bench.told(7)


async def test_an_old_one_does_not_count_and_neither_does_one_of_the_future(
    autojump_clock: MockClock, bench: Bench
) -> None:
    generation = await bench.take(7)
    ack.write(bench.by_name, generation - 1)
    assert await bench.heard() == []
    ack.write(bench.by_name, generation + 1)
    assert await bench.heard() == []


async def test_a_further_shrink_is_acknowledged_again(autojump_clock: MockClock, bench: Bench) -> None:
    generation = await bench.take(7, CPUSet.of(4))
    ack.write(bench.by_name, generation)
    assert await bench.heard() == bench.told(7)
    later = await bench.take(8, FAR)
    assert await bench.heard() == []
    ack.write(bench.by_name, later)
    assert await bench.heard() == bench.told(8)


async def test_a_take_that_could_not_be_told_is_not_acknowledged_by_an_older_word(
    autojump_clock: MockClock, bench: Bench
) -> None:
    generation = await bench.take(7, CPUSet.of(4))
    world = bench.board.latest
    was = world.state.assignments[bench.voice.key]
    made = replace(was, cpus=was.cpus - FAR, leaving=Leaving(cpus=FAR, number=8, cause=Said("x")))
    bench.post(replace(world, state=world.state.holding(made)))
    ack.write(bench.by_name, generation)
    assert await bench.heard() == []


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"-2", b"0x2", b"2.0", b"two\n", b"2 2\n", b"\xff\xfe2", b"2" * 33, b"\x00", "२".encode()]
)
async def test_what_is_no_number_is_nothing(autojump_clock: MockClock, bench: Bench, content: bytes) -> None:
    assert await bench.take(7) == 1
    (bench.by_name / "ack").write_bytes(content.replace(b"2", b"1"))
    assert await bench.heard() == []


@pytest.mark.parametrize("planted", ["link", "link to a directory", "pipe", "device", "directory", "sparse", "socket"])
async def test_what_is_planted_is_not_read(
    autojump_clock: MockClock, bench: Bench, tmp_path: Path, planted: str
) -> None:
    """Nothing blocks, nothing is followed, and it is reported once; a true acknowledgement next to it counts all the
    same.
    """
    generation = await bench.take(7)
    file = bench.by_name / "ack"
    match planted:
        case "link":
            (tmp_path / "elsewhere").write_text(f"{generation}\n")
            file.symlink_to(tmp_path / "elsewhere")
        case "link to a directory":
            file.symlink_to(bench.root / "by-id" / bench.other.key.short)
        case "pipe":
            os.mkfifo(file)
        case "device":
            _plant_device(file)
        case "directory":
            file.mkdir()
        case "sparse":
            with file.open("wb") as opened:
                opened.write(f"{generation}\n".encode())
                opened.truncate(10 * 1024**3)
        case _:
            os.mknod(file, stat.S_IFSOCK | 0o600)
    assert await bench.heard(5) == []
    assert bench.lines.getvalue().count("an acknowledgement is ignored") == 1
    ack.write(bench.by_id, generation)
    assert await bench.heard() == bench.told(7)


def _plant_device(file: Path) -> None:
    try:
        os.mknod(file, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("needs the right to make devices")


async def test_directories_that_are_links_are_neither_read_nor_listened_to(
    autojump_clock: MockClock, bench: Bench, tmp_path: Path
) -> None:
    """A workload may plant one in the place of its own directory by id, below its name."""
    generation = await bench.take(7)
    below = bench.by_name / "by-id"
    below.rename(bench.by_name / "kept")
    planted = tmp_path / "planted" / bench.voice.key.short
    planted.mkdir(parents=True)
    below.symlink_to(planted.parent)
    ack.write(planted, generation)
    assert await bench.heard() == []


async def test_a_word_for_another_is_not_heard(autojump_clock: MockClock, bench: Bench) -> None:
    """A container's own directory counts only for itself."""
    generation = await bench.take(7)
    other = await bench.take(8, CPUSet.of(6), bench.other.key)
    for number in (generation, other, 7):
        ack.write(bench.root / "by-id" / bench.other.key.short, number)
        await trio.sleep(1)
    assert TakeAcknowledged(bench.voice.key, 7) not in await bench.heard()


async def test_a_workload_that_writes_without_end_costs_little(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bounded number of looks per second, and one log line for each content, also bounded."""
    looks = 0
    directories = bench.projections.directories

    def counted(container: str) -> object:
        nonlocal looks
        looks += 1
        return directories(container)

    monkeypatch.setattr(bench.projections, "directories", counted)
    await bench.take(7)
    began = looks
    for number in range(1000):
        (bench.by_name / "ack").write_text(f"no {number}")
        await trio.sleep(0.001)
    assert looks - began <= 1 / acks.PAUSE + 2
    assert bench.lines.getvalue().count("an acknowledgement is ignored") == 5


async def test_nothing_is_open_while_no_take_waits(autojump_clock: MockClock, bench: Bench) -> None:
    """Neither before nor after; and files written then are not read."""
    before = _instances()
    await trio.sleep(1)
    assert _instances() == before
    await bench.take(7)
    assert _instances() == before + 1
    bench.end()
    await trio.sleep(1)
    assert _instances() == before


class Recorded(Ears):
    """Records what it listens to."""

    listened: ClassVar[set[int | None]] = set()
    left: ClassVar[set[int | None]] = set()

    def listen(self, directory: str) -> int | None:
        number = super().listen(directory)
        self.listened.add(number)
        return number

    def leave(self, number: int) -> None:
        super().leave(number)
        self.left.add(number)


async def test_a_container_without_a_pending_take_is_not_listened_to(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another take is still pending."""
    monkeypatch.setattr(acks, "Ears", Recorded)
    monkeypatch.setattr(Recorded, "listened", set())
    monkeypatch.setattr(Recorded, "left", set())
    await bench.take(7)
    ours = set(Recorded.listened)
    await bench.take(8, CPUSet.of(6), bench.other.key)
    assert Recorded.left == set()
    bench.end()
    await trio.sleep(1)
    assert len(ours) == 3
    assert Recorded.left == ours


async def test_an_acknowledgement_of_a_take_that_is_over_says_nothing(autojump_clock: MockClock, bench: Bench) -> None:
    generation = await bench.take(7)
    bench.end()
    ack.write(bench.by_name, generation)
    assert await bench.heard() == []


async def test_a_directory_that_is_made_again_is_listened_to(autojump_clock: MockClock, bench: Bench) -> None:
    """It was removed in the middle; the slow look finds the new one."""
    await bench.take(7)
    for path in sorted(bench.root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    await trio.sleep(1)
    generation = await bench.take(8)
    await trio.sleep(1)
    ack.write(bench.by_name, generation)
    assert await bench.heard(0.1) == bench.told(8)


def _instances() -> int:
    """Return the inotify instances of this process."""
    links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    return sum(1 for link in links if os.path.lexists(link) and os.readlink(link) == "anon_inode:inotify")
