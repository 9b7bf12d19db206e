"""The laws hold on hosts with two engines, and those of several engines have teeth."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sidecar.decide.settings import Settings
from sidecar.decide.world import World
from state.codec import decode, encode
from tests.decide.lawbook import engine_faults
from tests.decide.lawbook.faults import Fault
from tests.decide.long_run import history
from tests.support.decide.histories import DYNAMIC, STATIC
from tests.support.decide.two_engines import ENGINES

PLANTED: tuple[tuple[Fault, Sequence[Settings]], ...] = (
    *((fault, STATIC) for fault in engine_faults.FAULTS),
    *((fault, DYNAMIC) for fault in engine_faults.DYNAMIC_FAULTS),
)


@pytest.mark.parametrize(
    ("first", "last"),
    [(0, 60), *(pytest.param(start, start + 200, marks=pytest.mark.slow) for start in range(60, 860, 200))],
)
def test_histories_with_two_engines_break_no_law(first: int, last: int) -> None:
    """Each engine is lost and reached by itself, and a daemon that starts may reach one alone."""
    for seed in range(first, last):
        history(seed, with_two=True)


def test_the_pool_keeps_what_stands_in_for_cpus_of_one_that_starts_alone_and_lost_its_grant() -> None:
    history(86002568, with_two=True)


def test_several_engines_have_no_shared_group() -> None:
    """The configuration refuses it, so no history is about it: neither at the beginning nor after a change."""
    assert not {history(seed, with_two=True).settings.shared_slice for seed in (20281, *range(20))} - {""}


@pytest.mark.parametrize(("fault", "settings"), PLANTED, ids=[fault.name for fault, _ in PLANTED])
def test_a_daemon_that_takes_two_engines_for_one_is_caught(
    fault: Fault, settings: Sequence[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In some history that law is broken before any other."""
    fault.plant(monkeypatch)
    assert fault.caught(settings, with_two=True) is not None


def test_a_world_of_two_engines_begins_a_journal() -> None:
    """The journal's first line is the World, and a replay reads it."""
    world = history(1, with_two=True).world
    assert set(world.contacts) == set(ENGINES)
    assert decode(encode(world, keeps_order=True), World) == world
