"""The common parts of live tests of faults: a watcher during the fault, and a release at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sidecar.status.document import SharingStatus
from state.model import State
from tests.live.containers import Containers
from tests.live.kernelview import online
from tests.live.sidecarprocess import SidecarProcess
from tests.live.waiting import eventually
from tests.live.watcher import Watcher

ONE: Final[Mapping[str, str]] = {"cpuset.exclusive": "1"}
"""Labels of a container that wants one CPU for itself."""

WAITING: Final[Mapping[str, str]] = {**ONE, "cpuset.on-shortage": "wait"}
"""And that is given it later where it cannot be had now."""

NANO: Final = 1_000_000_000


@contextmanager
def watched(sidecar: SidecarProcess, *ids: str) -> Iterator[Watcher]:
    """Compare these containers' projections with the kernel for the length of the block: never ahead or doubled."""
    watcher = Watcher(sidecar.projections)
    for id in ids:
        watcher.watch(id)
    watcher.start()
    try:
        yield watcher
    finally:
        watcher.stop()
    assert watcher.violations == [], watcher.violations[:3]
    assert watcher.samples


def until_alone(sidecar: SidecarProcess, id: str) -> None:
    """Wait until it is exclusive and settled."""
    sidecar.until(id, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")


def until_shared(sidecar: SidecarProcess, id: str) -> None:
    """Wait until it is settled in the shared pool."""
    sidecar.until(id, lambda it: it.sharing is SharingStatus.SHARED and it.is_settled, "in the pool")


def until_gone(sidecar: SidecarProcess, id: str) -> None:
    """Wait until the daemon has heard of a removal. An engine may tell of it late (Podman), and a successor that starts
    before is refused for good.
    """
    eventually(lambda: sidecar.container(id) is None, "the sidecar has heard of the removal")


def saved_books(sidecar: SidecarProcess, *ids: str) -> State:
    """Return the books once they have the originals of these containers, and that all owners run: what any look shows
    again is saved some seconds later, if no order needs it.
    """

    def look() -> State | None:
        books = sidecar.books()
        runs = all(each.rest is None for each in books.assignments.values())
        return books if runs and {each.id for each in books.originals} >= set(ids) else None

    return eventually(look, "all is saved")


def told_in(path: Path) -> str:
    """Return what is told in a file; "" if there is none at this instant, or something else in its place."""
    try:
        return path.read_text().strip() if path.is_file() and not path.is_symlink() else ""
    except OSError:
        return ""


def problems(sidecar: SidecarProcess) -> str:
    """Return what the daemon cannot do now, by the status document."""
    return "; ".join(sidecar.status().problems)


def reasons(sidecar: SidecarProcess, message: str) -> list[str]:
    """Return the reasons in the lines of the log that begin so."""
    return [str(line.get("reason", "")) for line in sidecar.logged() if line["message"].startswith(message)]


def given_back(sidecar: SidecarProcess, workloads: Containers, made: Mapping[str, Mapping[str, Any]]) -> None:
    """End the daemon and release: check that these containers have their original CPUs and limits again."""
    assert sidecar.terminate() == 0, sidecar.log()[-3000:]
    released = sidecar.command("release")
    assert released.returncode == 0, released.stderr
    for id, limits in made.items():
        host = workloads.api.inspect(id)["HostConfig"]
        assert host["CpusetCpus"] in ("", str(online())), host
        for key in (
            ("NanoCpus",) if workloads.api.is_podman else ("NanoCpus", "CpuQuota")
        ):  # Podman reports either limit as both
            assert host[key] == limits.get(key, 0), (key, host)
    books = sidecar.books()
    assert not books.assignments
    assert not books.originals
