"""Writes by others into cpusets that the sidecar wrote: by the engine's users, and by systemd."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from state.cpuset import CPUSet
from tests.live.births import command_line, judged
from tests.live.kernelview import KernelView, online
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import PATIENCE, eventually, stays
from tests.support.hand.writing_loops import Loops, build, writing

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(120 * PATIENCE)]

BOUND_SECONDS: Final = 3.0
"""From the first write of a loop until an owner reads that it is not alone: some tenths of one on an idle host."""

systemd_only = pytest.mark.skipif(
    not Path("/run/systemd/system").is_dir() or Path("/sys/fs/cgroup/cpuset").is_dir(),
    reason="needs systemd and cgroup v2: see `make vm-test`",
)


def are_right(kernel: KernelView, guarded_pair: tuple[str, str]) -> bool:
    """Return whether the owner is alone on its CPU."""
    owner, neighbour = guarded_pair
    return (kernel.allowed(owner), kernel.allowed(neighbour)) == (LAST, REST)


@systemd_only
def test_a_reload_of_systemd_moves_nobody(
    guarded_pair: tuple[str, str], own_engine: PrivateEngine, kernel: KernelView, tmp_path: Path
) -> None:
    """systemd writes its units' properties again; before the engine's record they are not the sidecar's."""
    with judged(kernel, guarded_pair[0], tmp_path) as seen:
        for _ in range(3):
            own_engine.systemctl("daemon-reload")
            stays(lambda: are_right(kernel, guarded_pair), "nobody moved", seconds=1.0)
    seen.is_clean()


@pytest.mark.intrudes("a neighbour is put onto the CPU of the owner")
@systemd_only
@pytest.mark.parametrize("which", ["owner", "neighbour"])
def test_a_property_of_a_scope_is_put_right(
    which: str, guarded_pair: tuple[str, str], own_engine: PrivateEngine, kernel: KernelView
) -> None:
    """`systemctl set-property` writes the cpuset of a unit: the hand overwrites it, without an inventory."""
    id, wrong = (guarded_pair[0], CPUSet.of(min(online()))) if which == "owner" else (guarded_pair[1], LAST)
    scope = f"{'docker' if own_engine.program == 'dockerd' else 'libpod'}-{id}.scope"
    own_engine.systemctl("set-property", "--runtime", scope, f"AllowedCPUs={wrong}")
    eventually(lambda: are_right(kernel, guarded_pair), "it is back", seconds=5)
    stays(lambda: are_right(kernel, guarded_pair), "it stays", seconds=1.0)


def test_an_update_of_memory_moves_nobody(
    guarded_pair: tuple[str, str], own_engine: PrivateEngine, kernel: KernelView, tmp_path: Path
) -> None:
    """The engine writes all that it has recorded, also before the sidecar's record came there."""
    with judged(kernel, guarded_pair[0], tmp_path) as seen:
        for id in guarded_pair:
            command_line(own_engine, "update", "--memory", "256m", *swap(own_engine), id)
            stays(lambda: are_right(kernel, guarded_pair), "nobody moved", seconds=0.5)
    seen.is_clean()


@pytest.mark.intrudes("a neighbour is updated onto the CPU of the owner")
@pytest.mark.parametrize("which", ["owner", "neighbour"])
def test_an_update_of_cpus_is_put_right(
    which: str, guarded_pair: tuple[str, str], own_engine: PrivateEngine, kernel: KernelView
) -> None:
    """A tenant updates its own container: it is back at once."""
    id, wrong = (guarded_pair[0], REST) if which == "owner" else (guarded_pair[1], LAST)
    command_line(own_engine, "update", "--cpuset-cpus", str(wrong), id)
    eventually(lambda: are_right(kernel, guarded_pair), "it is back", seconds=5)
    stays(lambda: are_right(kernel, guarded_pair), "it stays", seconds=1.0)


@pytest.mark.intrudes("a process writes the neighbour's cpuset in a loop")
@pytest.mark.parametrize(
    "loops",
    [
        pytest.param(Loops(2, 0, (str(LAST),)), id="two"),
        pytest.param(Loops(6, 4_000, (str(LAST),)), id="six that pause"),
        pytest.param(Loops(1, 0, (str(LAST), str(REST))), id="one that writes the right one in between"),
    ],
)
def test_no_owner_is_told_that_it_is_alone_beside_a_loop(
    loops: Loops, guarded_pair: tuple[str, str], sidecar: SidecarProcess, kernel: KernelView, tmp_path: Path
) -> None:
    """From some tenths of a second after its first write on, and for as long as it goes on; with its name."""
    owner, neighbour = guarded_pair

    def is_alone() -> bool:
        told = sidecar.projection(owner)
        return told is None or told.alone

    program = build(tmp_path)
    assert is_alone()
    with writing(program, kernel.groups()[neighbour] / "cpuset.cpus", loops):
        eventually(lambda: not is_alone(), "the owner is told", seconds=BOUND_SECONDS)
        stays(lambda: not is_alone(), "it is told so", seconds=2.0)
        said = "-neighbour faster than it is surely corrected"
        eventually(lambda: any(said in each for each in sidecar.status().problems), "it is said which one")
    eventually(lambda: are_right(kernel, guarded_pair), "it is back", seconds=5)


@pytest.mark.intrudes("a neighbour is updated onto the CPU of the owner")
def test_updates_by_a_person_are_no_loop(
    guarded_pair: tuple[str, str], own_engine: PrivateEngine, sidecar: SidecarProcess, kernel: KernelView
) -> None:
    """Twenty in a row: each is put right, and the owner is alone before and after."""
    for _ in range(20):
        command_line(own_engine, "update", "--cpuset-cpus", str(LAST), guarded_pair[1])
    eventually(lambda: are_right(kernel, guarded_pair), "it is back", seconds=5)
    sidecar.until_quiet()
    eventually(lambda: (told := sidecar.projection(guarded_pair[0])) and told.alone, "it is told alone")
    assert not any("faster" in each for each in sidecar.status().problems), sidecar.status()


def swap(engine: PrivateEngine) -> tuple[str, ...]:
    """Return the limit of swap that Docker wants with one of memory."""
    return ("--memory-swap", "512m") if engine.program == "dockerd" else ()
