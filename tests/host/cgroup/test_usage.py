"""A container's use is read where the kernel counts it, on any layout of hierarchies, and never guessed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from sidecar.decide.books.load_sample import Usage
from sidecar.decide.facts import ContainerView, Phase
from sidecar.host.cgroup.places import CGROUP, v1_hierarchy, v2_hierarchy
from sidecar.host.cgroup.usage import HostUsages

ID = "0123456789abcdef" * 4
STAT_V2 = "usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\nnr_periods 9\nnr_throttled 3\nthrottled_usec 12\n"
STAT_V1 = "nr_periods 40\nnr_throttled 7\nthrottled_time 1234\n"
PRESSURE = (
    "some avg10=12.34 avg60=1.00 avg300=0.10 total=987654\nfull avg10=99.00 avg60=0.00 avg300=0.00 total=11111111\n"
)


def view(*, id: str = ID, phase: Phase = Phase.RUNNING, pid: int = 0, started_at: str = "") -> ContainerView:
    return ContainerView(id=id, name="a", phase=phase, pid=pid, started_at=started_at)


def files(root: Path, **contents: str) -> None:
    """Write files; `cpu__stat="..."` writes the file cpu.stat."""
    root.mkdir(parents=True, exist_ok=True)
    for name, text in contents.items():
        (root / name.replace("__", ".")).write_text(text)


def v2(root: Path, path: str = f"docker/{ID}", *, stat: str = STAT_V2, pressure: str | None = PRESSURE) -> Path:
    """Make a host with v2 alone."""
    files(root, cgroup__controllers="cpuset cpu io memory\n")
    files(root / path, cpu__stat=stat)
    if pressure is not None:
        files(root / path, cpu__pressure=pressure)
    return root / path


def v1(root: Path, cpu: str = "cpu", cpuacct: str = "cpuacct", path: str = f"docker/{ID}") -> None:
    """Make a host whose controllers have these mounts."""
    files(root / cpuacct, tasks="", cpuacct__usage="0\n")
    files(root / cpu, tasks="", cpu__stat="")
    files(root / cpuacct / path, cpuacct__usage="1500000001\n")
    files(root / cpu / path, cpu__stat=STAT_V1)


def usage(root: Path, seen: ContainerView | None = None) -> Usage | None:
    return HostUsages(cgroup=root, proc=root / "proc").usage(seen or view())


def test_v2_tells_all_in_one_hierarchy(tmp_path: Path) -> None:
    v2(tmp_path)
    assert usage(tmp_path) == Usage(
        cpu_nanoseconds=1_500_000_000, throttled=3, waiting_microseconds=987654, pressure=12.34
    )


@pytest.mark.parametrize(
    ("cpu", "cpuacct"), [("cpu", "cpuacct"), ("cpu,cpuacct", "cpu,cpuacct"), ("cpuacct,cpu", "cpuacct,cpu")]
)
def test_v1_tells_it_in_two_hierarchies_or_in_one(tmp_path: Path, cpu: str, cpuacct: str) -> None:
    """However the controllers are mounted; there is no pressure."""
    v1(tmp_path, cpu, cpuacct)
    assert usage(tmp_path) == Usage(cpu_nanoseconds=1_500_000_001, throttled=7)


def test_the_root_may_be_the_mount_of_v1_itself(tmp_path: Path) -> None:
    v1(tmp_path, "cpu,cpuacct", "cpu,cpuacct")
    assert usage(tmp_path / "cpu,cpuacct") == Usage(cpu_nanoseconds=1_500_000_001, throttled=7)


def test_a_hybrid_host_has_its_pressure_on_v2(tmp_path: Path) -> None:
    """CPU time is that of v1, where engines on such a host always put containers."""
    v1(tmp_path)
    v2(tmp_path / "unified")
    assert usage(tmp_path) == Usage(
        cpu_nanoseconds=1_500_000_001, throttled=7, waiting_microseconds=987654, pressure=12.34
    )
    shutil.rmtree(tmp_path / "unified" / "docker")
    assert usage(tmp_path) == Usage(cpu_nanoseconds=1_500_000_001, throttled=7)


def test_a_hybrid_host_with_containers_on_v2_alone(tmp_path: Path) -> None:
    v1(tmp_path)
    shutil.rmtree(tmp_path / "cpuacct" / "docker")
    v2(tmp_path / "unified", stat="usage_usec 5\n")
    assert usage(tmp_path) == Usage(cpu_nanoseconds=5000, waiting_microseconds=987654, pressure=12.34)


def test_crun_puts_it_one_deeper(tmp_path: Path) -> None:
    v2(tmp_path, f"machine.slice/libpod-{ID}.scope/container")
    assert usage(tmp_path) is not None


def test_proc_tells_where_the_places_do_not(tmp_path: Path) -> None:
    """By the controller's own line, on v1."""
    v1(tmp_path, path=f"lxc/{ID}")
    files(tmp_path / "proc" / "42", cgroup=f"5:cpuset:/elsewhere/{ID}\n3:cpuacct:/lxc/{ID}\n2:cpu:/lxc/{ID}\n0::/\n")
    assert usage(tmp_path, view(pid=42)) == Usage(cpu_nanoseconds=1_500_000_001, throttled=7)


@pytest.mark.parametrize("pressure", [None, "", "some avg10=0.00\n", "full avg10=1.00 avg60=0.00 total=1\n", "\x00"])
def test_a_kernel_without_pressure(tmp_path: Path, pressure: str | None) -> None:
    """Built without PSI, or started with psi=0: the rest is still reported."""
    v2(tmp_path, pressure=pressure)
    assert usage(tmp_path) == Usage(cpu_nanoseconds=1_500_000_000, throttled=3)


def test_without_the_cpu_controller_nothing_is_throttled(tmp_path: Path) -> None:
    v2(tmp_path, stat="usage_usec 1\nuser_usec 1\nsystem_usec 0\n", pressure=None)
    assert usage(tmp_path) == Usage(cpu_nanoseconds=1000)


@pytest.mark.parametrize("stat", ["", "nr_throttled 3\n", "usage_usec many\n", "usage_usec -1\n", "xusage_usec 3\n"])
def test_without_cpu_time_there_is_no_answer(tmp_path: Path, stat: str) -> None:
    v2(tmp_path, stat=stat)
    assert usage(tmp_path) is None
    v1(tmp_path / "one")
    files(tmp_path / "one" / "cpuacct" / "docker" / ID, cpuacct__usage=stat)
    assert usage(tmp_path / "one") is None


@pytest.mark.parametrize("phase", [phase for phase in Phase if not phase.is_live])
def test_a_container_that_is_not_live_uses_nothing(tmp_path: Path, phase: Phase) -> None:
    v2(tmp_path)
    assert usage(tmp_path, view(phase=phase)) is None


@pytest.mark.parametrize("id", ["", "..", "../../etc", ID[:12], ID.upper(), ID + "0"])
def test_only_a_full_id_becomes_part_of_a_path(tmp_path: Path, id: str) -> None:
    v2(tmp_path)
    files(tmp_path / "docker", cpu__stat=STAT_V2)
    assert usage(tmp_path, view(id=id)) is None


def test_a_host_without_cgroups_gives_no_answer(tmp_path: Path) -> None:
    assert usage(tmp_path) is None


def test_another_start_is_looked_for_again(tmp_path: Path) -> None:
    """Files from before belong to a container that has ended."""
    usages = HostUsages(cgroup=tmp_path, proc=tmp_path / "proc")
    old = v2(tmp_path)
    assert usages.usage(view(started_at="1")) is not None
    shutil.rmtree(old)
    assert usages.usage(view(started_at="2")) is None
    v2(tmp_path, stat="usage_usec 7\n")
    assert usages.usage(view(started_at="2")) == Usage(
        cpu_nanoseconds=7000, waiting_microseconds=987654, pressure=12.34
    )
    shutil.rmtree(old)
    v2(tmp_path, f"system.slice/docker-{ID}.scope", stat="usage_usec 8\n", pressure=None)
    assert usages.usage(view(started_at="3")) == Usage(cpu_nanoseconds=8000)


def test_what_changes_in_place_is_seen(tmp_path: Path) -> None:
    """Files that are open are read from their beginning; one that comes later is opened then."""
    usages = HostUsages(cgroup=tmp_path, proc=tmp_path / "proc")
    directory = v2(tmp_path, pressure=None)
    assert usages.usage(view()) == Usage(cpu_nanoseconds=1_500_000_000, throttled=3)
    files(directory, cpu__stat="usage_usec 1500001\nnr_throttled 4\n", cpu__pressure=PRESSURE)
    assert usages.usage(view()) == Usage(
        cpu_nanoseconds=1_500_001_000, throttled=4, waiting_microseconds=987654, pressure=12.34
    )


def open_below(root: Path) -> int:
    """Return how many files of this process are open below a folder."""
    links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    return sum(os.path.lexists(link) and os.readlink(link).startswith(str(root)) for link in links)


def test_open_files_are_bounded_and_let_go(tmp_path: Path) -> None:
    """Containers beyond the bound are read as well; files of containers that are gone or not needed are closed."""
    ids = [f"{number:064x}" for number in range(5)]
    for id in ids:
        v2(tmp_path, f"docker/{id}")
    usages = HostUsages(cgroup=tmp_path, proc=tmp_path / "proc", kept=3)
    for _ in range(3):
        assert all(usages.usage(view(id=id)) for id in ids)
        assert open_below(tmp_path) == 3 * 2
    usages.retain(ids[1:])
    assert open_below(tmp_path) == 2 * 2
    assert usages.usage(view(id=ids[4], started_at="2")) is not None
    assert open_below(tmp_path) == 3 * 2
    assert usages.usage(view(id=ids[4], phase=Phase.EXITED)) is None
    assert open_below(tmp_path) == 2 * 2
    usages.retain(())
    assert open_below(tmp_path) == 0


@contextmanager
def cgroup(path: str) -> Iterator[str]:
    """Make a cgroup of the real kernel, empty again at the end."""
    try:
        os.mkdir(path)
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error.strerror}")
    try:
        yield path
    finally:
        for pid in Path(path, "cgroup.procs").read_text().split():
            Path(os.path.dirname(path), "cgroup.procs").write_text(pid)
        os.rmdir(path)


def real_roots() -> list[str]:
    """Return the hierarchies of this host that count a container's use."""
    found = (
        v1_hierarchy(CGROUP, "cpuacct", "cpuacct.usage"),
        v1_hierarchy(CGROUP, "cpu", "cpu.stat"),
        v2_hierarchy(CGROUP),
    )
    roots = sorted({hierarchy.root for hierarchy in found if hierarchy})
    if not roots:
        pytest.skip("there are no cgroups here")
    return roots


@contextmanager
def spinning(id: str) -> Iterator[ContainerView]:
    """Run, as far as the kernel sees, a container with one process that never rests."""
    parent = f"/cpuset-sidecar-{id[:12]}"
    with ExitStack() as stack:
        made = []
        for root in real_roots():
            stack.enter_context(cgroup(f"{root}{parent}"))
            made.append(stack.enter_context(cgroup(f"{root}{parent}/{id}")))
        spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            for path in made:
                Path(path, "cgroup.procs").write_text(str(spinner.pid))
            yield ContainerView(id=id, name="a", phase=Phase.RUNNING, cgroup_parent=parent)
        finally:
            spinner.kill()
            spinner.wait()


def wait_until_used(usages: HostUsages, seen: ContainerView, seconds: float) -> int:
    """Wait until this much more CPU time is counted; return how much was counted at the start, in nanoseconds."""
    first = usages.usage(seen)
    assert first is not None
    before, deadline = first, time.monotonic() + 20
    while before.cpu_nanoseconds - first.cpu_nanoseconds < seconds * 1e9:
        assert time.monotonic() < deadline
        latest = usages.usage(seen)
        assert latest is not None
        assert latest.cpu_nanoseconds >= before.cpu_nanoseconds
        before = latest
    return first.cpu_nanoseconds


def test_the_real_kernel_counts_what_is_used() -> None:
    """Counters of one start never fall; the next start has its own, though the files of the first were open."""
    usages, id = HostUsages(), os.urandom(32).hex()
    with spinning(id) as seen:
        wait_until_used(usages, seen, 0.3)
        if os.path.exists(f"{CGROUP}/unified/cpu.pressure") or os.path.exists(f"{CGROUP}/cpu.pressure"):
            usage = usages.usage(seen)
            assert usage is not None
            assert usage.waiting_microseconds is not None
    # A removed cgroup is not held open, and it does not answer, whatever is believed of the container.
    assert usages.usage(seen) is None
    with spinning(id) as again:
        # The engine's view may lag behind: the same start, as far as is known.
        assert again == seen
        first = wait_until_used(usages, again, 0.01)
        assert first < 200_000_000
    assert usages.usage(again) is None
