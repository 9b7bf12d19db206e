"""Every flaw of a label has its sentence."""

from __future__ import annotations

from typing import get_args

import pytest

from sidecar.words.mistaken import sentence
from state.mistakes import (
    AllOf,
    AnyFlaw,
    BornInGroup,
    Clashes,
    CountOrTrue,
    Cut,
    DirectoryName,
    FractionalLimit,
    FromCount,
    InPod,
    InsideAnother,
    Mistake,
    NoCgroup,
    NoEffect,
    NoLimit,
    NoSuchDevice,
    NotAllowed,
    NotInPod,
    NotItsName,
    NotOfUnits,
    OfPod,
    OneOf,
    OtherLimit,
    OtherPin,
    PodThrottles,
    Seconds,
    SetAside,
    SignalName,
    TrueOrFalse,
    UnknownLabel,
    UpToCount,
    Whole,
    WordOrPlaces,
)

FLAWS: tuple[tuple[AnyFlaw, str], ...] = (
    (OneOf(("a", "b")), "cpuset.x is 'y': write one of a, b"),
    (OneOf(("off",)), "cpuset.x is 'y': the only word it knows is off"),
    (OneOf(("a", "b", "c", "d")), "cpuset.x is 'y': write one of a, b, c, d"),
    (AllOf(("red", "blue"), ("rad",)), "cpuset.x has 'rad'; did you mean 'red'?"),
    (AllOf(("red", "blue"), ("rad", "blu")), "cpuset.x has 'rad', 'blu'; did you mean 'red' and 'blue'?"),
    (AllOf(("red", "blue"), ("rad", "xyz")), "cpuset.x has 'rad', 'xyz': the words are red, blue"),
    (AllOf(("red", "blue"), ()), "cpuset.x is 'y': write a list of some of red, blue"),
    (Whole(1, 5), "cpuset.x is 'y': write a whole number from 1 to 5"),
    (UpToCount(3), "cpuset.x is 'y': write a whole number from 1 to the 3 of cpuset.exclusive"),
    (UpToCount(1), "cpuset.x is 'y': write 1, the number of cpuset.exclusive"),
    (FromCount(), "cpuset.x is 'y': write a whole number from the N of cpuset.exclusive to 9999"),
    (CountOrTrue(), "cpuset.x is 'y': write a whole number of CPUs, or true to take it from the limit"),
    (
        Seconds(0, 60, ("one", "two")),
        "cpuset.x is 'y': write one, two, or a duration from 0s to 1m, in ms, s, m or h, like 10s",
    ),
    (Seconds(0, 60, ("ye", "no")), "cpuset.x is 'y'; did you mean 'ye'?"),
    (Seconds(0, 60), "cpuset.x is 'y': write a duration from 0s to 1m, in ms, s, m or h, like 10s"),
    (
        WordOrPlaces(("first",)),
        "cpuset.x is 'y': write one of first, or a list like 1 or 0-1, in which 0 is its first CPU",
    ),
    (TrueOrFalse(), "cpuset.x is 'y': write true or false"),
    (SignalName(), "cpuset.x is 'y': write the name of a signal that a program can catch, like HUP"),
    (DirectoryName(), "cpuset.x is 'y': use letters, digits, _ . - and at most 64 of them"),
    (
        Clashes((("a", "b"), ("c", "d"))),
        "cpuset.x: a and b cannot be used together: choose one; c and d cannot be used together: choose one",
    ),
    (NoLimit(), "cpuset.x is 'y', but no CPU limit says how many: set cpus, or give the number"),
    (FractionalLimit(1.5), "a limit of 1.5 CPUs is a fraction: only whole CPUs can be exclusive, at least 1"),
    (OtherLimit(3.0), "cpuset.x asks for y, but the limit is 3: make them equal, or drop the limit"),
    (OtherPin(2, "4"), "it asks for 2 exclusive CPUs and is pinned by hand to 4: drop one of the two"),
    (
        BornInGroup("pool.slice", "own.slice"),
        (
            "it lives in pool.slice, which confines the shared pool, and can have no CPUs outside it: create it with "
            "cgroup_parent: own.slice"
        ),
    ),
    (
        SetAside(0, 2),
        "Swarm set no exclusive-cpu aside for it, and it asks for 2: reserve exclusive-cpu=2 in the service",
    ),
    (SetAside(1, 2), "Swarm set exclusive-cpu=1 aside for it, and it asks for 2: make them equal"),
    (SetAside(1, 0), "Swarm set exclusive-cpu=1 aside for it, and it has no label cpuset.exclusive: make them equal"),
    (NotOfUnits(), "the label cpuset.x has no effect on a unit of the host: it is for containers"),
    (NoEffect("static"), "the label cpuset.x has no effect under the policy static"),
    (NoSuchDevice(""), "cpuset.x is 'y', and this machine has no such device"),
    (
        NotInPod(("p-a", "p-b"), 3),
        "cpuset.x is for 'y', and no container of this pod is called so: it has p-a, p-b and 1 more",
    ),
    (NotItsName("voice"), "cpuset.x is for 'y', and this container is called 'voice'"),
    (OfPod(), "the label cpuset.x has no effect on a pod: give it to the container"),
    (
        InsideAnother(),
        (
            "its cpuset.x 'y' lies in a cgroup that is called like a container's, and it runs on the CPUs there: "
            "recreate it with another cpuset.x"
        ),
    ),
    (
        NoCgroup(),
        "it has no cgroup of its own (cpuset.x is 'y'), and runs where it is started: recreate it with one",
    ),
    (
        InPod("0-1"),
        "its pod is confined to 0-1, and it can have no CPUs of its own there: drop the cpuset of the pod",
    ),
    (
        PodThrottles(1.0),
        (
            "its pod has a limit of 1 CPU, which would throttle it on its own CPUs: "
            "drop that limit, or set cpuset.quota to keep"
        ),
    ),
    (NotAllowed("opt-out"), "the label cpuset.x has no effect: tenants_may does not contain opt-out"),
    (
        Cut(90.0, "tenants_longest_notice"),
        "cpuset.x is 'y', and tenants_longest_notice allows 90s: it has that",
    ),
    (NoSuchDevice("yy"), "cpuset.x is 'y', and this machine has no such device; did you mean 'yy'?"),
)


@pytest.mark.parametrize(("flaw", "said"), FLAWS, ids=lambda each: type(each).__name__)
def test_a_mistake_is_told_in_one_sentence(flaw: AnyFlaw, said: str) -> None:
    assert sentence(Mistake("cpuset.x", "y", flaw)) == said


def test_an_unknown_label_is_told_with_the_one_that_is_most_like_it() -> None:
    """The common prefix does not count as likeness."""
    said = sentence(Mistake("cpuset.qouta", "keep", UnknownLabel()))
    assert said == "unknown label 'cpuset.qouta'; did you mean 'cpuset.quota'?"
    assert sentence(Mistake("cpuset.0123", "", UnknownLabel())).startswith(
        "unknown label 'cpuset.0123': the labels are cpuset."
    )


def test_each_flaw_has_its_sentence() -> None:
    assert {type(flaw) for flaw, _ in FLAWS} | {UnknownLabel} == set(get_args(AnyFlaw))
