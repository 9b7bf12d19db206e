"""The result of comparing one vector with the kubelet's answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from state.topology import Topology

Vector = Mapping[str, Any]
"""One line of a vector file, as JSON gives it."""


class Verdict(NamedTuple):
    """`difference` describes how our answer differs from the kubelet's, "" if it does not; `reason` names the intended
    deviation, "" if there is none.
    """

    difference: str = ""
    reason: str = ""


EQUAL: Final = Verdict()

Judge = Callable[[Vector, Mapping[str, Topology]], Verdict]
"""From a vector and the machines by name to what the comparison gave."""


def wanted(vector: Vector) -> Any:
    """Return the correct answer: the kubelet's answer, with its later fixes where they change it."""
    return vector.get("expect_fixed", vector["expect"])
