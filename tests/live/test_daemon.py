"""The daemon on a real engine: what it finds at its start, what it leaves at its end, and outside changes meanwhile."""

from __future__ import annotations

import pytest

from sidecar.status.document import SharingStatus
from state.checkpoint import NAME
from state.cpuset import EMPTY
from tests.live.containers import Containers
from tests.live.kernelview import KernelView, online
from tests.live.sidecarfixtures import Ground
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import eventually, stays
from tests.live.watching import saved_books
from tests.support.keys import by_id

pytestmark = pytest.mark.live

ONE = {"cpuset.exclusive": "1"}


def until_alone(sidecar: SidecarProcess, id: str) -> None:
    sidecar.until(id, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")


def test_containers_that_ran_before_are_adopted(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """A labelled one gets its CPUs, a plain one leaves them, and one that runs lawfully on its CPUs keeps them."""
    plain = workloads.run("plain")
    first = workloads.run("first", labels={**ONE, "cpuset.on-shortage": "wait"})
    pinned = workloads.run("pinned", labels=ONE, CpusetCpus=str(LAST))
    sidecar.start()
    until_alone(sidecar, pinned)
    status = sidecar.until_quiet()
    assert kernel.allowed(pinned) == LAST
    assert kernel.allowed(first) == kernel.allowed(plain) == REST
    assert [each.id for each in status.containers if each.sharing is SharingStatus.EXCLUSIVE] == [pinned]


def test_sigterm_leaves_everything_as_it_is_and_the_next_start_goes_on(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """An upgrade of the sidecar moves no container: the recorded grant is the one from before."""
    neighbour, id = workloads.run("neighbour"), workloads.run("exclusive", labels=ONE)
    until_alone(running, id)
    running.until_quiet()
    before = saved_books(running, neighbour, id)
    assert running.terminate() == 0
    assert kernel.allowed(id) == LAST
    assert kernel.allowed(neighbour) == REST
    assert running.books() == before
    running.start()
    until_alone(running, id)
    assert running.books().assignments == before.assignments
    assert kernel.allowed(neighbour) == REST


def test_what_happened_while_no_sidecar_ran_is_made_up_for(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """While it is dead, an owner is removed, a newcomer runs unpinned, and a successor starts: the next start puts all
    in order.
    """
    first = workloads.run("first", labels=ONE)
    until_alone(running, first)
    running.kill()
    workloads.api.remove(first)
    newcomer, successor = workloads.run("newcomer"), workloads.run("successor", labels=ONE)
    running.start()
    until_alone(running, successor)
    running.until_quiet()
    assert kernel.allowed(successor) == LAST
    assert kernel.allowed(newcomer) == REST
    assert set(by_id(running.books().assignments)) == {successor}
    eventually(lambda: running.projection(first) is None, "its directory is removed")


def test_release_gives_everything_back(running: SidecarProcess, workloads: Containers, kernel: KernelView) -> None:
    """Original cpusets (all CPUs, where there was none), no grants, no projections; strangers were never touched."""
    neighbour, id = workloads.run("neighbour"), workloads.run("exclusive", labels=ONE)
    until_alone(running, id)
    stopped = workloads.create("stopped", labels=ONE)
    stranger = workloads.run("stranger", CpusetCpus="0")
    running.until_quiet()
    refused = running.command("release")
    assert refused.returncode == 1
    assert "another sidecar" in refused.stderr
    running.terminate()
    released = running.command("release")
    assert released.returncode == 0, released.stderr
    assert kernel.allowed(neighbour) == kernel.allowed(id) == online()
    assert workloads.api.inspect(stopped)["HostConfig"]["CpusetCpus"] in ("", str(online()))
    assert str(kernel.allowed(stranger)) == workloads.api.inspect(stranger)["HostConfig"]["CpusetCpus"] == "0"
    assert not running.books().assignments
    assert not running.books().originals
    assert [running.projection(each) for each in (neighbour, id, stopped)] == [None] * 3


def test_the_policy_none_touches_nothing(sidecar: SidecarProcess, workloads: Containers, kernel: KernelView) -> None:
    """The default: with or without labels, no container is pinned or updated, and no projection is written."""
    sidecar.configure(policy="none")
    sidecar.start()
    ids = [workloads.run("plain"), workloads.run("labelled", labels=ONE)]
    for id in ids:
        sidecar.until(id, lambda it: it.phase == "running", "seen")
        assert kernel.once_running(id) == online()
        assert workloads.api.inspect(id)["HostConfig"]["CpusetCpus"] == ""
        assert sidecar.projection(id) is None
    assert not sidecar.books().originals


def test_sighup_changes_the_policy(sidecar: SidecarProcess, workloads: Containers, kernel: KernelView) -> None:
    """From none to static: a container that asks gets its CPUs. A wrong configuration changes nothing."""
    sidecar.configure(policy="none")
    sidecar.start()
    plain, id = workloads.run("plain"), workloads.run("labelled", labels=ONE)
    sidecar.until(id, lambda it: it.phase == "running", "seen")
    sidecar.configure(policy="static")
    sidecar.reload()
    until_alone(sidecar, id)
    eventually(lambda: kernel.allowed(plain) == REST, "the pool is confined")
    sidecar.configure(policy="statik")
    sidecar.hang_up()
    eventually(lambda: sidecar.has_logged("the running configuration stays in force"), "said")
    stays(lambda: kernel.allowed(id) == LAST, "alone", seconds=0.3)
    assert sidecar.is_running


def test_a_second_sidecar_is_refused(running: SidecarProcess, workloads: Containers, kernel: KernelView) -> None:
    """On the same State; it names the running process, and the first is not disturbed."""
    second = running.command("run")
    assert second.returncode == 1
    assert "another sidecar (process " in second.stderr
    id = workloads.run("exclusive", labels=ONE)
    until_alone(running, id)
    assert kernel.once_running(id) == LAST


@pytest.mark.parametrize(
    "content", [b"", b'{"version":1,"checksum":"sha256:00","state":{}}', b'{"version":99'], ids=len
)
def test_a_corrupt_checkpoint_is_set_aside_and_rebuilt(
    running: SidecarProcess, workloads: Containers, kernel: KernelView, content: bytes
) -> None:
    """Both files are unreadable: the engine and the kernel say what runs where, and no container is moved."""
    neighbour, id = workloads.run("neighbour"), workloads.run("exclusive", labels=ONE)
    until_alone(running, id)
    running.until_quiet()
    running.kill()
    names = [file.name for file in running.state_dir.glob("checkpoint*")]
    for name in names:
        (running.state_dir / name).write_bytes(content)
    running.start()
    until_alone(running, id)
    running.until_quiet()
    assert kernel.allowed(id) == LAST
    assert kernel.allowed(neighbour) == REST
    aside = [file for file in running.state_dir.glob("checkpoint*") if file.name not in (NAME, *names)]
    assert any(file.read_bytes() == content for file in aside)
    assert by_id(running.books().assignments)[id].cpus == LAST


HANDS = pytest.mark.parametrize("has_hand", [False, True], ids=["hand off", "with a hand"])


def without_inventories(sidecar: SidecarProcess, *, has_hand: bool) -> None:
    """Start it so that only what it hears leads to a look."""
    sidecar.configure(reconcile_period="60m", **({} if has_hand else {"hand": "off"}))
    sidecar.start()


@HANDS
@pytest.mark.intrudes("a neighbour is updated onto the CPU of the owner")
def test_a_cpuset_that_another_tool_changed_is_repaired(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView, *, has_hand: bool
) -> None:
    """`docker update --cpuset-cpus` on an owner, and on a neighbour that is thereby put onto the owner's CPU. Podman
    before 5.1 makes no event of it.
    """
    without_inventories(sidecar, has_hand=has_hand)
    neighbour, id = workloads.run("neighbour"), workloads.run("exclusive", labels=ONE)
    until_alone(sidecar, id)
    sidecar.until_quiet()
    workloads.api.update(id, CpusetCpus="0")
    eventually(lambda: kernel.allowed(id) == LAST, "the owner is back")
    workloads.api.update(neighbour, CpusetCpus=str(online()))
    eventually(lambda: kernel.allowed(neighbour) == REST, "the neighbour is out again")
    until_alone(sidecar, id)


@HANDS
def test_a_cpuset_changed_behind_the_engine_is_repaired(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView, *, has_hand: bool
) -> None:
    """The engine does not see the change and sends no event: the hand hears of it, or else the ears do, and a look
    repairs it.
    """
    without_inventories(sidecar, has_hand=has_hand)
    id = workloads.run("exclusive", labels=ONE)
    until_alone(sidecar, id)
    sidecar.until_quiet()
    # A hand answers once it has found where containers are born, however early the first one has its CPUs.
    eventually(lambda: (told := sidecar.status().hand) and told.is_answering == has_hand, "the hand is as configured")
    if not kernel.write_cpuset(id, online()):
        pytest.skip("this host's cgroup files cannot be written here")
    eventually(lambda: kernel.allowed(id) == LAST, "repaired")


def test_a_huge_label_on_a_neighbour_does_no_harm(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """600 KiB, and 5 MB: longer than any line of events that is kept. Every container is served as usual."""
    if workloads.api.is_podman:
        pytest.skip("Podman's own service ends over a label of 5 MB (seen of 5.4.2)")
    loud = [workloads.run(f"loud-{size}", labels={"story": "x" * size}) for size in (600 * 1024, 5_000_000)]
    for each in loud:
        eventually(lambda id=each: running.container(id), "seen")  # type: ignore[misc]
    id = workloads.run("exclusive", labels=ONE)
    until_alone(running, id)
    assert kernel.once_running(id) == LAST
    assert [kernel.allowed(each) for each in loud] == [REST, REST]
    assert running.is_running


def test_a_workload_reads_its_cpus_by_its_own_name(
    running: SidecarProcess, workloads: Containers, ground: Ground
) -> None:
    """It mounts the root read-only and finds its files at by-id/$HOSTNAME; another mounts only the directory it
    named.
    """
    root = running.projections
    # In a network of its own it has a host name of its own.
    by_id = workloads.run("by-id", labels=ONE, NetworkMode="none", Binds=[f"{root}:/run/cpuset-sidecar:ro"])
    until_alone(running, by_id)
    read = workloads.execute(by_id, "sh", "-c", "cat /run/cpuset-sidecar/by-id/$HOSTNAME/cpuset")
    assert read.strip() == str(LAST)
    assert "Read-only" in workloads.execute(by_id, "sh", "-c", "echo x > /run/cpuset-sidecar/by-id/$HOSTNAME/x 2>&1")
    named = workloads.create("by-name", labels={"cpuset.projection": "web"}, Binds=[f"{root}/by-name/web:/cpus:ro"])
    eventually(lambda: (root / "by-name/web/cpuset").exists(), "told by name before it starts")
    workloads.api.act(named, "start")
    running.until(named, lambda it: it.is_settled and it.phase == "running", "settled")
    read = eventually(lambda: workloads.execute(named, "cat", "/cpus/cpuset"), "it reads")
    assert read.strip() == str(REST)
    assert workloads.execute(named, "ls", "/cpus").split() == ["by-id", "cpuset", "lease", "status.json"]
    workloads.api.remove(by_id)
    eventually(lambda: workloads.execute(named, "cat", "/cpus/cpuset").strip() == str(online()), "it reads the change")


def test_nothing_is_granted_on_an_idle_machine(running: SidecarProcess) -> None:
    """No containers: ready at once, all CPUs shared, and an empty State."""
    status = running.until_quiet()
    assert status.exclusive == EMPTY
    assert status.shared == online()
    assert running.journal()
