"""Writes of other programs are counted until they are over."""

from __future__ import annotations

from sidecar.observe.foreign_writes import CALM_SECONDS, ForeignWrites
from tests.support.keys import docker


def test_writes_add_up_by_container() -> None:
    """However they are reported."""
    writes = ForeignWrites()
    assert [writes.add(docker("a"), 2, 0.0), writes.add(docker("b"), 1, 0.5), writes.add(docker("a"), 70, 1.0)] == [
        2,
        1,
        72,
    ]


def test_a_calm_ends_the_count() -> None:
    """Only of the containers that are calm: another one's writes go on."""
    writes = ForeignWrites()
    writes.add(docker("a"), 9, 0.0)
    writes.add(docker("b"), 9, 30.0)
    assert writes.forget_calm(CALM_SECONDS - 1) == ()
    assert writes.forget_calm(CALM_SECONDS) == (docker("a"),)
    assert (writes.add(docker("a"), 1, 61.0), writes.add(docker("b"), 1, 61.0)) == (1, 10)
