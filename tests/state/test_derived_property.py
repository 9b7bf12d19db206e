"""What follows from a frozen value, computed once."""

from __future__ import annotations

import msgspec

from state.derived_property import derived_property

ASKED: list[int] = []


class Pair(msgspec.Struct, frozen=True, dict=True):
    """A value of which something follows."""

    first: int
    second: int

    @derived_property
    def total(self) -> int:
        """Both together."""
        ASKED.append(self.first)
        return self.first + self.second


def test_it_is_computed_once_for_each_value() -> None:
    """A changed value is another one; one that nobody asked computes nothing."""
    ASKED.clear()
    pair = Pair(1, 2)
    assert ASKED == []
    assert (pair.total, pair.total) == (3, 3)
    assert ASKED == [1]
    assert msgspec.structs.replace(pair, first=5).total == 7
    assert ASKED == [1, 5]


def test_it_is_no_part_of_the_value() -> None:
    """Neither of equality nor of what is written."""
    pair = Pair(1, 2)
    assert pair.total == 3
    assert pair == Pair(1, 2)
    assert msgspec.json.encode(pair) == b'{"first":1,"second":2}'


def test_its_description_is_that_of_the_function() -> None:
    found = Pair.__dict__["total"]
    assert isinstance(found, derived_property)
    assert found.__doc__ == "Both together."
    assert found.func(Pair(2, 2)) == 4
