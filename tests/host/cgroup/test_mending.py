"""Undoing what offline CPUs leave behind on cgroup v1: parents, and processes that fell out of their groups."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.decide.facts import ContainerView, Phase
from sidecar.host.cgroup import mending
from sidecar.host.cgroup.descent import processes_below
from sidecar.host.cgroup.host_kernel import HostKernel
from sidecar.host.cgroup.places import v1_hierarchy
from sidecar.words.strays import told
from state.cpuset import CPUSet
from state.errors import StateError
from tests.support.deep_groups import nested

ID = "0123456789abcdef" * 4
OTHER = "fedcba9876543210" * 4


def view(id: str = ID, *, parent: str = "", pid: int = 0, started: str = "1") -> ContainerView:
    return ContainerView(
        id=id, name=id[:4], phase=Phase.RUNNING, cgroup_parent=parent, pid=pid, started_at=started, cpuset="1"
    )


class Tree:
    """A v1 host as files: a cpuset and a memory hierarchy, and /proc."""

    def __init__(self, path: Path) -> None:
        self.root, self.proc = path / "cgroup", path / "proc"
        self.cpuset, self.memory = self.root / "cpuset", self.root / "memory"
        self.group("", "0-7")
        (self.cpuset / "tasks").write_text("")
        self.memory.mkdir()
        for name in ("tasks", "cgroup.procs"):
            (self.memory / name).write_text("")
        self.kernel = HostKernel(cgroup=self.root, proc=self.proc)

    def group(self, path: str, cpus: str, *processes: int) -> Path:
        directory = self.cpuset / path
        directory.mkdir(parents=True, exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.effective_cpus"):
            (directory / name).write_text(f"{cpus}\n")
        (directory / "cpuset.mems").write_text("0\n")
        (directory / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in processes))
        return directory

    def process(self, pid: int, *, container: str = ID, parent: str = "docker", at: str = "") -> None:
        """Add a process of a container, whose cpuset group is `at`."""
        (self.proc / str(pid)).mkdir(parents=True)
        (self.proc / str(pid) / "cgroup").write_text(f"5:memory:/{parent}/{container}\n3:cpuset:/{at}\n0::/\n")
        directory = self.memory / parent / container
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / "cgroup.procs").open("a") as file:
            file.write(f"{pid}\n")

    def cpus(self, path: str) -> str:
        return (self.cpuset / path / "cpuset.cpus").read_text().strip()

    def effective(self, of: ContainerView) -> str:
        return str(self.kernel.effective_cpus(of) or "")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_an_engines_group_gets_all_cpus_back_and_a_containers_own_is_not_touched(tree: Tree) -> None:
    """Containers' own CPUs are decided, and written by the engine."""
    tree.group("docker", "0-3")
    tree.group(f"docker/{ID}", "1-2", 42)
    tree.process(42, at=f"docker/{ID}")
    assert tree.kernel.mend([view(pid=42)]) == ()
    assert (tree.cpus("docker"), tree.cpus(f"docker/{ID}")) == ("0-7", "1-2")
    assert tree.kernel.mend([view(pid=42)]) == ()


def test_a_group_that_people_made_gets_back_what_it_had(tree: Tree) -> None:
    """It may be small on purpose. The root shows CPUs that go and come back."""
    game = view(parent="/games/night")
    tree.group("games", "0-5")
    tree.group("games/night", "0-3")
    tree.group(f"games/night/{ID}", "1", 42)
    assert tree.kernel.mend([game]) == ()
    assert (tree.cpus("games"), tree.cpus("games/night")) == ("0-5", "0-3")
    for path, cpus in (("", "0-1,4-7"), ("games", "0-1,4-5"), ("games/night", "0-1")):
        tree.group(path, cpus)
    assert tree.kernel.mend([game]) == ()
    assert (tree.cpus("games"), tree.cpus("games/night")) == ("0-1,4-5", "0-1")
    tree.group("", "0-2,4-7")
    assert tree.kernel.mend([game]) == ()
    assert (tree.cpus("games"), tree.cpus("games/night")) == ("0-2,4-5", "0-2")


def test_one_that_fell_out_runs_on_the_cpus_above_until_it_is_brought_back(tree: Tree) -> None:
    """The group's own CPUs prove nothing: they may have come after the processes left."""
    tree.group("docker", "0-7")
    own = tree.group(f"docker/{ID}", "")
    tree.process(42, at="docker")
    game = view(pid=42)
    assert tree.effective(game) == "0-7"
    (trouble,) = tree.kernel.mend([game])
    assert "its last CPU went offline" in told(trouble)
    tree.group(f"docker/{ID}", "3")
    assert tree.effective(game) == "0-7"
    assert tree.kernel.mend([game]) == ()
    assert (own / "cgroup.procs").read_text() == "42"
    assert tree.effective(game) == "3"


@pytest.mark.parametrize("pid", [0, 42])
def test_a_group_that_was_just_made_has_lost_no_cpus(tree: Tree, pid: int) -> None:
    """Its runtime writes CPUs, then memory nodes, and only then there are processes. What is known of the container is
    a glance, or its start before.
    """
    tree.group("docker", "0-7")
    own = tree.group(f"docker/{ID}", "")
    (own / "cpuset.mems").write_text("\n")
    assert tree.kernel.mend([view(pid=pid)]) == ()
    tree.group(f"docker/{ID}", "3")
    assert tree.effective(view(pid=pid)) == "3"
    assert tree.kernel.mend([view(pid=pid)]) == ()


def test_a_group_that_goes_while_it_is_read_has_lost_no_cpus(tree: Tree) -> None:
    """Its container ends: its directory was found, and its files are gone."""
    tree.group("docker", "0-7")
    for file in (own := tree.group(f"docker/{ID}", "3")).iterdir():
        file.unlink()
    assert own.is_dir()
    assert tree.kernel.mend([view(pid=42)]) == ()
    tree.group(f"docker/{ID}", "4")
    assert tree.effective(view(pid=42)) == "4"


def test_processes_that_leave_their_group_are_missed_at_the_next_look(tree: Tree) -> None:
    """Also where they were seen before, and the group has CPUs: the hand may have given it these at once."""
    tree.group("docker", "0-7")
    tree.group(f"docker/{ID}", "3", 42)
    tree.process(42, at=f"docker/{ID}")
    assert tree.effective(view(pid=42)) == "3"
    tree.group(f"docker/{ID}", "4")
    (tree.proc / "42/cgroup").write_text(f"5:memory:/docker/{ID}\n3:cpuset:/docker\n")
    assert tree.effective(view(pid=42)) == "0-7"


def test_a_container_whose_group_has_another_name_is_where_its_main_process_is(tree: Tree) -> None:
    """Whether it was seen before or not; where the way to it is not visible, that may be any group."""
    tree.group("docker", "0-7")
    tree.group(f"docker/{ID}", "3", 42).rename(tree.group("docker", "0-7") / "foo")
    tree.process(42)
    for path, cpus in (("/docker/foo", "3"), ("/docker/gone", "0-7"), ("/../foo", "0-7"), ("/", "0-7")):
        (tree.proc / "42/cgroup").write_text(f"5:memory:/docker/{ID}\n3:cpuset:{path}\n")
        assert tree.effective(view(pid=42)) == cpus
    (tree.proc / "42/cgroup").write_text("5:memory:/user.slice\n3:cpuset:/docker/foo\n")
    assert tree.effective(view(pid=42)) == "", "it may be another process"
    assert tree.kernel.mend([view(pid=42)]) == ()


def test_processes_that_are_not_visible_are_astray_from_an_empty_group_to_the_next_start(tree: Tree) -> None:
    """A sidecar in a container without the host's processes must not report what it cannot know."""
    tree.group("docker", "0-7")
    tree.group(f"docker/{ID}", "3")
    assert tree.effective(view(pid=42)) == "3"
    tree.group(f"docker/{ID}", "")
    assert len(tree.kernel.mend([view(pid=42)])) == 1
    tree.group(f"docker/{ID}", "4")
    assert tree.effective(view(pid=42)) == "0-7"
    (trouble,) = tree.kernel.mend([view(pid=42)])
    assert "they are not visible" in told(trouble)
    assert "pid: host" in told(trouble)
    assert tree.effective(view(pid=43, started="2")) == "4"
    assert tree.kernel.mend([view(pid=43, started="2")]) == ()


def test_another_process_with_the_same_number_is_ignored(tree: Tree) -> None:
    """In another PID namespace 42 may be any process: it is neither believed nor moved."""
    tree.group("docker", "0-7")
    own = tree.group(f"docker/{ID}", "3")
    (tree.proc / "42").mkdir(parents=True)
    (tree.proc / "42/cgroup").write_text("5:memory:/user.slice\n3:cpuset:/\n")
    assert tree.effective(view(pid=42)) == "3"
    assert tree.kernel.mend([view(pid=42)]) == ()
    assert (own / "cgroup.procs").read_text() == ""


def test_a_tree_that_cannot_be_written_is_said_in_words(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to mount, or what to restart."""
    tree.group("docker", "0-3")
    tree.group(f"docker/{ID}", "3")
    tree.process(42, at="docker")

    def refuse(path: Path, text: str) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "write_text", refuse)
    parents, processes = map(told, tree.kernel.mend([view(pid=42)]))
    assert "(Read-only file system), so no container in it can use them: mount /sys/fs/cgroup writable" in parents
    assert "write 0-7 to its cpuset.cpus" in parents
    assert processes.endswith("or restart 0123")


def test_directories_in_the_way_are_said_in_words(tree: Tree) -> None:
    """A failed write becomes a sentence, whatever the reason."""
    tree.group("docker", "0-3")
    own = tree.group(f"docker/{ID}", "3")
    tree.process(42, at="docker")
    (own / "cgroup.procs").unlink()
    (own / "cgroup.procs").mkdir()
    (trouble,) = tree.kernel.mend([view(pid=42)])
    assert told(trouble) == (
        "0123: its processes left its cgroup when its last CPU went offline, and cannot be moved back (Is a "
        "directory): mount /sys/fs/cgroup writable into the sidecar and run it with the host's PID namespace "
        "(pid: host), or restart 0123"
    )


def test_a_container_that_does_not_run_or_has_no_group_is_ignored(tree: Tree) -> None:
    """An exited container has no processes to bring back."""
    exited = ContainerView(id=OTHER, name="x", phase=Phase.EXITED)
    assert tree.kernel.mend([exited, view(OTHER), view("../docker")]) == ()


def test_nothing_is_done_on_v2(tmp_path: Path) -> None:
    """On v2 the kernel restores CPUs by itself."""
    (tmp_path / "cgroup.controllers").write_text("cpuset\n")
    group = tmp_path / "docker" / ID
    group.mkdir(parents=True)
    (group / "cpuset.cpus").write_text("\n")
    assert HostKernel(cgroup=tmp_path).mend([view()]) == ()
    assert (group / "cpuset.cpus").read_text() == "\n"
    assert HostKernel(cgroup=tmp_path / "nowhere").mend([view()]) == ()


def test_the_online_cpus_are_one_short_file(tmp_path: Path) -> None:
    """And an error in words if it is missing."""
    directory = tmp_path / "devices/system/cpu"
    directory.mkdir(parents=True)
    (directory / "online").write_text("0-3,5\n")
    assert HostKernel(sys=tmp_path).online() == CPUSet.parse("0-3,5")
    (directory / "online").write_text("none of them\n")
    with pytest.raises(StateError, match="does not say which CPUs are online"):
        HostKernel(sys=tmp_path).online()


@pytest.fixture
def real_parent() -> Iterator[tuple[str, list[Path]]]:
    """Make a parent of our own in the real cpuset and memory hierarchies, with an empty group of a container in
    each.
    """
    name = f"/cpuset-tests-{os.getpid()}"
    roots = [
        found.root for each in ("cpuset", "memory") if (found := v1_hierarchy("/sys/fs/cgroup", each, "cgroup.procs"))
    ]
    if os.geteuid() != 0 or len(set(roots)) != 2:
        pytest.skip("needs root, and cpuset and memory on cgroup v1")
    made = [Path(f"{root}{name}/{ID}") for root in roots]
    try:
        for directory in made:
            directory.mkdir(parents=True)
        for directory in (made[0].parent, made[0]):
            for file in ("cpuset.mems", "cpuset.cpus"):
                (directory / file).write_text((directory.parent / file).read_text())
    except OSError as error:
        _remove(made)
        pytest.skip(f"cgroups cannot be made here: {error}")
    yield name, made
    _remove(made)


def _remove(directories: list[Path]) -> None:
    deadline = time.monotonic() + 10
    for directory in (path for each in directories for path in (each, each.parent)):
        while directory.exists():
            try:
                directory.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)


def test_a_real_kernel_lets_processes_return(real_parent: tuple[str, list[Path]]) -> None:
    """A process is in its memory group, and in the cpuset group above its own, as the kernel leaves it: it is seen to
    run there, and moved back with its child.
    """
    parent, (cpuset, memory) = real_parent
    with subprocess.Popen(["/bin/sh", "-c", "sleep 60 & wait"]) as shell:
        try:
            (memory / "cgroup.procs").write_text(str(shell.pid))
            (cpuset.parent / "cgroup.procs").write_text(str(shell.pid))
            game, kernel = view(parent=parent, pid=shell.pid), HostKernel()
            last = list(CPUSet.parse((cpuset.parent / "cpuset.cpus").read_text()))[-1:]
            (cpuset / "cpuset.cpus").write_text(str(CPUSet(last)))
            everybody = CPUSet.parse((cpuset.parent / "cpuset.cpus").read_text())
            assert kernel.effective_cpus(game) == everybody
            assert kernel.mend([game]) == ()
            assert kernel.effective_cpus(game) == CPUSet(last)
            assert str(shell.pid) in (cpuset / "cgroup.procs").read_text().split()
            assert set((memory / "cgroup.procs").read_text().split()) == set(
                (cpuset / "cgroup.procs").read_text().split()
            )
        finally:
            for pid in {*(memory / "cgroup.procs").read_text().split(), str(shell.pid)}:
                os.kill(int(pid), 9)


def test_no_depth_of_a_tenants_groups_ends_the_mending_or_costs_another_container(tree: Tree) -> None:
    """Deeper than Python's stack, in its own group and in that of another hierarchy."""
    tree.group("docker", "0-7")
    tree.group(f"docker/{ID}", "1", 42)
    tree.process(42, at=f"docker/{ID}")
    own = tree.group(f"docker/{OTHER}", "2")
    tree.process(43, container=OTHER, at="docker")
    with nested(tree.cpuset / f"docker/{ID}/a", ["a"] * 1500), nested(tree.memory / f"docker/{ID}/a", ["a"] * 1500):
        assert tree.kernel.mend([view(pid=42), view(OTHER, pid=43)]) == ()
    assert (own / "cgroup.procs").read_text() == "43"


def test_an_error_that_nobody_expected_costs_its_own_container_alone(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told as what it is."""
    tree.group("docker", "0-7")
    tree.group(f"docker/{ID}", "1", 42)
    own = tree.group(f"docker/{OTHER}", "2")
    tree.process(43, container=OTHER, at="docker")

    def fail(directory: str) -> tuple[set[int], bool]:
        if ID in directory:
            raise RecursionError("too deep")
        return processes_below(directory)

    monkeypatch.setattr(mending, "processes_below", fail)
    (trouble,) = tree.kernel.mend([view(pid=42), view(OTHER, pid=43)])
    assert told(trouble).endswith("is not known (RecursionError: too deep)")
    assert (own / "cgroup.procs").read_text() == "43"


def test_a_group_that_may_not_be_read_has_not_lost_its_last_cpu(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a tenant changed the mode of its group's files, and root has no right to pass over that."""
    tree.group("docker", "0-7")
    tree.group(f"docker/{ID}", "1", 42)
    tree.process(42, at=f"docker/{ID}")
    plain = os.open

    def denied(path: str, *rest: int, **others: int) -> int:
        if str(path).endswith(f"docker/{ID}/cpuset.cpus"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return plain(path, *rest, **others)

    monkeypatch.setattr(os, "open", denied)
    (trouble,) = tree.kernel.mend([view(pid=42)])
    assert "permission denied" in told(trouble)
    assert "last CPU" not in told(trouble)
    assert "CAP_DAC_OVERRIDE" in told(trouble), "the cure"
