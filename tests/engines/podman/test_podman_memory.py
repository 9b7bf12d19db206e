"""The memory of Podman's containers: when it overrides inspect, and when inspect wins."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from sidecar.decide.facts import ContainerView, Phase
from sidecar.engines.podman.libpod_wire import Native
from sidecar.engines.podman.podman_memory import LIMIT, Remembered

ONE = "a" * 64
MADE = ContainerView(
    id=ONE, name="one", phase=Phase.RUNNING, cpuset="0-3", cpu_quota=50_000, cpu_period=100_000, started_at="first"
)
SAID = Native(cpus="0-3", quota=50_000, period=100_000)
WRITTEN = Native(cpus="2", quota=400_000, period=100_000)


def written(view: ContainerView = MADE) -> Remembered:
    """Return a memory in which something was written onto a container of which inspect said this."""
    memory = Remembered()
    memory.wrote(view, WRITTEN)
    return memory


@pytest.mark.parametrize("keeps", [False, True])
def test_what_was_written_holds_while_inspect_does_not_change(keeps: bool) -> None:
    """Before 5.1 for all containers, later for stopped ones."""
    memory = written()
    assert memory.looked(MADE, keeps_updates=keeps) == WRITTEN
    assert memory.looked(MADE, keeps_updates=keeps) == WRITTEN


@pytest.mark.parametrize("change", [{"cpuset": "1"}, {"mems": "0"}, {"cpu_quota": 60_000}])
def test_anything_else_in_inspect_wins_for_good(change: dict[str, str]) -> None:
    """Another tool changed it since, or it shows the update at last; the remembered update does not come back."""
    memory = written()
    changed = msgspec.structs.replace(MADE, **change)
    assert memory.looked(changed, keeps_updates=True) != WRITTEN
    assert memory.looked(MADE, keeps_updates=True) == SAID


def test_another_start_forgets_where_updates_are_not_kept() -> None:
    """It runs with the old limits again, and its view must agree."""
    again = msgspec.structs.replace(MADE, started_at="second")
    assert written().looked(again, keeps_updates=False) == SAID
    assert written().looked(again, keeps_updates=True) == WRITTEN


def test_a_container_that_is_gone_is_forgotten() -> None:
    """By its event, by a list without it, and by an answer that says so."""
    ways: tuple[Callable[[Remembered], None], ...] = (
        lambda memory: memory.heard(ONE, "destroy", "one", {}),
        lambda memory: memory.retain(("b" * 64,)),
        lambda memory: memory.forget(ONE),
    )
    for forget in ways:
        memory = written()
        forget(memory)
        assert (memory.view(ONE), ONE in memory.ids()) == (None, False)
        assert memory.looked(MADE, keeps_updates=True) == SAID


def test_events_tell_which_containers_exist_and_in_which_phase() -> None:
    """Before any look: a container is created, renamed, started; and the values of a look stay."""
    memory = Remembered()
    memory.heard(ONE, "create", "one", {"cpuset.exclusive": "2"})
    view = memory.view(ONE)
    assert view is not None
    assert (view.name, view.phase, view.labels) == ("one", Phase.CREATED, {"cpuset.exclusive": "2"})
    memory.looked(MADE, keeps_updates=True)
    phases = []
    for action in ("rename", "die", "start", "pause", "unpause", "update"):
        memory.heard(ONE, action, "another", {})
        seen = memory.view(ONE)
        assert seen is not None
        assert (seen.name, seen.cpuset) == ("another", "0-3")
        phases.append(seen.phase)
    running = Phase.RUNNING
    assert phases == [running, Phase.EXITED, running, Phase.PAUSED, running, running]


def test_memory_is_bounded() -> None:
    """The oldest goes first, with what was written onto it."""
    memory = written()
    for number in range(LIMIT):
        memory.heard(f"{number:064x}", "create", "x", {})
    assert len(memory.ids()) == LIMIT
    assert memory.view(ONE) is None
    assert memory.looked(MADE, keeps_updates=True) == SAID
