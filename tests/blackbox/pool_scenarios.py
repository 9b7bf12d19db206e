"""Scenarios of a shared pool that is at its minimum while others are leaving CPUs: what it gets must come first."""

from __future__ import annotations

from typing import Any

from tests.blackbox.plain_values import Scenario, Table
from tests.blackbox.planted_faults import container, scenario, told


def _replaced_with_notice(*more: Table, **settings: Any) -> Scenario:
    """Return the scenario under these settings, with more events."""
    found = scenario(
        [
            container("c", "4", labels={"cpuset.min": "1", "cpuset.max": "20", "cpuset.grace": "20s"}),
            {"name": "p"},
            container("a", "1", labels={"cpuset.max": "19", "cpuset.move": "true"}),
            {"name": "new"},
        ],
        [*told((1.0, "run", "c"), (2.0, "run", "p"), (21.0, "run", "a")), *more],
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

_STRICT = _replaced_with_notice(shared_min=3)
_STRICT["container"][2]["runtime"] = "cpuset"

REPLACED_WITH_NOTICE_AND = {
    "one more comes": _replaced_with_notice(*told((25.0, "run", "new")), shared_min=3),
    "better CPUs are looked for": _replaced_with_notice(*told((25.0, "defragment", None)), shared_min=3),
    "the sidecar is restarted": _replaced_with_notice(
        *told((25.0, "crash", None), (27.0, "restart", None)), shared_min=3
    ),
    "the start of the new owner is held": _STRICT,
}
"""The same, and what else happens meanwhile."""

HELD_WITH_AN_EXCHANGE: Scenario = {
    "machine": {"cores": 3, "threads": 2},
    "settings": {
        "policy": "dynamic",
        "reserved": "count:2",
        "tenants_may": "pin",
        "options": ["strict-cpu-reservation"],
    },
    "container": [
        container("owner", "3", runtime="cpuset"),
        {"name": "pinned", "cpuset": "2"},
        {"name": "new", "runtime": "cpuset"},
    ],
    "event": told(
        (1.0, "run", "owner"),
        (6.21, "crash", None),
        (8.21, "run", "new"),
        (10.21, "stop", "owner"),
        (10.21, "start", "owner"),
        (12.21, "run", "pinned"),
        (14.21, "restart", None),
    ),
}
"""While no sidecar ran, an owner was started again, and another container was pinned onto one of its CPUs. The pool
gets that CPU for one of its own. Orders of the killed sidecar may move the owner back there, but not before it started.
"""

HELD_IN_A_NOTICE: Scenario = {
    "machine": {"cores": 3, "threads": 2},
    "settings": {"policy": "dynamic", "reserved": "count:2", "options": ["strict-cpu-reservation"]},
    "container": [
        container("arrival", "2"),
        container("owner", "2", labels={"cpuset.min": "1", "cpuset.grace": "20s"}, runtime="cpuset"),
    ],
    "event": told(
        (1.0, "run", "owner"),
        (7.05, "run", "arrival"),
        (12.35, "crash", None),
        (14.35, "remove", "arrival"),
        (14.4, "stop", "owner"),
        (14.4, "start", "owner"),
        (16.4, "restart", None),
    ),
}
"""While no sidecar ran, an owner that was leaving a CPU with notice was started again: its notice is over."""
