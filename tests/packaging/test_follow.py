"""The example workloads that follow their CPUs: compiled, and run on a projection that changes under them."""

from __future__ import annotations

import functools
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from state.cpuset import CPUSet
from tests.workload.execs import EVERY, PATIENCE_SECONDS, ROOT, Told, descendants, eventually, needs_two_cpus, threads

EXAMPLES = ROOT / "compose" / "workloads" / "follow"
FIRST = CPUSet.of(EVERY.lowest())
LAST = CPUSet.of(max(EVERY))
REST = EVERY - LAST


def tool(name: str) -> str:
    """Return a program of this machine; skip if it is missing. Compilers may be where their installers put them."""
    places = os.pathsep.join([os.environ.get("PATH", ""), os.path.expanduser("~/.cargo/bin"), "/usr/local/go/bin"])
    found = shutil.which(name, path=places)
    if found is None:
        pytest.skip(f"needs the program {name}, which is not here")
    return found


def built(folder: Path, *words: str) -> list[str]:
    environment = {**os.environ, "GOCACHE": str(folder / "cache"), "GO111MODULE": "off"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [str(folder / "program")]


def in_shell(name: str, needs: str, *shell: str) -> Callable[[Path], list[str]]:
    def words(folder: Path) -> list[str]:
        del folder
        for each in (needs, "taskset", shell[0]):
            tool(each)
        return [*shell, str(EXAMPLES / name)]

    return words


def in_c(name: str) -> Callable[[Path], list[str]]:
    warnings = ("-Wall", "-Wextra", "-Werror")
    return lambda folder: built(
        folder, tool("gcc"), "-std=gnu11", "-O2", *warnings, "-pthread", "-o", "program", str(EXAMPLES / name)
    )


def in_python(name: str) -> Callable[[Path], list[str]]:
    return lambda folder: [sys.executable, "-W", "error", str(EXAMPLES / name)]


PROGRAMS: dict[str, Callable[[Path], list[str]]] = {
    "inotifywait.sh": in_shell("inotifywait.sh", "inotifywait", "sh"),
    "inotifyd.sh": in_shell("inotifyd.sh", "inotifyd", "busybox", "sh"),
    "pool.c": in_c("pool.c"),
    "poller.c": in_c("poller.c"),
    "pool.go": lambda folder: built(folder, tool("go"), "build", "-o", "program", str(EXAMPLES / "pool.go")),
    "pool.rs": lambda folder: built(
        folder, tool("rustc"), "-D", "warnings", "-O", "-o", "program", str(EXAMPLES / "pool.rs")
    ),
    "pool.js": lambda folder: [tool("node"), str(EXAMPLES / "pool.js")],
    "with_threads.py": in_python("with_threads.py"),
    "with_trio.py": in_python("with_trio.py"),
    "with_asyncio.py": in_python("with_asyncio.py"),
}


Program = Callable[[str], list[str]]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def program(memory: Path | None, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Return what gives the command of an example: compiled once, where it has to be."""

    @functools.cache
    def command(name: str) -> list[str]:
        built_in = tempfile.mkdtemp(dir=memory) if memory else tmp_path_factory.mktemp("program")
        return PROGRAMS[name](Path(built_in))

    return command


class Workload:
    """One running example."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def line(self) -> str:
        """Return the next line of its output, waited for."""
        assert self._process.stdout is not None
        deadline, text = time.monotonic() + PATIENCE_SECONDS, b""
        while not text.endswith(b"\n"):
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"nothing was printed in {PATIENCE_SECONDS:g} s"
            text += (byte := os.read(self._process.stdout.fileno(), 1))
            assert byte, "it ended"
        return text.decode().strip()

    def cpus(self) -> dict[int, CPUSet]:
        """Return the CPUs of each of its threads, and of the processes that it started."""
        found = {}
        for process in (self._process.pid, *descendants(self._process.pid)):
            for thread in threads(process):
                try:
                    found[thread] = CPUSet(os.sched_getaffinity(thread))
                except ProcessLookupError:
                    continue
        return found

    def may_use(self, cpus: CPUSet) -> bool:
        """Return whether any thread may run on any of these."""
        return any(not each.isdisjoint(cpus) for each in self.cpus().values())


@contextmanager
def working(words: list[str], directory: Path) -> Iterator[Workload]:
    """Run the example, in a session of its own, since some have children; end all with the block."""
    environment = {**os.environ, "CPUSET_SIDECAR_DIR": str(directory), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment, start_new_session=True) as process:
        try:
            yield Workload(process)
        finally:
            os.killpg(process.pid, 9)


def test_every_example_is_tried() -> None:
    """The tests run exactly the examples in the folder."""
    assert sorted(path.name for path in EXAMPLES.iterdir() if path.is_file()) == sorted(PROGRAMS)


@needs_two_cpus
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_leaves_acknowledges_and_comes_back(name: str, program: Program, tmp_path: Path) -> None:
    """At the time of its acknowledgement no thread may run on what is leaving, nor any later until the CPU is back."""
    projection = Told(tmp_path / "projections")
    asked = projection.tell(EVERY)
    with working(program(name), projection.directory) as workload:
        assert workload.line() == f"CPUs {EVERY}"
        for _ in range(2):
            eventually(lambda: workload.may_use(LAST), "on all CPUs")
            asked = projection.tell(EVERY, leaving=LAST)
            assert workload.line() == f"CPUs {EVERY}, leaving {LAST}"
            projection.await_acknowledgement(asked)
            assert not workload.may_use(LAST)
            projection.tell(REST)
            assert workload.line() == f"CPUs {REST}"
            assert not workload.may_use(LAST)
            projection.tell(EVERY)
            assert workload.line() == f"CPUs {EVERY}"
        eventually(lambda: workload.may_use(LAST), "on all CPUs")
        assert projection.acknowledged() == f"{asked}\n"


@needs_two_cpus
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_waits_for_a_projection_that_is_not_there_yet(name: str, program: Program, tmp_path: Path) -> None:
    """And acknowledges each generation that asks, even if it asks for the same again."""
    projection = Told(tmp_path / "projections")
    with working(program(name), projection.directory) as workload:
        projection.tell(EVERY, leaving=LAST)
        assert workload.line() == f"CPUs {EVERY}, leaving {LAST}"
        projection.await_acknowledgement(1)
        again = projection.tell_again(EVERY, leaving=LAST)
        projection.await_acknowledgement(again)
        assert not workload.may_use(LAST)


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_says_that_the_daemon_does_not_vouch_any_more(name: str, program: Program, tmp_path: Path) -> None:
    """It keeps its CPUs. A daemon that comes back is believed again, without another change."""
    projection = Told(tmp_path / "projections")
    generation = projection.tell(EVERY)
    with working(program(name), projection.directory) as workload:
        assert workload.line() == f"CPUs {EVERY}"
        projection.end()
        assert workload.line() == f"CPUs {EVERY}, unvouched"
        eventually(lambda: workload.may_use(LAST), "still on all CPUs")
        assert projection.tell(EVERY) == generation
        assert workload.line() == f"CPUs {EVERY}"


@needs_two_cpus
def test_a_poller_keeps_its_original_cpu(program: Program, tmp_path: Path) -> None:
    """Its first thread is never moved; those on other CPUs are bound to one each."""
    projection = Told(tmp_path / "projections")
    projection.tell(EVERY)
    with working(program("poller.c"), projection.directory) as workload:
        assert workload.line() == f"CPUs {EVERY}"
        main = workload.pid
        every = sorted(map(str, EVERY))

        def pollers() -> dict[int, str]:
            return {thread: str(cpus) for thread, cpus in workload.cpus().items() if thread != main}

        eventually(lambda: sorted(pollers().values()) == every, "a poller for each CPU")
        first = {thread for thread, cpus in pollers().items() if cpus == str(FIRST)}
        projection.await_acknowledgement(projection.tell(EVERY, leaving=LAST))
        assert first <= pollers().keys()
        projection.tell(REST)
        projection.tell(EVERY)
        eventually(lambda: sorted(pollers().values()) == every, "a poller for each CPU again")
        assert {thread for thread, cpus in pollers().items() if cpus == str(FIRST)} == first
