"""Gates: what opens one, what shuts it for good, and what leaves it to be waited for."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.workload.gates import UNVOUCHED, Open, Shut, Until, gate, gate_of
from state.projection import Reading, Sharing

REFUSED = Reading(vouched=True, sharing=Sharing.SHARED, settled=True, never_alone=True, reason="0 free")
WAITING = Reading(vouched=True, sharing=Sharing.SHARED, settled=True, reason="0 free")
GRANTED = Reading(vouched=True, sharing=Sharing.EXCLUSIVE, reason="granted 2")
SETTLED = Reading(vouched=True, sharing=Sharing.EXCLUSIVE, settled=True, reason="granted 2")
ALONE = Reading(vouched=True, sharing=Sharing.EXCLUSIVE, settled=True, alone=True, reason="granted 2")

OPEN = {
    Until.ALONE: [ALONE],
    Until.SETTLED: [ALONE, SETTLED, WAITING, REFUSED],
    Until.GRANTED: [ALONE, SETTLED, GRANTED],
}


@pytest.mark.parametrize("until", Until)
@pytest.mark.parametrize("told", [REFUSED, WAITING, GRANTED, SETTLED, ALONE])
def test_a_gate_opens_for_what_it_waits_for_and_nothing_else(told: Reading, until: Until) -> None:
    """A container that was refused is settled, and never alone."""
    found = gate_of(told, until)
    assert isinstance(found, Open) == (told in OPEN[until])
    if isinstance(found, Shut):
        assert found.is_for_good == (told is REFUSED)
        assert found.reason == told.reason


@pytest.mark.parametrize("until", Until)
@pytest.mark.parametrize("told", [REFUSED, ALONE])
def test_what_is_not_vouched_for_neither_opens_nor_ends_it(told: Reading, until: Until) -> None:
    found = gate_of(Reading.of(told.projection, vouched=False), until)
    assert found == Shut(f"{UNVOUCHED}; its last word: {told.reason}")


def test_where_more_is_known_it_says_why_none_vouches() -> None:
    """A host sees the daemon, a workload does not."""
    found = gate_of(Reading.of(ALONE.projection, vouched=False), Until.ALONE, lambda: "it waits")
    assert found == Shut("it waits; its last word: granted 2")


def test_without_a_projection_it_is_shut_for_now(tmp_path: Path) -> None:
    found = gate(str(tmp_path / "none"), Until.ALONE)
    assert isinstance(found, Shut)
    assert not found.is_for_good
    assert "there is no projection directory" in found.reason


def test_what_can_have_no_projection_is_shut_for_good(tmp_path: Path) -> None:
    """The default directory of a host, whose name is no container's ID."""
    found = gate(str(tmp_path / "by-id" / "pc"), Until.ALONE)
    assert isinstance(found, Shut)
    assert found.is_for_good
    assert "'pc' is not a container's ID" in found.reason
