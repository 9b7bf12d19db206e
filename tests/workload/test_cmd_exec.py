"""The command `exec`: a program's threads go where its projection says, on the real kernel."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from sidecar.workload.cmd_exec import THREADS, environment_for
from state.cpuset import CPUSet
from tests.workload.execs import (
    EVERY,
    ROOT,
    Told,
    affinities,
    all_on,
    await_program,
    complaint,
    eventually,
    executing,
    line,
    needs_root,
    needs_two_cpus,
)

FIRST = CPUSet.of(EVERY.lowest())
LAST = CPUSet.of(max(EVERY))
REST = EVERY - LAST

FAMILY = """
import subprocess, threading, time
threads = [threading.Thread(target=time.sleep, args=(1000,), daemon=True) for _ in range(3)]
for thread in threads: thread.start()
grandchild = subprocess.Popen(["sh", "-c", "sleep 1000 & wait"])
print("ready", flush=True)
threads[0].join()
"""
"""Four threads, a child and a grandchild."""

BOUND = """
import os, signal, threading, time
cpu = {cpu}
def bind(*_): os.sched_setaffinity(thread.native_id, {{cpu}})
def move(*_): os.sched_setaffinity(thread.native_id, {{{other}}})
signal.signal(signal.SIGUSR1, move)
thread = threading.Thread(target=time.sleep, args=(1000,), daemon=True)
thread.start()
bind()
print(thread.native_id, flush=True)
while True: time.sleep(1000)
"""

RESTLESS = """
import subprocess, threading
print("ready", flush=True)
def make():
    while True:
        threads = [threading.Thread(target=int) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
def fork():
    while True: subprocess.run(["true"])
for work in (make, make, fork): threading.Thread(target=work).start()
"""
"""Makes threads and processes as fast as it can."""


@pytest.fixture
def projection(tmp_path: Path) -> Told:
    return Told(tmp_path / "projections")


@needs_two_cpus
def test_all_threads_leave_then_it_is_acknowledged_and_they_come_back(projection: Told) -> None:
    """Threads, children and their children; the generation that is acknowledged is the one that asked."""
    projection.tell(EVERY)
    with executing(sys.executable, "-c", FAMILY, options=("--dir", projection.directory)) as process:
        assert line(process) == "ready"
        assert all_on(process.pid, EVERY)
        asked = projection.tell(EVERY, leaving=LAST)
        projection.await_acknowledgement(asked)
        assert all_on(process.pid, REST)
        assert len(affinities(process.pid)) >= 6
        projection.tell(REST)
        projection.tell(EVERY)
        eventually(lambda: all_on(process.pid, EVERY), "back on all")
        assert projection.acknowledged() == f"{asked}\n"


@needs_two_cpus
def test_it_starts_off_what_is_leaving_already(projection: Told) -> None:
    """And counts only the staying CPUs."""
    asked = projection.tell(EVERY, leaving=LAST)
    count = "echo $RAYON_NUM_THREADS; exec sleep 1000"
    with executing("sh", "-c", count, options=("--dir", projection.directory)) as process:
        assert line(process) == str(len(REST))
        assert all_on(process.pid, REST)
        projection.await_acknowledgement(asked)


@needs_two_cpus
def test_a_thread_that_the_program_bound_stays_and_holds_the_acknowledgement_back(projection: Told) -> None:
    """It is reported; when it has left by itself, the take is acknowledged."""
    projection.tell(EVERY)
    program = BOUND.format(cpu=LAST, other=FIRST)
    with executing(sys.executable, "-c", program, options=("--verbose", "--dir", projection.directory)) as process:
        bound = int(line(process))
        assert complaint(process).endswith(f"CPUs {EVERY}; threads: 0 followed to {EVERY}")
        asked = projection.tell(EVERY, leaving=LAST)
        said = complaint(process)
        threads = f"1 followed to {REST}, 1 bound by the program, 1 not off yet"
        assert said.endswith(f"CPUs {EVERY}, leaving {LAST}; threads: {threads}")
        assert os.sched_getaffinity(bound) == set(LAST)
        assert projection.acknowledged() == ""
        process.send_signal(signal.SIGUSR1)
        projection.await_acknowledgement(asked)
        assert os.sched_getaffinity(bound) == set(FIRST)


@needs_two_cpus
def test_a_bound_thread_stays_bound_when_cpus_go_and_come(projection: Told) -> None:
    """Even if for a while only its chosen CPUs were available."""
    projection.tell(EVERY)
    program = BOUND.format(cpu=FIRST, other=LAST)
    with executing(sys.executable, "-c", program, options=("--verbose", "--dir", projection.directory)) as process:
        bound = int(line(process))
        asked = projection.tell(EVERY, leaving=EVERY - FIRST)
        projection.await_acknowledgement(asked)
        assert all_on(process.pid, FIRST)
        projection.tell(FIRST)
        while f"CPUs {FIRST}; threads: 1 followed" not in complaint(process):
            pass
        projection.tell(EVERY)
        eventually(lambda: EVERY in affinities(process.pid), "widened")
        assert os.sched_getaffinity(bound) == set(FIRST)


@needs_two_cpus
def test_a_thread_that_the_program_lets_go_again_follows_again(projection: Told) -> None:
    """It has taken all CPUs, like the others."""
    projection.tell(EVERY)
    program = BOUND.format(cpu=FIRST, other=", ".join(map(str, EVERY)))
    with executing(sys.executable, "-c", program, options=("--dir", projection.directory)) as process:
        bound = int(line(process))
        projection.await_acknowledgement(projection.tell(EVERY, leaving=LAST))
        projection.tell(EVERY)
        eventually(lambda: EVERY in affinities(process.pid), "widened")
        assert os.sched_getaffinity(bound) == set(FIRST)
        process.send_signal(signal.SIGUSR1)
        eventually(lambda: all_on(process.pid, EVERY), "let go")
        projection.await_acknowledgement(projection.tell(EVERY, leaving=FIRST))
        assert all_on(process.pid, EVERY - FIRST)


@needs_two_cpus
def test_no_thread_is_left_behind_however_fast_they_are_made(projection: Told) -> None:
    """After the acknowledgement, no new thread inherits a vacated CPU."""
    projection.tell(EVERY)
    with executing(sys.executable, "-c", RESTLESS, options=("--dir", projection.directory)) as process:
        assert line(process) == "ready"
        for _ in range(5):
            asked = projection.tell(EVERY, leaving=LAST)
            projection.await_acknowledgement(asked)
            seen = [cpus for _ in range(50) for cpus in affinities(process.pid)]
            assert set(seen) == {REST}
            projection.tell(EVERY)
            eventually(lambda: all_on(process.pid, EVERY), "back on all")


@needs_two_cpus
@pytest.mark.parametrize("seed", range(3))
def test_after_any_history_all_are_where_they_should_be(seed: int, projection: Told) -> None:
    """A program makes threads all the time, and CPUs come, are announced as leaving, stay after all, and go: each
    announcement is acknowledged, and then and at the end no thread is anywhere else.
    """
    chance = random.Random(seed)

    def some(of: CPUSet) -> CPUSet:
        return CPUSet(chance.sample(sorted(of), chance.randint(1, len(of))))

    projection.tell(EVERY)
    with executing(sys.executable, "-c", RESTLESS, options=("--dir", projection.directory)) as process:
        assert line(process) == "ready"
        for _ in range(15):
            cpus = some(EVERY)
            stays = some(cpus)
            asked = projection.tell(cpus, leaving=cpus - stays)
            if stays != cpus:
                projection.await_acknowledgement(asked)
                assert set(affinities(process.pid)) == {stays}
        projection.tell(FIRST)
        eventually(lambda: all_on(process.pid, FIRST), "all on the first")


@contextmanager
def cpuset_of_its_own(pid: int) -> Iterator[Path]:
    """Make a cpuset with this process in it; yield the file to write. Skips where none can be made (version 1, as
    root).
    """
    above = Path("/sys/fs/cgroup/cpuset")
    try:
        made = above / f"cpuset-sidecar-test-{pid}"
        made.mkdir()
    except OSError:
        pytest.skip("no cpuset can be made here")
    try:
        (made / "cpuset.mems").write_text((above / "cpuset.mems").read_text())
        (made / "cpuset.cpus").write_text(str(EVERY))
        (made / "tasks").write_text(str(pid))
        yield made / "cpuset.cpus"
    finally:
        eventually(lambda: is_removed(made), "the cpuset removed")


def is_removed(made: Path) -> bool:
    """Return whether the cpuset could be removed, after its last tasks have left."""
    for left in (made / "tasks").read_text().split():
        with suppress(ProcessLookupError):
            (made.parent / "tasks").write_text(left)
    with suppress(OSError):
        made.rmdir()
        return True
    return False


@needs_two_cpus
@needs_root
def test_what_the_kernel_squeezed_is_widened_again(projection: Told) -> None:
    """A cpuset that shrinks without notice and grows again: a kernel remembers the requested affinity, or forgets it;
    the threads follow in both cases.
    """
    wait = "read _; " + f"exec {sys.executable} -c '{FAMILY}'"
    projection.tell(EVERY)
    with executing("sh", "-c", wait, options=("--dir", projection.directory), stdin=subprocess.PIPE) as process:
        assert process.stdin
        with cpuset_of_its_own(process.pid) as cpus:
            await_program(process, "sh")
            [child] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            (cpus.parent / "tasks").write_text(child)
            process.stdin.write("\n")
            process.stdin.flush()
            assert line(process) == "ready"
            for _ in range(3):
                cpus.write_text(str(REST))
                assert all_on(process.pid, REST)
                projection.tell(REST)
                cpus.write_text(str(EVERY))
                projection.tell(EVERY)
                eventually(lambda: all_on(process.pid, EVERY), "back on all")
                # And they follow to the next one, too.
                asked = projection.tell(EVERY, leaving=LAST)
                projection.await_acknowledgement(asked)
                assert all_on(process.pid, REST)
                projection.tell(EVERY)
                eventually(lambda: all_on(process.pid, EVERY), "back on all")
            process.kill()
            process.wait()


@needs_two_cpus
@needs_root
def test_a_projection_that_is_ahead_of_the_kernel_is_made_good_later(projection: Told) -> None:
    """CPUs outside the cpuset are not requested in vain indefinitely, and nothing fails because of them."""
    projection.tell(REST)
    with executing("sleep", "1000", options=("--dir", projection.directory)) as process:
        await_program(process, "sleep")
        assert all_on(process.pid, REST)
        with cpuset_of_its_own(process.pid) as cpus:
            [child] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            (cpus.parent / "tasks").write_text(child)
            cpus.write_text(str(FIRST))
            projection.tell(LAST)
            projection.tell(EVERY)
            eventually(lambda: all_on(process.pid, FIRST), "where the kernel lets it")
            cpus.write_text(str(EVERY))
            eventually(lambda: all_on(process.pid, EVERY), "on all, without another change")
            process.kill()
            process.wait()


@needs_two_cpus
def test_without_a_projection_the_program_runs_and_is_told_of_once(projection: Told) -> None:
    """And it follows once there is one."""
    with executing("sleep", "1000", options=("--wait", "0", "--dir", projection.directory)) as process:
        assert "starting the program anyway, and watching" in complaint(process)
        await_program(process, "sleep")
        assert all_on(process.pid, EVERY)
        projection.tell(FIRST)
        eventually(lambda: all_on(process.pid, FIRST), "followed")
        process.terminate()
        assert complaint(process) == ""


@needs_two_cpus
def test_a_directory_that_vanishes_and_comes_back_is_followed_again(projection: Told) -> None:
    """While it is away, everything stays as it was."""
    projection.tell(EVERY)
    with executing("sleep", "1000", options=("--dir", projection.directory)) as process:
        await_program(process, "sleep")
        assert all_on(process.pid, EVERY)
        for cpus in (FIRST, EVERY):
            before = set(affinities(process.pid))
            projection.remove()
            assert set(affinities(process.pid)) == before
            projection.tell(cpus)
            eventually(partial(all_on, process.pid, cpus), "followed")


@needs_two_cpus
def test_what_is_not_to_be_acknowledged_is_not(projection: Told) -> None:
    """The threads leave all the same."""
    projection.tell(EVERY)
    with executing("sleep", "1000", options=("--no-ack", "--dir", projection.directory)) as process:
        await_program(process, "sleep")
        assert all_on(process.pid, EVERY)
        projection.tell(EVERY, leaving=LAST)
        eventually(lambda: all_on(process.pid, REST), "left")
        projection.tell(EVERY)
        eventually(lambda: all_on(process.pid, EVERY), "back")
        assert projection.acknowledged() == ""


@needs_two_cpus
def test_an_acknowledgement_that_cannot_be_written_is_told_of_once(projection: Told) -> None:
    """And the rest goes on."""
    projection.tell(EVERY)
    (projection.directory / "ack").mkdir()
    with executing("sleep", "1000", options=("--dir", projection.directory)) as process:
        for _ in range(2):
            projection.tell(EVERY, leaving=LAST)
            eventually(lambda: all_on(process.pid, REST), "left")
            projection.tell(EVERY)
            eventually(lambda: all_on(process.pid, EVERY), "back")
        assert "cannot be acknowledged" in complaint(process)
        process.terminate()
        assert complaint(process) == ""


def test_what_is_set_already_stays_and_more_may_be_named() -> None:
    """Even an empty variable, with which a Go program of 1.25 or later goes on counting by itself."""
    made = environment_for(3, {"OMP_NUM_THREADS": "8", "GOMAXPROCS": "", "HOME": "/"}, ["WORKERS"])
    assert made == {
        **dict.fromkeys(THREADS, "3"),
        "OMP_NUM_THREADS": "8",
        "GOMAXPROCS": "",
        "WORKERS": "3",
        "HOME": "/",
    }
    assert environment_for(None, {"HOME": "/"}) == {"HOME": "/"}


def test_it_runs_in_an_environment_with_the_base_install_alone() -> None:
    """Through the command's own entry point."""
    program = (
        "import sys\n"
        "for name in ('trio', 'aiodocker', 'aiohttp', 'rich'): sys.modules[name] = None\n"
        "from sidecar.__main__ import main\n"
        "sys.exit(main(['exec', '--wait', '0', '--dir', '/nonexistent', '--', 'sh', '-c', 'exit 9']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 9, done.stderr


def test_it_loads_nothing_of_the_daemons() -> None:
    """It runs in workloads, with the base install."""
    program = (
        "import sys, sidecar.workload.cmd_exec, sidecar.workload.cmd_ack\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        "print(sorted({'trio', 'aiodocker', 'aiohttp', 'rich'} & loaded))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
