"""ProjectionWatch: whatever happens to the directory, a workload reads the present state, in each of the three ways."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest
import trio

from state import files
from state.cpuset import CPUSet
from state.errors import ProjectionError, ProjectionMissing
from state.inotify import Deaf, Inotify
from state.projection import Projection, ProjectionDirectory, Reading
from state.watch import ProjectionWatch

# Seconds. Only a failing test waits this long.
PATIENCE = 20.0

Way = Callable[[ProjectionWatch], Reading]


def in_plain_python(watch: ProjectionWatch) -> Reading:
    found = watch.wait(PATIENCE)
    assert found is not None
    return found


def _in_a_loop(backend: str) -> Way:
    def told(watch: ProjectionWatch) -> Reading:
        async def wait() -> Reading:
            with anyio.fail_after(PATIENCE):
                return await watch.await_change()

        return anyio.run(wait, backend=backend)

    return told


@pytest.fixture(params=["plain", "trio", "asyncio"])
def told(request: pytest.FixtureRequest) -> Way:
    """Return a function that waits for the next change, in one of the three ways."""
    return in_plain_python if request.param == "plain" else _in_a_loop(request.param)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "root" / "here"


@pytest.fixture
def watch(here: Path) -> Iterator[ProjectionWatch]:
    # A poll so slow that only an event can be reported in time.
    with ProjectionWatch(here, poll_seconds=1000) as opened:
        yield opened


def say(here: Path, generation: int, cpus: str) -> Reading:
    """Write as the daemon does; make the directory and its parents if needed. Return what is read of it."""
    said = Projection(generation=generation, cpus=CPUSet.parse(cpus))
    here.mkdir(parents=True, exist_ok=True)
    staging = here.parent / ".staging"
    with files.directory(here) as at, files.directory(staging, create=True, mode=0o700) as beside:
        ProjectionDirectory(at, beside).write(said)
    return Reading.of(said, vouched=False)


def test_the_present_state_is_told_at_once_and_only_once(here: Path, watch: ProjectionWatch, told: Way) -> None:
    said = say(here, 1, "2-3")
    assert told(watch) == said
    assert watch.wait(0) is None
    assert watch.trouble is None


def test_each_change_is_told(here: Path, watch: ProjectionWatch, told: Way) -> None:
    for generation in range(1, 20):
        said = say(here, generation, f"0-{generation}")
        assert told(watch) == said


def test_a_slow_reader_is_told_the_newest(here: Path, watch: ProjectionWatch, told: Way) -> None:
    said = [say(here, generation, f"0-{generation}") for generation in range(1, 50)]
    assert told(watch) == said[-1]
    assert watch.wait(0) is None


def test_a_reader_beside_a_busy_writer_misses_nothing_at_the_end(here: Path, watch: ProjectionWatch, told: Way) -> None:
    """Numbers only grow, and the last one always arrives."""
    writer = threading.Thread(target=lambda: [say(here, n, f"{n % 64}") for n in range(1, 401)])
    writer.start()
    seen = [told(watch).generation]
    while seen[-1] < 400:
        seen.append(told(watch).generation)
    writer.join()
    assert seen == sorted(set(seen))


def test_a_directory_that_is_not_there_yet_is_waited_for(here: Path, watch: ProjectionWatch, told: Way) -> None:
    assert watch.wait(0) is None
    assert isinstance(watch.trouble, ProjectionMissing)
    here.parent.mkdir()
    assert watch.wait(0.001) is None
    here.mkdir()
    assert watch.wait(0.001) is None
    said = say(here, 1, "2")
    assert told(watch) == said


def test_everything_that_appears_at_once_is_found(here: Path, watch: ProjectionWatch, told: Way) -> None:
    """Several directories are created between two looks."""
    assert watch.wait(0) is None
    said = say(here, 1, "2")
    assert told(watch) == said
    assert told_after(watch, told, lambda: say(here, 2, "3")).generation == 2


def told_after(watch: ProjectionWatch, told: Way, change: Callable[[], object]) -> Reading:
    change()
    return told(watch)


@pytest.mark.parametrize("how", ["deleted", "moved away", "replaced", "emptied", "above deleted"])
def test_a_directory_that_goes_and_comes_back_is_followed(
    here: Path, watch: ProjectionWatch, told: Way, how: str
) -> None:
    """Numbers begin again: that is a change, too."""
    assert told_after(watch, told, lambda: say(here, 7, "2-3")).generation == 7
    match how:
        case "deleted":
            shutil.rmtree(here)
        case "moved away":
            here.rename(here.with_name("old"))
        case "replaced":
            here.rename(here.with_name("old"))
            said = say(here.with_name("new"), 1, "4")
            here.with_name("new").rename(here)
            assert told(watch) == said
            check_it_hears(watch, here, 2)
            assert told(watch).generation == 2
            return
        case "emptied":
            (here / "status.json").unlink()
        case _:
            shutil.rmtree(here.parent)
    assert watch.wait(0.001) is None
    assert isinstance(watch.trouble, ProjectionMissing)
    assert told_after(watch, told, lambda: say(here, 1, "4")).projection == Projection(generation=1, cpus=CPUSet.of(4))
    check_it_hears(watch, here, 2)
    assert told(watch).generation == 2


def check_it_hears(watch: ProjectionWatch, here: Path, generation: int) -> None:
    """Check that an event wakes it for the next change, rather than a poll."""
    assert watch._ear
    while select.select([watch._ear.fd], [], [], 0)[0]:
        watch._hear(heard=True)
        assert watch._look() is None
    say(here, generation, "6")
    assert select.select([watch._ear.fd], [], [], 0)[0]


def test_what_appears_while_it_turns_its_ear_is_heard_too(here: Path, told: Way) -> None:
    """Between seeing that the directory is missing, and listening to its parent."""

    class Slow(Inotify):
        def listen(self, directory: str) -> bool:
            here.mkdir(parents=True, exist_ok=True)
            return super().listen(directory)

    with ProjectionWatch(here, poll_seconds=1000, ear=Slow) as watch:
        assert watch.wait(0) is None
        check_it_hears(watch, here, 1)
        assert told(watch).generation == 1


def test_what_appears_while_it_drains_is_found_too(here: Path, told: Way) -> None:
    """The event for it is drained with the others, unread."""

    class Late(Inotify):
        def drain(self) -> bool:
            if not (here / "late").exists():
                (here / "late").touch()
                say(here, 3, "5")
            return super().drain()

    with ProjectionWatch(here, poll_seconds=1000, ear=Late) as watch:
        assert told_after(watch, told, lambda: say(here, 1, "2")).generation == 1
        assert told_after(watch, told, lambda: say(here, 2, "4")).generation == 2
        assert told(watch).generation == 3
        check_it_hears(watch, here, 4)
        assert told(watch).generation == 4


def test_a_rename_further_up_the_path_is_found_by_looking(here: Path, told: Way) -> None:
    """There is no event for it here."""
    with ProjectionWatch(here, poll_seconds=0.01) as watch:
        assert told_after(watch, told, lambda: say(here, 1, "2")).generation == 1
        here.parent.rename(here.parent.with_name("old"))
        assert told_after(watch, told, lambda: say(here, 1, "3")).cpus == CPUSet.of(3)
    with ProjectionWatch(here, poll_seconds=1000) as watch:
        assert told(watch).generation == 1
        assert told_after(watch, told, lambda: say(here, 2, "4")).generation == 2


def test_a_link_as_the_directory_is_followed_by_its_reader(here: Path, watch: ProjectionWatch, told: Way) -> None:
    """The workload chose it; only writers must not follow."""
    say(here.with_name("real"), 1, "2")
    here.symlink_to("real")
    assert told(watch).generation == 1
    assert told_after(watch, told, lambda: say(here.with_name("real"), 2, "3")).generation == 2


def test_a_broken_file_is_trouble_until_the_next_good_one(here: Path, watch: ProjectionWatch, told: Way) -> None:
    here.mkdir(parents=True)
    for broken in ("", "{", "[]", '{"cpus":"x"}'):
        (here / "status.json").write_text(broken)
        assert watch.wait(0) is None
        assert type(watch.trouble) is ProjectionError
    assert told_after(watch, told, lambda: say(here, 1, "2")).generation == 1
    assert watch.trouble is None


def test_a_state_without_cpus_is_not_told(here: Path, watch: ProjectionWatch, told: Way) -> None:
    say(here, 1, "")
    assert watch.wait(0) is None
    assert told_after(watch, told, lambda: say(here, 2, "2")).generation == 2
    say(here, 3, "")
    assert watch.wait(0) is None
    assert told_after(watch, told, lambda: say(here, 4, "2")).generation == 4


def test_a_file_that_is_written_in_place_is_heard(here: Path, watch: ProjectionWatch, told: Way) -> None:
    here.mkdir(parents=True)
    assert watch.wait(0) is None
    (here / "status.json").write_text('{"cpus":"2"}')
    assert told(watch).cpus == CPUSet.of(2)


def test_lost_events_and_strange_names_do_no_harm(here: Path, watch: ProjectionWatch, told: Way) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    assert told_after(watch, told, lambda: say(here, 1, "2")).generation == 1
    os.mkdir(os.fsencode(here) + b"/\xff")
    for _ in range(min(most, 20_000) // 4 + 1):
        os.rename(here / "cpuset", here / "x")
        os.rename(here / "x", here / "cpuset")
    assert told_after(watch, told, lambda: say(here, 2, "3")).generation == 2
    assert told_after(watch, told, lambda: say(here, 3, "4")).generation == 3


def test_where_nothing_can_be_heard_it_looks(here: Path, told: Way) -> None:
    def deaf() -> Silence:
        raise Deaf("no more instances")

    with ProjectionWatch(here, poll_seconds=0.001, ear=deaf) as watch:
        assert told_after(watch, told, lambda: say(here, 1, "2")).generation == 1
        assert watch.wait(0.005) is None
        assert told_after(watch, told, lambda: say(here, 2, "3")).generation == 2


class Silence:
    """A listener on a file system that drops events."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()

    @property
    def fd(self) -> int:
        return self._reading

    def listen(self, directory: str) -> bool:
        return True

    def drain(self) -> bool:
        raise AssertionError("there is never anything to drain")

    def close(self) -> None:
        os.close(self._reading)
        os.close(self._writing)


@pytest.mark.trio
async def test_a_file_system_that_drops_events_is_looked_at_every_ten_seconds(
    here: Path, autojump_clock: trio.testing.MockClock
) -> None:
    say(here, 1, "2")

    async def say_later(seconds: float, generation: int) -> None:
        await trio.sleep(seconds)
        say(here, generation, "3")

    with ProjectionWatch(here, ear=Silence) as watch:
        assert (await watch.await_change()).generation == 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say_later, 3, 2)
            assert (await watch.await_change()).generation == 2
        assert trio.current_time() == 10
        # If the directory is missing, every second.
        shutil.rmtree(here)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say_later, 20.5, 3)
            assert (await watch.await_change()).generation == 3
        assert trio.current_time() == 31


@pytest.mark.anyio
async def test_cancelling_loses_nothing_and_leaks_nothing(here: Path, anyio_backend: str) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    say(here, 1, "2")
    with ProjectionWatch(here, poll_seconds=1000) as watch:
        assert (await watch.await_change()).generation == 1
        for generation in range(2, 12):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch.await_change)
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
            say(here, generation, "3")
            with anyio.CancelScope() as scope:
                scope.cancel()
                await watch.await_change()
            with anyio.fail_after(PATIENCE):
                assert (await watch.await_change()).generation == generation
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.anyio
async def test_changes_are_an_endless_loop_over_states(here: Path, anyio_backend: str) -> None:
    """While one task waits, another writes."""
    said = [say(here, 1, "1")]
    with ProjectionWatch(here, poll_seconds=1000) as watch, anyio.fail_after(PATIENCE):
        seen = []
        async for projection in watch.achanges():
            seen.append(projection)
            if len(seen) == 30:
                break
            said.append(say(here, len(seen) + 1, f"{len(seen)}"))
    assert seen == said


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_plain_changes_are_an_endless_loop_too_and_closing_is_clean(here: Path) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    said = [say(here, 1, "1")]
    seen = []
    with ProjectionWatch(here, poll_seconds=1000) as watch:
        for projection in watch.changes():
            seen.append(projection)
            if len(seen) == 30:
                break
            said.append(say(here, len(seen) + 1, f"{len(seen)}"))
    watch.close()
    assert seen == said
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_watch_of_nothing_that_can_come_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a host, where the host name is no container's ID. A directory that was named is waited for."""
    monkeypatch.delenv("CPUSET_SIDECAR_DIR", raising=False)
    monkeypatch.setenv("HOSTNAME", "pc")
    with pytest.raises(ProjectionMissing, match="'pc' is not a container's ID; name a directory, or set"):
        ProjectionWatch()
    for name, value in (("HOSTNAME", "0123456789ab"), ("CPUSET_SIDECAR_DIR", "/run/mine")):
        monkeypatch.setenv(name, value)
        with ProjectionWatch() as watch:
            assert watch.directory.endswith(value)


def test_a_workload_pays_neither_for_trio_nor_for_the_daemon() -> None:
    program = (
        "import sys, state.watch\n"
        "print(sorted({'trio', 'asyncio', 'aiodocker', 'aiohttp', 'rich', 'sidecar'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    # pyinotify itself imports asyncio.
    assert done.stdout.strip() in ("[]", "['asyncio']")
