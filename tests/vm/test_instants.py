"""What followers and watchers prove: a loss, an untruth, and what is neither in an emulated machine."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from state.cpuset import CPUSet
from state.projection import STATUS, Projection, ProjectionFiles, Sharing
from tests.live.followlog import FollowLog, Look
from tests.live.watcher import Watcher

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


def test_what_it_had_once_more_for_an_instant_is_not_lost_again() -> None:
    again = (look(1.3, ONE, TWO, told=ONE), look(1.4, ONE, ONE, told=ONE))
    assert len(log(*TOLD, *again, instant=0.0).losses()) == 1


def test_what_goes_for_good_is_a_loss_in_every_machine() -> None:
    assert len(log(*TOLD, instant=0.0).losses()) == len(log(*TOLD, instant=0.4).losses()) == 1


class Kernel:
    """Allows every container the same CPUs."""

    def __init__(self) -> None:
        self.cpus = ONE

    def all_allowed(self, ids: Iterable[str]) -> dict[str, CPUSet]:
        """Return the CPUs of each."""
        return dict.fromkeys(ids, self.cpus)


@pytest.mark.parametrize(("instant", "is_back", "finds"), [(0.0, True, 1), (0.05, True, 0), (0.05, False, 1)])
def test_a_watched_owner_may_be_elsewhere_for_an_instant_in_an_emulated_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instant: float, is_back: bool, finds: int
) -> None:
    monkeypatch.setattr("tests.live.watcher.INSTANT", instant)
    watcher, kernel = Watcher(tmp_path), Kernel()
    monkeypatch.setattr(watcher, "_kernel", kernel)
    told = Projection(container="0" * 64, name="owner", sharing=Sharing.EXCLUSIVE, cpus=TWO, settled=True)
    folder = tmp_path / "by-id" / told.container[:12]
    folder.mkdir(parents=True)
    (folder / STATUS).write_bytes(ProjectionFiles.of(told).status)
    watcher.watch(told.container)
    watcher.sample()
    time.sleep(0.06)
    if is_back:
        kernel.cpus = TWO
    watcher.sample()
    found = {each.partition(": ")[2] for each in watcher.violations}
    assert len([each for each in found if each.startswith("an owner runs elsewhere")]) == finds
