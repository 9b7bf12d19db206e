"""Every claim of every placement algorithm, on every free set of small machines, for every count."""

from __future__ import annotations

import functools

import pytest

from state.cpuset import CPUSet
from tests.support.decide.claims import CLAIMS, Claim
from tests.support.decide.placements import ALGORITHMS, SHAPES, free_sets

# Several claims are about the same answers: one worker asks for them once.
pytestmark = pytest.mark.xdist_group("optimality")

PAIRS = [(algorithm, claim) for algorithm, claims in CLAIMS.items() for claim in claims]

FAULTS = {
    "whole_cores_first": "spread",
    "half_used_cores_before_breaking_one": "spread",
    "whole_nodes_first": "distributed",
    "fullest_nodes_first": "distributed",
    "as_many_cores_as_there_can_be": "packed",
    "a_free_cache_for_its_size": "packed",
    "one_cache_without_smt": "packed",
    "the_fewest_members": "packed",
    "the_most_even": "packed",
}
"""For each claim, an algorithm that does not make it."""


@functools.cache
def answers(algorithm: str, shape: str) -> list[tuple[CPUSet, int, CPUSet]]:
    """Return every call of an algorithm on a machine: free CPUs, count, CPUs taken."""
    machine, take, found = SHAPES[shape], ALGORITHMS[algorithm], []
    for free in free_sets(machine):
        for count in range(1, len(free) + 1):
            taken = take(machine, free, count)
            assert taken is not None
            found.append((free, count, taken))
    return found


def checked(claim: Claim, algorithm: str, shape: str) -> int:
    """Return about how many calls the claim was."""
    machine = SHAPES[shape]
    return sum(claim(machine, free, count, taken) for free, count, taken in answers(algorithm, shape))


@pytest.mark.parametrize(("algorithm", "claim"), PAIRS, ids=lambda each: getattr(each, "__name__", each))
def test_a_claim_holds_wherever_it_is_made(algorithm: str, claim: Claim) -> None:
    """And it is made for some calls: a claim about none proves nothing."""
    assert sum(checked(claim, algorithm, shape) for shape in SHAPES) > 500


@pytest.mark.parametrize("claim", dict.fromkeys(claim for _, claim in PAIRS), ids=lambda each: each.__name__)
def test_a_claim_can_fail(claim: Claim) -> None:
    """Another algorithm in its place breaks it on one of these machines."""
    fault = FAULTS[claim.__name__]
    assert not all(holds(claim, fault, shape) for shape in SHAPES)


def holds(claim: Claim, algorithm: str, shape: str) -> bool:
    """Return whether the claim holds for all calls on this machine."""
    try:
        checked(claim, algorithm, shape)
    except AssertionError:
        return False
    return True
