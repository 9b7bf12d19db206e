"""The policies compared: how the host is configured, what the two parties ask for, and whether they follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from sidecar.config.config import Config
from sidecar.decide.settings import PolicyName
from state.cpuset import CPUSet

CPUS: Final = 96
"""Of one socket with one cache, without thread siblings: where CPUs lie is another question."""

RESERVED: Final = CPUSet(range(4))
SHARED_MIN: Final = 8
"""CPUs that the neighbours keep: 88 can be exclusive."""

SERVER: Final = "server"
BATCH: Final = "batch"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One of the policies. Without labels all containers share all CPUs, and the server has `ratio` times the
    shares.
    """

    name: str
    says: str
    policy: PolicyName
    server: Mapping[str, str] = {}
    batch: Mapping[str, str] = {}
    ratio: int = 1
    follows: bool = False
    is_quick: bool = False
    """Whether loads are measured four times as often, and CPUs are kept less busy, than by default."""
    threads: Mapping[str, int] = {}
    """How many each has where it does not follow; not given: as many as it counts CPUs when it starts."""

    @property
    def shares(self) -> bool:
        """Whether all containers share all CPUs."""
        return self.policy is PolicyName.NONE

    def config(self) -> Config:
        """Return the daemon's configuration; missing keys have their defaults."""
        config = Config(policy=self.policy, reserved=RESERVED, shared_min=SHARED_MIN)
        return replace(config, load_period_seconds=0.5, load_low=0.4, load_high=0.65) if self.is_quick else config


def _static(name: str, server: int) -> Case:
    return Case(
        name=name,
        says=f"the server has {server} CPUs, the batch job {CPUS - SHARED_MIN - server}",
        policy=PolicyName.STATIC,
        server={"cpuset.exclusive": str(server)},
        batch={"cpuset.exclusive": str(CPUS - SHARED_MIN - server)},
        follows=True,
    )


_DYNAMIC: Final = Case(
    name="dynamic",
    says="the server has 20 to 64 CPUs by its load, the batch job 8 to 88 of what is spare; both follow",
    policy=PolicyName.DYNAMIC,
    server={"cpuset.exclusive": "28", "cpuset.min": "20", "cpuset.max": "64", "cpuset.scale": "load"},
    batch={"cpuset.exclusive": "40", "cpuset.min": "8", "cpuset.max": "88"},
    follows=True,
)

CASES: Final = (
    Case(name="none", says="all share all CPUs, with equal shares", policy=PolicyName.NONE),
    Case(
        name="none, 10 x shares", says="the same; the server has ten times the shares", policy=PolicyName.NONE, ratio=10
    ),
    _static("static, mean", 28),
    _static("static, peak", 56),
    _DYNAMIC,
    replace(
        _DYNAMIC,
        name="dynamic, quick",
        says="as dynamic; loads are measured every 0.5 s, not 2 s, and kept in a band of 0.4 to 0.65, not 0.5 to 0.8",
        is_quick=True,
    ),
    replace(
        _DYNAMIC,
        name="dynamic, deaf, many threads",
        says="as dynamic; neither follows, both have as many threads as they may ever have CPUs: 64 and 88",
        follows=False,
        threads={SERVER: 64, BATCH: 88},
    ),
    replace(
        _DYNAMIC,
        name="dynamic, deaf",
        says="as dynamic; neither follows, both keep as many threads as they counted CPUs when they started: 28 and 40",
        follows=False,
    ),
)
