"""The state directory: full, read-only, deleted, closed to the sidecar; while it runs and when it starts.

Running containers stay where they are. If the status document cannot be written either, the API and the log report.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sidecar.status.document import Status
from state import codec
from tests.live.containers import Containers
from tests.live.kernelview import KernelView
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.smalldisk import SmallDisk, breaking_disk, small_disk
from tests.live.stage import ask
from tests.live.test_dead_sidecar import written
from tests.live.waiting import eventually
from tests.live.watching import NANO, ONE, given_back, reasons, saved_books, until_alone, until_shared, watched
from tests.support.keys import by_id

pytestmark = pytest.mark.live

LIMITED = {"NanoCpus": NANO}
FULL = "there is no space left; free some"
READ_ONLY = "it is on a read-only file system"


@pytest.fixture
def disk(sidecar: SidecarProcess) -> Iterator[SmallDisk]:
    """Provide the file system of the state directory."""
    with small_disk(sidecar.state_dir) as made:
        yield made
        # Its log and its containers are not on the disk.
        sidecar.kill()


def shown(sidecar: SidecarProcess) -> Status:
    """Return what the daemon shows over its socket."""
    return codec.decode(ask(sidecar.state_dir, "GET", "/v1/status").encode(), Status)


def told(sidecar: SidecarProcess) -> str:
    """Return what the daemon reports over its socket that it cannot do."""
    return "; ".join(shown(sidecar).problems)


def test_books_that_find_no_room_are_said_and_made_up_for(
    disk: SmallDisk, sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """Grants come and go meanwhile. With room again the State is written without intervention."""
    sidecar.start()
    neighbour, first = workloads.run("neighbour"), workloads.run("first", labels=ONE, **LIMITED)
    until_alone(sidecar, first)
    until_shared(sidecar, neighbour)
    with watched(sidecar, neighbour, first) as watcher:
        disk.fill()
        assert kernel.allowed(first) == LAST
        watcher.forget(first)
        workloads.api.remove(first)
        eventually(lambda: sidecar.has_logged("the standing order of fronts cannot be written"), "it is taken away")
        eventually(lambda: sidecar.has_logged("released"), "that is decided, and was to be saved")
        # What that gave up. From here on nothing is saved.
        disk.fill()
        kept = sidecar.books()
        second, late = workloads.run("second", labels=ONE, **LIMITED), workloads.run("late")
        for what in ("the recorded state is not saved: cannot write checkpoint.json", "cannot write the journal"):
            eventually(lambda what=what: f"{what}: {FULL}" in told(sidecar), f"said: {what}")  # type: ignore[misc]
            assert sidecar.has_logged(f"{what}: ")
        # Without the sidecar no front starts the second one: no books have it. What was written of the first is gone.
        assert written(sidecar) == {}
        # That the first one is gone may have found that room before.
        assert sidecar.books() == kept
        assert set(by_id(kept.assignments)) <= {first}
        disk.free()
        eventually(lambda: not told(sidecar), "all is well again")
        until_alone(sidecar, second)
        until_shared(sidecar, neighbour)
    until_shared(sidecar, late)
    assert (kernel.allowed(second), kernel.allowed(neighbour), kernel.allowed(late)) == (LAST, REST, REST)
    eventually(lambda: set(by_id(sidecar.books().assignments)) == {second}, "the books are written")
    eventually(lambda: set(written(sidecar)) == {second}, "and what fronts would answer")
    assert sidecar.journal()
    given_back(sidecar, workloads, {second: LIMITED, neighbour: {}, late: {}})


def test_a_container_that_came_while_the_disk_was_full_is_known_to_the_next_sidecar(
    disk: SmallDisk, sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """The State is kept next to the projections meanwhile: a newcomer's originals are recorded nowhere else."""
    sidecar.start()
    neighbour = workloads.run("neighbour")
    until_shared(sidecar, neighbour)
    disk.fill()
    owner, late = workloads.run("owner", labels=ONE, **LIMITED), workloads.run("late")
    eventually(lambda: "until then it is kept in" in told(sidecar), "said where the books are")
    eventually(lambda: (kernel.allowed(owner), kernel.allowed(late)) == (LAST, REST), "granted all the same")
    sidecar.kill()
    disk.free()
    sidecar.start()
    until_alone(sidecar, owner)
    assert sidecar.has_logged("the state was loaded from")
    # For a newcomer that the hand has answered nothing is ordered, perhaps: its originals need no disk at once.
    known = {neighbour, owner, late}
    eventually(lambda: set(by_id(sidecar.books().originals)) == known, "the books are written")
    assert not (sidecar.projections / ".books").exists()
    given_back(sidecar, workloads, {owner: LIMITED, neighbour: {}, late: {}})


def test_a_sidecar_that_was_killed_on_a_full_disk_finds_its_books(
    disk: SmallDisk, sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """It starts on the full disk and reports that, or reports that it cannot start. Either way no container is moved or
    forgotten.
    """
    sidecar.start()
    neighbour, owner = workloads.run("neighbour"), workloads.run("owner", labels=ONE, **LIMITED)
    until_alone(sidecar, owner)
    until_shared(sidecar, neighbour)
    before = saved_books(sidecar, neighbour, owner)
    disk.fill()
    sidecar.kill()
    with watched(sidecar, neighbour, owner):
        sidecar.start(until_ready=False)
        eventually(lambda: "no space left" in sidecar.log(), "said")
        assert kernel.allowed(owner) == LAST
        disk.free()
        # One that cannot start says so before it has ended.
        eventually(lambda: sidecar.has_logged("ready") or not sidecar.is_running, "it is ready, or has ended")
        if not sidecar.is_running:
            sidecar.start()
        sidecar.until_ready()
        until_alone(sidecar, owner)
    assert sidecar.books().assignments == before.assignments
    assert kernel.allowed(neighbour) == REST
    given_back(sidecar, workloads, {owner: LIMITED, neighbour: {}})


def test_a_disk_that_breaks_is_said_and_stops_nothing_that_runs(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView, tmp_path: Path
) -> None:
    """The kernel makes it read-only with all open files. A start on it is refused; once it is repaired, the State is
    unchanged.
    """
    with breaking_disk(sidecar.state_dir, tmp_path / "image") as disk:
        sidecar.start()
        neighbour, owner = workloads.run("neighbour"), workloads.run("owner", labels=ONE, **LIMITED)
        until_alone(sidecar, owner)
        until_shared(sidecar, neighbour)
        before = saved_books(sidecar, neighbour, owner)
        disk.break_down()
        workloads.api.update(owner, CpusetCpus=str(REST))
        eventually(lambda: f"cannot write the journal: {READ_ONLY}" in told(sidecar), "said")
        eventually(lambda: kernel.allowed(owner) == LAST, "what somebody else changed is repaired all the same")
        sidecar.kill()
        refused = sidecar.command("run")
        assert refused.returncode == 1
        assert f"the state directory {sidecar.state_dir} cannot be used: {READ_ONLY}" in refused.stderr
        disk.repair()
        sidecar.start()
        until_alone(sidecar, owner)
        assert sidecar.books().assignments == before.assignments
        assert sidecar.books().originals == before.originals
        given_back(sidecar, workloads, {owner: LIMITED, neighbour: {}})


def deleted(directory: Path) -> None:
    """Delete it, though the sidecar may write there meanwhile."""
    while True:
        with suppress(OSError):
            shutil.rmtree(directory)
            return


def moved_away(directory: Path) -> None:
    """Give it another name."""
    directory.rename(directory.with_name("elsewhere"))


def replaced(directory: Path) -> None:
    """Put an empty one in its place."""
    moved_away(directory)
    directory.mkdir(mode=0o700)


@pytest.mark.parametrize("gone", [deleted, moved_away, replaced], ids=["deleted", "moved", "replaced"])
def test_a_directory_that_is_deleted_is_made_anew_and_the_sidecar_ends(
    running: SidecarProcess, workloads: Containers, kernel: KernelView, gone: Callable[[Path], object]
) -> None:
    """The State is not lost: it is in memory, and is written again. The lock is gone with the directory, and a second
    sidecar could start: this one reports that and ends, and the next goes on.
    """
    neighbour, owner = workloads.run("neighbour"), workloads.run("owner", labels=ONE, **LIMITED)
    until_alone(running, owner)
    until_shared(running, neighbour)
    with watched(running, neighbour, owner):
        gone(running.state_dir)
        eventually(lambda: not running.is_running, "it ended")
        assert "was deleted or replaced while the sidecar ran" in running.log()
        assert set(by_id(running.books().assignments)) == {owner}
        assert set(by_id(running.books().originals)) == {owner, neighbour}
        running.start()
        late = workloads.run("late")
        until_shared(running, late)
        until_alone(running, owner)
    # On Podman 4.3 nothing is ordered for a newcomer that the hand has answered: its originals need no disk at once.
    known = {owner, neighbour, late}
    eventually(lambda: set(by_id(running.books().originals)) == known, "the books are written")
    assert running.state_dir.stat().st_mode & 0o777 == 0o700
    assert (kernel.allowed(owner), kernel.allowed(neighbour)) == (LAST, REST)
    given_back(running, workloads, {owner: LIMITED, neighbour: {}, late: {}})


def test_a_directory_that_is_not_ours_to_write_is_said(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """Its mode is wrong while it runs; then another user owns it at the start. Root without its capability over
    files.
    """
    if os.geteuid() != 0:
        pytest.skip("a sidecar with fewer powers is started by root")
    sidecar.wrapper = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all")
    sidecar.start()
    first = workloads.run("first", labels=ONE)
    until_alone(sidecar, first)
    sidecar.state_dir.chmod(0o500)
    workloads.api.remove(first)
    said = "the recorded state is not saved: cannot write checkpoint.json: permission denied"
    eventually(lambda: said in told(sidecar), "said")
    # Podman tells of a removal late, and a start that comes before it is refused for good.
    eventually(lambda: first not in {each.id for each in shown(sidecar).containers}, "it has heard of the removal")
    sidecar.state_dir.chmod(0o700)
    second = workloads.run("second", labels=ONE)
    until_alone(sidecar, second)
    eventually(lambda: not told(sidecar), "all is well again")
    assert set(by_id(sidecar.books().assignments)) == {second}
    sidecar.kill()
    os.chown(sidecar.state_dir, 65534, 65534)
    refused = sidecar.command("run")
    assert refused.returncode == 1
    assert f"the state directory {sidecar.state_dir}" in refused.stderr
    assert "give it to the user that runs the sidecar" in refused.stderr
    assert kernel.allowed(second) == LAST
    os.chown(sidecar.state_dir, 0, 0)
    sidecar.start()
    until_alone(sidecar, second)
    assert not reasons(sidecar, "the recorded state")
    given_back(sidecar, workloads, {second: {}})
