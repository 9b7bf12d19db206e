"""Every refusal, cause and stray has a sentence, and it says what to do where that is known."""

from __future__ import annotations

from typing import get_args

import pytest

from sidecar.api.documents import declined
from sidecar.astray import Astray, AstrayKind
from sidecar.words.causes import why
from sidecar.words.refusals import cure, sentence
from sidecar.words.strays import told
from state.cause import (
    BecameReserved,
    ByItsRules,
    Cause,
    CeilingSank,
    Completed,
    FewerToShare,
    ForOthers,
    Gone,
    Level,
    NumberOnly,
    Pinned,
    Resized,
    SharedAnew,
    Spare,
    Supplied,
    TakenOver,
    Together,
    Used,
    WantsFewer,
    WentOffline,
)
from state.cpuset import CPUSet
from state.mistakes import Mistake, OneOf, TrueOrFalse
from state.refusal import (
    CutCore,
    Detail,
    Excluded,
    Fixed,
    Lost,
    Mistakes,
    MoreSocketsThanNodes,
    Named,
    Neighbours,
    NoMultiple,
    NoOption,
    NoTruth,
    Part,
    PoolEmptied,
    Range,
    Refusal,
    RefusalCode,
    Replaces,
    Said,
    Scaled,
    Scattered,
    SocketOnOneNode,
    Taken,
    TooFew,
    TooFewWholeCores,
    UnderPolicy,
)

FREE = (Part(CPUSet.parse("1,5"), 0), Part(CPUSet.parse("8-11"), 1))

DETAILS: tuple[tuple[Detail, str], ...] = (
    (Said("as it was said"), "as it was said"),
    (
        Mistakes((Mistake("cpuset.move", "?", TrueOrFalse()), Mistake("cpuset.quota", "x", OneOf(("lift", "keep"))))),
        "cpuset.move is '?': write true or false; cpuset.quota is 'x': write one of lift, keep",
    ),
    (Excluded("a", "b"), "a and b cannot be used together: choose one"),
    (NoOption("x"), "unknown option 'x'"),
    (NoTruth("x", "maybe"), "x is 'maybe': write true or false"),
    (
        SocketOnOneNode("x", "single"),
        "x takes CPUs from a whole socket, but the NUMA rule single from one node: choose one",
    ),
    (
        MoreSocketsThanNodes("x", 2, 1),
        "x needs at least as many NUMA nodes as sockets, but this machine has 1 node and 2 sockets",
    ),
    (
        TooFew(count=9, free=FREE, would_fit=(6,)),
        "asked for 9 exclusive CPUs, 6 free: 2 on node 0 (1,5), 4 on node 1 (8-11); 6 would fit",
    ),
    (
        TooFew(count=1, free=(Part(CPUSet.of(1), None, 0), Part(CPUSet.of(2), 3, 4))),
        "asked for 1 exclusive CPU, 2 free: 1 on cache 0 (1), 1 on node 3, cache 4 (2)",
    ),
    (
        TooFew(count=9, would_fit=(7,), is_final=True),
        "asked for 9 exclusive CPUs, but this machine can give 7 at most",
    ),
    (
        TooFew(count=9, would_fit=(7,), offline=CPUSet.parse("5-6")),
        "asked for 9 exclusive CPUs, but this machine can give 7 at most while CPUs 5-6 are offline",
    ),
    (
        CutCore(count=5, would_fit=(4, 6), free=FREE[:1], offline=CPUSet.of(3)),
        (
            "asked for 5 exclusive CPUs, but whole cores do not add up to that (full-pcpus-only) while CPU 3 is "
            "offline, 2 free: 1,5; 4 or 6 would fit"
        ),
    ),
    (TooFew(count=1, is_final=True), "asked for 1 exclusive CPU, but this machine can give none"),
    (
        TooFewWholeCores(count=8, would_fit=(6,), is_final=True),
        (
            "asked for 8 exclusive CPUs, but this machine can give 6 at most on cores without a reserved CPU "
            "(full-pcpus-only)"
        ),
    ),
    (
        NoMultiple(count=3, width=2, would_fit=(2, 4), is_final=True),
        "asked for 3 exclusive CPUs, not a multiple of the 2 threads per core (full-pcpus-only); 2 or 4 would fit",
    ),
    (
        Scattered(count=3, numa="single", nodes=(0, 1), would_fit=(2,), is_final=True),
        (
            "asked for 3 exclusive CPUs on one NUMA node (cpuset.numa single), but this machine can give 2 at most; "
            "cpuset.numa=best-effort would take them from nodes 0, 1"
        ),
    ),
    (
        PoolEmptied(count=8, shared=8, keep=2, would_fit=(6,), is_final=True),
        "asked for 8 exclusive CPUs, but this machine can give 6 at most: 2 must stay shared",
    ),
    (
        Replaces("shop-web-1", CPUSet.parse("1-3")),
        "it replaces shop-web-1, and gets CPUs 1-3 when that is gone",
    ),
    (
        Replaces("shop-web-1", CPUSet()),
        "it replaces shop-web-1, and asks again when that is gone",
    ),
    (
        NoMultiple(count=3, width=2, would_fit=(2, 4)),
        "asked for 3 exclusive CPUs, not a multiple of the 2 threads per core (full-pcpus-only); 2 or 4 would fit",
    ),
    (
        TooFewWholeCores(count=2),
        "asked for 2 exclusive CPUs, 0 free on whole cores (full-pcpus-only)",
    ),
    (
        CutCore(count=2),
        "asked for 2 exclusive CPUs, but whole cores do not add up to that (full-pcpus-only), 0 free",
    ),
    (
        Scattered(count=5, numa="single", free=FREE, would_fit=(4,), nodes=(0, 1)),
        (
            "asked for 5 exclusive CPUs on one NUMA node (cpuset.numa single), 6 free: 2 on node 0 (1,5), 4 on node 1 "
            "(8-11); 4 would fit on one node; cpuset.numa=best-effort would take them from nodes 0, 1"
        ),
    ),
    (
        PoolEmptied(count=6, shared=6, keep=4, by_cores=True),
        "asked for 6 exclusive CPUs; 6 CPUs are shared, and 4 with a whole core among them must stay shared",
    ),
    (
        PoolEmptied(count=2, shared=2, keep=1, by_cores=True, had=CPUSet.of(3), at_floors=True),
        (
            "it held CPU 3, and needs 2 exclusive CPUs; 2 CPUs are shared, and a whole core must stay shared; "
            "this counts every elastic container at its floor"
        ),
    ),
    (Lost(CPUSet.of(1), 2), "it held CPU 1, but the machine no longer has 2 CPUs for it"),
    (Taken(CPUSet.of(1)), "CPU 1 was granted to it, but a container pinned by hand is there now"),
    (Named("web"), "web has no exclusive CPUs"),
    (
        UnderPolicy("static"),
        "the policy is static: only dynamic changes the CPUs of a running container",
    ),
    (Fixed("web", 2), "the size of web is fixed at 2 CPUs: set its label cpuset.min or cpuset.max"),
    (Scaled("web", "fill"), "the size of web is decided by fill: set its label cpuset.scale=manual"),
    (Range(name="web", floor=1, ceiling=4, asked=5), "web may have 1 to 4 CPUs (cpuset.min, cpuset.max), not 5"),
)

CAUSES: tuple[tuple[Cause, str], ...] = (
    (Said("as it was said"), "as it was said"),
    (Resized(1), "it was resized to 1 CPU"),
    (Resized(5, 4), "it was resized to 5 CPUs: 4 on whole cores"),
    (Used(1.0, 4), "it used 1.0 of its 4 CPUs"),
    (
        TakenOver(name="web", count=2, floor=1, arrived="db"),
        "db arrived and took 2 CPUs above web's floor of 1",
    ),
    (
        SharedAnew(name="web", count=2, floor=1, names=("a", "b", "c"), others=5),
        "a, b, c and 2 more arrived, which redistributes 2 CPUs above web's floor of 1",
    ),
    (
        SharedAnew(name="web", count=2, floor=1, names=("a",), others=1, is_growth=True),
        "the share of a grew, which redistributes 2 CPUs above web's floor of 1",
    ),
    (
        FewerToShare(name="web", count=2, floor=2, kept=3),
        (
            "the machine or a setting leaves fewer CPUs to share, "
            "which takes 2 CPUs above the 3 on the original cores of web"
        ),
    ),
    (
        Supplied(name="web", count=2, floor=1, names=("db",), others=1),
        "db lacked CPUs of its floor, and took 2 CPUs above web's floor of 1",
    ),
    (
        FewerToShare(name="web", count=2, floor=1),
        "the machine or a setting leaves fewer CPUs to share, which takes 2 CPUs above web's floor of 1",
    ),
    (Gone(CPUSet.of(1)), "CPU 1 went offline or became reserved"),
    (WentOffline(CPUSet.of(1)), "CPU 1 went offline"),
    (BecameReserved(CPUSet.of(1, 2)), "CPUs 1-2 became reserved"),
    (ByItsRules(), "it lies on whole cores and NUMA nodes again as its rules require"),
    (Completed(4), "it needs at least 4 CPUs"),
    (CeilingSank(2), "it may have at most 2 CPUs now"),
    (WantsFewer(2), "it wants 2 CPUs now"),
    (NumberOnly(2), "it asks for 2 CPUs, and the policy allows no more"),
    (Pinned(CPUSet.of(1, 2)), "a container that is pinned by hand keeps CPUs 1-2"),
    (Spare(1, 4), "its share of the spare CPUs grew by 1, within its ceiling of 4"),
    (Together(level=Level.NODE, now=1, before=2), "moved closer together: on 1 NUMA node instead of 2"),
    (Together(level=Level.CORE, now=2, before=3), "moved closer together: on 2 cores instead of 3"),
    (ForOthers(), "moved to improve the placement of others"),
)


@pytest.mark.parametrize(("detail", "said"), DETAILS, ids=lambda each: type(each).__name__)
def test_a_refusal_is_told_in_one_sentence(detail: Detail, said: str) -> None:
    refusal = Refusal(RefusalCode.CONTRADICTION, detail)
    assert sentence(refusal) == said
    assert cure(refusal) in said


@pytest.mark.parametrize(("cause", "said"), CAUSES, ids=lambda each: type(each).__name__)
def test_a_cause_is_told_in_one_sentence(cause: Cause, said: str) -> None:
    assert why(cause) == said


def test_each_of_them_has_its_sentence() -> None:
    assert {type(detail) for detail, _ in DETAILS} == set(get_args(Detail))
    assert {type(cause) for cause, _ in CAUSES} == set(get_args(Cause))


def test_neighbours_stand_between_what_is_asked_and_what_would_fit() -> None:
    """Five names of each kind, and the number of the others."""
    holders = tuple("abcde")
    neighbours = Neighbours(
        reserved=CPUSet.of(0), held=6, holders=7, holder_names=holders, taken=2, stranger_names=("x", "y")
    )
    found = TooFew(count=9, would_fit=(1,), kinds=("performance",), is_isolated=True, neighbours=neighbours)
    assert sentence(Refusal(RefusalCode.NOT_ENOUGH, found)) == (
        "asked for 9 exclusive CPUs, 0 free; performance cores only (cpuset.options) and isolated CPUs only (isolated) "
        "(1 reserved: 0; 6 held by a, b, c, d, e and 2 more; 2 in use by containers pinned by hand: x, y); 1 would fit"
    )


@pytest.mark.parametrize("code", RefusalCode)
def test_http_has_a_status_for_every_refusal(code: RefusalCode) -> None:
    """A missing container is 404, every other refusal a conflict with the present state."""
    answer = declined(Refusal(code), "not done: ")
    assert answer.status == (404 if code is RefusalCode.UNKNOWN_CONTAINER else 409)
    assert str(answer).startswith("not done: ")


@pytest.mark.parametrize("kind", AstrayKind)
def test_what_is_astray_is_named(kind: AstrayKind) -> None:
    assert "web" in told(Astray(kind=kind, container="web", cgroup="/sys/fs/cgroup/cpuset/web"))
