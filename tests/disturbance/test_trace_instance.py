"""The memory that a measurement takes of the kernel's."""

from __future__ import annotations

import pytest

from sidecar.disturbance.trace_instance import room_kib


@pytest.mark.parametrize("cpus", [1, 2, 8, 9, 64, 256])
def test_all_buffers_together_are_bounded_and_few_cpus_have_large_ones(cpus: int) -> None:
    assert 512 <= room_kib(cpus) <= 16384
    assert room_kib(cpus) * cpus <= 131072


def test_each_of_many_cpus_still_has_room_for_what_a_tick_brings() -> None:
    assert room_kib(4096) == 512
