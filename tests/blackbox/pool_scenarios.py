"""Scenarios of a shared pool that is at its minimum while others are leaving CPUs: what it gets must come first."""

from __future__ import annotations

from typing import Any

from tests.blackbox.plain_values import Scenario
from tests.blackbox.planted_faults import container, scenario, told


def _replaced_with_notice(**settings: Any) -> Scenario:
    found = scenario(
        [
            container("c", "4", labels={"cpuset.min": "1", "cpuset.max": "20", "cpuset.grace": "20s"}),
            {"name": "p"},
            container("a", "1", labels={"cpuset.max": "19"}),
        ],
        told((1.0, "run", "c"), (2.0, "run", "p"), (21.0, "run", "a")),
        policy="dynamic",
        **settings,
    )
    found["machine"] = {"cores": 5, "threads": 2}
    found["settings"]["reserved"] = "0,5"
    return found


REPLACED_WITH_NOTICE = _replaced_with_notice(shared_min=3)
"""One container grows onto a CPU of the pool, and the CPU that replaces it there is being left by another one."""

REPLACED_UNDER_A_STRICT_RESERVATION = _replaced_with_notice(shared_min=1, options=["strict-cpu-reservation"])
"""The same, where the pool has one CPU, and the reserved ones are none of its own."""
