"""What the log of a follower proves: a loss, an untruth, and what is neither in an emulated machine."""

from __future__ import annotations

from state.cpuset import CPUSet
from tests.live.followlog import FollowLog, Look

TWO = CPUSet((4, 5))
ONE = CPUSet((4,))


def look(at: float, before: CPUSet, after: CPUSet, *, told: CPUSet) -> Look:
    """Return a look of an owner that took 10 ms."""
    return Look(
        unlike=at - 0.01,
        began=at,
        ended=at + 0.01,
        before=before,
        after=after,
        on=4,
        file=told,
        sharing="exclusive",
        cpus=told,
        desired=told,
        settled=True,
    )


def log(*looks: Look, instant: float) -> FollowLog:
    return FollowLog(looks, (), (), instant)


BRIEFLY = (look(1.0, TWO, TWO, told=TWO), look(1.1, ONE, ONE, told=TWO), look(1.2, ONE, TWO, told=TWO))
FOR_GOOD = (*BRIEFLY[:2], look(1.9, ONE, ONE, told=TWO))
TOLD = (look(1.0, TWO, TWO, told=TWO), look(1.1, TWO, ONE, told=ONE), look(1.2, ONE, ONE, told=ONE))


def test_a_cpu_that_is_gone_was_lost_even_for_an_instant() -> None:
    assert log(*BRIEFLY, instant=0.0).losses() == [()]
    assert len(log(*BRIEFLY, instant=0.0).untruths()) == 1


def test_in_an_emulated_machine_it_may_be_gone_for_an_instant_and_no_longer() -> None:
    assert log(*BRIEFLY, instant=0.4).losses() == []
    assert log(*BRIEFLY, instant=0.4).untruths() == []
    assert log(*FOR_GOOD, instant=0.4).losses() == [()]
    assert len(log(*FOR_GOOD, instant=0.4).untruths()) == 1


def test_what_goes_for_good_is_a_loss_in_every_machine() -> None:
    assert len(log(*TOLD, instant=0.0).losses()) == len(log(*TOLD, instant=0.4).losses()) == 1
