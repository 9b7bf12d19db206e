"""Names in the order that people expect."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.natural_order import natural


def test_numbers_in_names_count_as_numbers() -> None:
    """Wherever they stand, with leading zeros or without."""
    names = ["svc-10", "svc-2", "svc", "2", "10", "svc-02", "svc-2-b", "svc-1"]
    assert sorted(names, key=natural) == ["2", "10", "svc", "svc-1", "svc-02", "svc-2", "svc-2-b", "svc-10"]


@given(st.text(), st.text())
def test_names_that_differ_have_different_places(one: str, other: str) -> None:
    """The order is total, so a list is the same each time."""
    assert (natural(one) == natural(other)) == (one == other)


def test_a_number_of_any_length_has_a_place() -> None:
    """A name is foreign text."""
    assert natural("1" * 10_000) > natural("1" * 100)
