"""The shared group on a host: its place, its members, and how its CPUs are written, on trees of files."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
import trio
from trio.testing import MockClock

from sidecar.decide.facts import ContainerView, EngineInfo, Phase
from sidecar.failures import EngineFailed, EngineLacks, EngineRefused
from sidecar.host.cgroup.host_kernel import HostKernel
from sidecar.host.cgroup.pool_cgroup import IN_FORCE_SECONDS, PlainGroup, SystemdGroup
from state.cpuset import EMPTY, CPUSet

ID = "0123456789abcdef" * 4
NAME = "sidecar-shared.slice"
PATH = f"sidecar.slice/{NAME}"
TWO = CPUSet.of(0, 1)


class Units:
    """The part of systemd that handles a slice; `lag` seconds pass between its answer and the write."""

    def __init__(self, root: Path, nursery: trio.Nursery | None = None, lag: float = 0.0) -> None:
        self.file = root / PATH / "cpuset.cpus"
        self.cpus = EMPTY
        self.nursery = nursery
        self.lag = lag

    async def allowed_cpus(self, unit: str) -> CPUSet:
        assert unit == NAME
        return self.cpus

    async def allow_cpus(self, unit: str, cpus: CPUSet) -> None:
        assert unit == NAME
        self.cpus = cpus
        if self.nursery is not None:
            self.nursery.start_soon(self._write)

    async def _write(self) -> None:
        await trio.sleep(self.lag)
        self.file.write_text(f"{self.cpus}\n")


def view(phase: Phase = Phase.RUNNING, parent: str = "", cpuset: str = "", cgroup: str = "") -> ContainerView:
    return ContainerView(id=ID, name="one", phase=phase, cgroup_parent=parent, cpuset=cpuset, cgroup=cgroup)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a v2 hierarchy with eight CPUs."""
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory\n")
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    (tmp_path / "cpuset.cpus.effective").write_text("0-7\n")
    return tmp_path


def slice_group(root: Path, units: Units | None = None) -> SystemdGroup:
    return SystemdGroup(NAME, units or Units(root), cgroup=root, proc=root / "proc")


def made(root: Path, path: str, *, processes: str = "") -> Path:
    """Make a cgroup."""
    directory = root / path
    directory.mkdir(parents=True)
    (directory / "cgroup.procs").write_text(processes)
    return directory


def test_a_container_is_found_in_the_group_before_anywhere_else(root: Path) -> None:
    """Docker reports neither its default parent nor a container's cgroup."""
    group = slice_group(root)
    assert group.whereabouts(view()) == ""
    made(root, f"system.slice/docker-{ID}.scope")
    assert group.whereabouts(view()) == f"/system.slice/docker-{ID}.scope"
    made(root, f"{PATH}/docker-{ID}.scope")
    assert group.whereabouts(view()) == f"/{PATH}/docker-{ID}.scope"
    assert group.whereabouts(view(parent="system.slice")) == f"/system.slice/docker-{ID}.scope"


def test_a_container_that_stands_still_is_nowhere_unless_it_has_processes(root: Path) -> None:
    """A killed engine may call a running container exited: its processes show where it is. With a glance its cgroup is
    enough: it may be being started.
    """
    group = slice_group(root)
    directory = made(root, f"{PATH}/docker-{ID}.scope")
    assert group.whereabouts(view(Phase.EXITED)) == ""
    glance = msgspec.structs.replace(view(Phase.EXITED), is_glance=True)
    assert group.whereabouts(glance) == f"/{PATH}/docker-{ID}.scope"
    (directory / "cgroup.procs").write_text("7\n")
    assert group.whereabouts(view(Phase.EXITED)) == f"/{PATH}/docker-{ID}.scope"


def test_the_kernels_word_about_the_group_is_read_like_a_containers(root: Path) -> None:
    """By the path in its view."""
    directory = made(root, PATH)
    (directory / "cpuset.cpus.effective").write_text("2-5\n")
    seen = ContainerView(id=ID, name=NAME, phase=Phase.RUNNING, cgroup=f"/{PATH}")
    assert HostKernel(cgroup=root, proc=root / "proc").effective_cpus(seen) == CPUSet.parse("2-5")


@pytest.mark.parametrize(
    ("parent", "path"),
    [
        (NAME, f"/{PATH}"),
        ("/docker/a/", "/docker/a"),
        ("x/y.slice", "/x/y.slice"),
        ("cpu-a.slice", "/_cpu.slice/cpu-a.slice"),
    ],
)
def test_a_parent_is_a_slice_or_a_path(root: Path, parent: str, path: str) -> None:
    """In the engine's notation."""
    assert slice_group(root).path_of(parent) == path


@pytest.mark.trio
async def test_a_slice_without_a_cgroup_is_configured_all_the_same(root: Path, autojump_clock: MockClock) -> None:
    """systemd keeps the property for its first member."""
    group = slice_group(root)
    assert not group.exists()
    assert await group.cpus() == ""
    await group.write(TWO)
    assert await group.cpus() == "0-1"


@pytest.mark.trio
async def test_a_write_ends_when_the_kernel_has_it(root: Path, autojump_clock: MockClock) -> None:
    """systemd answers first, and writes when its queue is empty: a look in between would see an order without
    effect.
    """
    (made(root, PATH) / "cpuset.cpus").write_text("0-7\n")
    async with trio.open_nursery() as nursery:
        group = slice_group(root, Units(root, nursery, lag=0.3))
        await group.write(TWO)
        assert await group.cpus() == "0-1"


@pytest.mark.trio
async def test_a_property_that_never_gets_to_the_kernel_is_said(root: Path, autojump_clock: MockClock) -> None:
    """In bounded time, with the kernel's actual value."""
    (made(root, PATH) / "cpuset.cpus").write_text("4-7\n")
    began = trio.current_time()
    with pytest.raises(EngineFailed, match=r"AllowedCPUs=0-1 .* still has 4-7"):
        await slice_group(root).write(TWO)
    assert trio.current_time() - began == pytest.approx(IN_FORCE_SECONDS)


@pytest.mark.trio
async def test_what_was_written_past_systemd_is_what_is_configured(root: Path) -> None:
    """So it is seen as drift, and restored."""
    units = Units(root)
    units.cpus = TWO
    (made(root, PATH) / "cpuset.cpus").write_text("0-7\n")
    assert await slice_group(root, units).cpus() == "0-7"


@pytest.mark.trio
async def test_a_plain_group_is_made_with_the_controller_down_to_it(root: Path) -> None:
    """The controller is enabled in each group above, and nowhere else."""
    (root / "a").mkdir()
    (root / "a" / "cgroup.subtree_control").write_text("cpuset\n")
    (root / "a" / "b").mkdir()
    (root / "a" / "b" / "cpuset.cpus").write_text("\n")
    group = PlainGroup("/a/b", cgroup=root)
    assert await group.cpus() == ""
    await group.write(TWO)
    assert await group.cpus() == "0-1"
    assert (root / "cgroup.subtree_control").read_text() == "+cpuset"
    assert (root / "a" / "cgroup.subtree_control").read_text() == "cpuset\n"


@pytest.mark.trio
async def test_a_plain_group_that_cannot_be_written_says_what_to_mount(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container sees the hierarchy read-only by default."""
    group = PlainGroup("/a", cgroup=root)
    for number, error, words in (
        (30, EngineLacks, "mount /sys/fs/cgroup writable"),
        (22, EngineRefused, "the kernel refuses"),
        (28, EngineFailed, "there is no space left"),
    ):

        def fail(path: str, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "mkdir", fail)
        with pytest.raises(error, match=words):
            await group.write(TWO)


@pytest.mark.parametrize(
    ("version", "driver", "slice_fits", "path_fits"),
    [("2", "systemd", True, False), ("2", "cgroupfs", False, True), ("1", "cgroupfs", False, False)],
)
def test_the_kind_of_group_fits_the_engines_driver_on_v2(
    root: Path, version: str, driver: str, slice_fits: bool, path_fits: bool
) -> None:
    """A misfit is reported with the kind that fits."""
    info = EngineInfo(
        name="docker", version="26", api_version="1.45", ncpu=8, cgroup_version=version, cgroup_driver=driver
    )
    for group, fits in ((slice_group(root), slice_fits), (PlainGroup("/a", cgroup=root), path_fits)):
        if fits:
            group.check(info)
            continue
        with pytest.raises(EngineLacks, match=r"write the |boot with cgroup v2"):
            group.check(info)


def test_a_rootless_engine_has_no_shared_group(root: Path) -> None:
    """Its slices belong to its user's systemd."""
    info = EngineInfo(name="docker", version="26", api_version="1.45", ncpu=8, cgroup_version="2", is_rootless=True)
    with pytest.raises(EngineLacks, match="the engine is rootless"):
        slice_group(root).check(info)


def test_without_a_hierarchy_no_group_is_possible(tmp_path: Path) -> None:
    """A sidecar without cgroups reports what to mount."""
    info = EngineInfo(name="docker", version="26", api_version="1.45", ncpu=8, cgroup_version="2")
    with pytest.raises(EngineLacks, match="mount /sys/fs/cgroup"):
        PlainGroup("/a", cgroup=tmp_path).check(info)
