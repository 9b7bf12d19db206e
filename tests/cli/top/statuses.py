"""Documents for the screen of `top`: an hour of a host with hostile names, and random ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from sidecar.cli.top.measurement import Measurement
from sidecar.cli.top.screen import Seen
from sidecar.decide.facts import ViewKind
from sidecar.status.document import ContainerStatus, LeavingStatus, LoadStatus, SharingStatus, Status
from sidecar.status.grant_history import GrantChange, history
from sidecar.status.machine_map import machine_of
from sidecar.status.sight import GONE, STALLED, UNSEEN, WORKS
from state.cpuset import CPUSet
from state.topology import uniform

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)

HOSTILE = (
    "web",
    "<img src=x onerror=alert(1)>",
    "خادم" * 50,
    "日本語コンテナ",
    "e\u0301" * 40,
    "\x1b[31mred\x1b]0;title\x07",
    "a\nb\tc",
    "\u202eoverride",
    "🦀" * 30,
    "",
)


def owner(name: str, cpus: str, since: int, **fields: Any) -> ContainerStatus:
    """A container with a grant that is in force."""
    return ContainerStatus(
        id=f"{since:064x}",
        name=name,
        phase="running",
        sharing=SharingStatus.EXCLUSIVE,
        asked=len(CPUSet.parse(cpus)),
        cpus=CPUSet.parse(cpus),
        desired=CPUSet.parse(cpus),
        granted=CPUSet.parse(cpus),
        is_settled=True,
        is_alone=True,
        since=since,
        **{"explanation": (f"It asked for CPUs and was granted {cpus}.",), **fields},
    )


def plain_one(name: str, number: int, **fields: Any) -> ContainerStatus:
    """A container in the shared pool."""
    return ContainerStatus(
        id=f"{number:064x}", name=name, phase="running", sharing=SharingStatus.SHARED, is_settled=True, **fields
    )


def seen(*tenants: ContainerStatus, cores: int = 8, **fields: Any) -> Seen:
    """What is known of a host with these tenants, some of which were granted CPUs half an hour ago."""
    at = NOW.timestamp()
    changes = [
        GrantChange(at=at - 1800, container=each.id, name=each.name, cpus=each.granted, reason="granted")
        for each in tenants
        if each.granted
    ]
    status = Status(
        updated_at=NOW.isoformat(),
        policy="static",
        is_ready=True,
        reserved=CPUSet.of(0),
        shared=CPUSet.parse(f"0-{cores - 1}"),
        machine=machine_of(uniform(cores=cores)),
        containers=tuple(each for each in tenants if each.kind is ViewKind.CONTAINER),
        units=tuple(each for each in tenants if each.kind is ViewKind.UNIT),
    )
    return Seen(**{"status": status, "sight": WORKS, "now": NOW, "history": history(changes, at), **fields})


names = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=80))
sets = st.sampled_from(["1", "2-3", "1-7", "1,3,5,7"])
leaving = st.builds(
    LeavingStatus,
    cpus=sets.map(CPUSet.parse),
    number=st.integers(1, 9),
    reason=names,
    is_due=st.booleans(),
    notice_seconds=st.floats(0, 90),
    until=st.sampled_from(["", NOW.isoformat(), "nonsense"]),
)
loads = st.builds(LoadStatus, use=st.floats(0, 500), peak=st.floats(0, 500))
owners = st.builds(
    owner,
    names,
    sets,
    st.integers(0, 99),
    leaving=st.none() | leaving,
    load=st.none() | loads,
    trouble=st.just("") | names,
    floor=st.integers(1, 3),
    ceiling=st.integers(0, 9),
)
others = st.builds(
    plain_one,
    names,
    st.integers(100, 200),
    kind=st.sampled_from(ViewKind),
    refusal=st.just("") | names,
    warnings=st.lists(names, max_size=2).map(tuple),
)
measurements = st.builds(
    Measurement, name=names, seconds=st.just(5.0), passed=st.floats(0, 9), printed=names, code=st.none() | st.just(0)
)
documents = st.builds(
    lambda tenants, cores, sight, measurement: seen(*tenants, cores=cores, sight=sight, measurement=measurement),
    st.lists(owners | others, max_size=30, unique_by=lambda each: each.id),
    st.sampled_from([2, 8, 96, 1024]),
    st.sampled_from([WORKS, GONE, STALLED, UNSEEN]),
    st.none() | measurements,
)
