"""The one book of notices: a loss is judged by what the files said, between moments that the reader is sure of."""

from __future__ import annotations

import pytest

from state.cpuset import CPUSet
from state.projection import Projection, Sharing
from tests.live.notices import SampledNotices
from tests.live.waiting import PATIENCE
from tests.support.notices import Notices

OWN = CPUSet.parse("1-4")


def told(generation: int, leaving: str = "", seconds: float | None = None, cpus: CPUSet = OWN) -> Projection:
    """Return what a file says."""
    return Projection(
        container="a" * 64,
        name="a",
        cpus=cpus,
        desired=cpus - CPUSet.parse(leaving),
        leaving=CPUSet.parse(leaving),
        deadline_seconds=seconds,
        sharing=Sharing.EXCLUSIVE,
        settled=True,
        generation=generation,
    )


@pytest.mark.parametrize(
    ("lost", "at", "acks", "grace", "fault"),
    [
        ("2", 12.0, (), 2.0, "without notice"),
        ("3-4", 12.0, (), 2.0, ""),
        ("3-4", 11.0, (), 2.0, "after 1.0000 of 2 s"),
        ("3-4", 11.0, (), 0.0, "1.0000 s before the time that its file gave it"),
        ("3-4", 11.0, (7,), 2.0, ""),
        ("3-4", 11.0, (6,), 2.0, "after 1.0000 of 2 s"),
        ("3-4", 11.0, (8,), 2.0, "after 1.0000 of 2 s"),
        ("2-3", 12.0, (7,), 0.0, "without notice"),
    ],
)
def test_a_loss_is_judged_by_its_notice(lost: str, at: float, acks: tuple[int, ...], grace: float, fault: str) -> None:
    """It was read for its grace, and as long as a file promised; or acknowledged, by a generation that listed it."""
    notices = Notices()
    notices.read(told(6), 9.0, 9.0)
    notices.read(told(7, "3-4", 2.0), 10.0, 10.0)
    # Read again, it promises nothing new.
    notices.read(told(7, "3-4", 2.0), 11.9, 11.9)
    assert notices.fault(CPUSet.parse(lost), at, acks, grace) == fault


def test_a_notice_that_was_called_off_is_none() -> None:
    """A growth takes the CPU back: an acknowledgement of the old notice does not count for the next."""
    notices = Notices()
    notices.read(told(7, "4", 2.0), 10.0, 10.0)
    notices.read(told(8), 11.0, 11.0)
    assert notices.fault(CPUSet.of(4), 20.0, (7,)) == "without notice"
    notices.read(told(9, "4", 2.0), 12.0, 12.0)
    assert not notices.are_acknowledged(CPUSet.of(4), (7, 8))
    assert notices.answers(CPUSet.of(4)) == range(9, 10)


def test_samples_leave_a_gap_on_both_sides() -> None:
    """It was announced after the previous sample, and lost after the last that has it: these gaps are excused."""
    seen, began = SampledNotices(), 100 * PATIENCE
    assert seen.sample("a", told(6), OWN, began) == ""
    assert seen.sample("a", told(7, "4", 2.0), OWN, began + 1.0) == ""
    assert seen.sample("a", told(7, "4", 2.0), OWN, began + 2.1) == ""
    assert seen.sample("a", None, CPUSet.parse("1-3"), began + 3.0) == ""
    assert seen.kept == pytest.approx([1.1])
    assert seen.spared == 0


@pytest.mark.parametrize(("is_answered", "words"), [(False, "before the time that its file gave it"), (True, "")])
def test_a_sampled_loss_that_comes_too_early_is_told(is_answered: bool, words: str) -> None:
    """Unless the workload acknowledged, or a user is acting on it."""
    seen, began = SampledNotices(), 100 * PATIENCE
    seen.sample("a", told(6), OWN, began)
    seen.sample("a", told(7, "4", 2.0), OWN, began + 0.1)
    if is_answered:
        seen.acknowledged("a", 7)
    found = seen.sample("a", None, CPUSet.parse("1-3"), began + 0.2)
    assert words in found
    assert bool(found) is not is_answered
    assert seen.spared == is_answered


def test_a_sampled_loss_without_any_notice_is_told() -> None:
    seen = SampledNotices()
    seen.sample("a", told(6), OWN, 100.0)
    assert seen.sample("a", None, CPUSet.parse("1-3"), 100.1) == "lost 4 without notice"
