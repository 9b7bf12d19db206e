"""What came of a churn: the counts of what was done and seen, and each rule that was violated."""

from __future__ import annotations

import msgspec


class Report(msgspec.Struct, kw_only=True):
    """The outcome of a churn. `answers` counts the engine's errors to the users."""

    seed: int
    kills: int = 0
    engine_restarts: int = 0
    orphans: int = 0
    containers: int = 0
    actions: int = 0
    samples: int = 0
    judged: int = 0
    owners: int = 0
    acknowledged: int = 0
    forced: int = 0
    resized: int = 0
    notices: int = 0
    shortest_notice_seconds: float = 0.0
    spared: int = 0
    unrecorded: int = 0
    exposures: int = 0
    longest_exposure_seconds: float = 0.0
    wall_seconds: float = 0.0
    violations: list[str] = []
    answers: dict[str, int] = {}
