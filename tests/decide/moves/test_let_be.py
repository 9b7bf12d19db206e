"""Which births the hand leaves to the engine: of containers that the sidecar leaves alone, and where owners know."""

from __future__ import annotations

import pytest

from sidecar.decide.container.container import Standing, Wish
from sidecar.decide.container.machine import first_seen
from sidecar.decide.container.place import Place
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.moves.newborn_answers import is_let_be
from state.cpuset import CPUSet

CPUS = CPUSet.of(0, 1)


@pytest.mark.parametrize(
    ("standing", "phase", "is_glance", "expected"),
    [
        (Standing.UNMANAGED, Phase.CREATED, False, False),
        (Standing.UNMANAGED, Phase.EXITED, False, False),
        (Standing.UNMANAGED, Phase.RESTARTING, False, False),
        (Standing.UNMANAGED, Phase.RUNNING, False, True),
        (Standing.UNMANAGED, Phase.PAUSED, False, True),
        (Standing.UNMANAGED, Phase.RUNNING, True, False),
        (Standing.STRANGER, Phase.CREATED, False, True),
        (Standing.STRANGER, Phase.CREATED, True, False),
    ],
)
def test_an_unmanaged_one_is_let_be_once_it_is_seen_to_run(
    standing: Standing, phase: Phase, *, is_glance: bool, expected: bool
) -> None:
    """One that is pinned by hand counts where it is pinned, so it is let be at once."""
    view = ContainerView(engine="docker", id="a" * 64, name="c", phase=phase, is_glance=is_glance)
    assert is_let_be(first_seen(view, Place(CPUS, CPUS), Wish(standing=standing), 0, 1)) is expected
