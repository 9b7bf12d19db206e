"""A State that names no engine is claimed by the first that is found, and loses nothing."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from state.claim import claimed
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.model import Originals, State
from tests.state.strategies import states

replace = msgspec.structs.replace


def alone(key: ContainerKey) -> ContainerKey:
    return ContainerKey("", key.id)


def older(state: State) -> State:
    """Return the State as an older release with only one engine wrote it: everything under its id alone."""
    assignments = {
        alone(key): replace(each, demand=replace(each.demand, container=alone(key)))
        for key, each in state.assignments.items()
    }
    refusals = {
        alone(key): replace(
            each, container=alone(key), demand=each.demand and replace(each.demand, container=alone(key))
        )
        for key, each in state.refusals.items()
    }
    originals = {alone(key): each for key, each in state.originals.items()}
    lifts = {alone(key): each for key, each in state.lifts.items()}
    return replace(state, assignments=assignments, refusals=refusals, originals=originals, lifts=lifts)


@given(states(), st.sampled_from(["docker", "podman"]))
def test_nothing_is_lost_when_books_are_claimed(state: State, engine: str) -> None:
    """Each grant, refusal, original and lift is stored under its key, names its container, and is otherwise
    unchanged.
    """
    made = claimed(older(state), engine)
    assert older(made) == older(state)
    for mapping in (made.assignments, made.refusals, made.originals, made.lifts):
        assert all(key.engine == engine for key in mapping)
    assert all(each.container == key for key, each in made.assignments.items())
    assert all(each.container == key for key, each in made.refusals.items())
    assert all(each.demand is None or each.demand.container == key for key, each in made.refusals.items())


@given(states())
def test_books_that_name_engines_are_not_claimed(state: State) -> None:
    """Nor does an engine without a name claim anything."""
    assert claimed(state, "podman") is state
    assert claimed(older(state), "") == older(state)


def test_what_stands_under_its_key_already_stays() -> None:
    """The entry under the key is newer."""
    docker = ContainerKey("docker", "a" * 64)
    early, late = Originals(cpuset="1"), Originals(cpuset="2")
    both = State(online=CPUSet.of(0, 1)).remembering(alone(docker), early).remembering(docker, late)
    assert claimed(both, "docker").originals == {docker: late}
    assert claimed(both, "podman").originals == {docker: late, ContainerKey("podman", docker.id): early}
