"""How long churn is played: a sample in every run of all tests, a longer run in `make soak`."""

from __future__ import annotations

import os
from typing import Final

IS_SOAK: Final = os.environ.get("CPUSET_TESTS_SOAK") == "1"
"""Whether this run is `make soak`."""

MORE_SEEDS: Final = range(100, 220 if IS_SOAK else 120)
"""The seeds of each kind of churn beside the few that are always played."""
