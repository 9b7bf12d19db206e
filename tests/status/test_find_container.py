"""What people type names one container, whatever others are named."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from sidecar.status.find_container import NotFound, find

VICTIM = "deadbeef" + "0" * 56
OTHER = "e" * 64


class Named(NamedTuple):
    """A container."""

    id: str
    name: str


def test_a_full_id_is_that_container_whatever_another_is_named() -> None:
    both = [Named(OTHER, VICTIM), Named(VICTIM, "victim")]
    assert find(both, VICTIM).id == find(reversed(both), VICTIM).id == find(both, VICTIM.upper()).id == VICTIM


@pytest.mark.parametrize("length", [1, 12, 63])
def test_a_name_that_is_the_beginning_of_anothers_id_names_neither(length: int) -> None:
    """Who takes the short id of another as a name gets none of its orders; the message has both ids."""
    both = [Named(OTHER, VICTIM[:length]), Named(VICTIM, "victim")]
    with pytest.raises(NotFound, match=re.escape(f"({OTHER[:16]}, {VICTIM[:16]}): give the full id")):
        find(both, VICTIM[:length])
    assert find(both, "victim").id == VICTIM


def test_a_name_that_is_the_beginning_of_its_own_id_is_no_doubt() -> None:
    assert find([Named(VICTIM, VICTIM[:12])], VICTIM[:12]).id == VICTIM


def test_a_name_that_two_claim_names_neither() -> None:
    with pytest.raises(NotFound, match="the name of more than one container"):
        find([Named(OTHER, "one"), Named(VICTIM, "one")], "one")
