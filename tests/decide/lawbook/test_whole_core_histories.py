"""Random histories of whole cores on machines with enough cores that one can stand in for a core that lost a thread."""

from __future__ import annotations

import random

import pytest

from sidecar.decide.books import dynamic
from state.topology import uniform
from tests.decide import long_run
from tests.decide.lawbook.core_faults import (
    completes_an_original_set_from_anywhere,
    forgets_threads_that_are_offline,
)
from tests.decide.lawbook.corelaws import NO_LARGER
from tests.decide.lawbook.laws import BOOKS, SPARE, WHOLE
from tests.support.decide.histories import (
    DYNAMIC,
    STATIC,
    Broken,
    begun,
    check,
    going_on,
    play,
    random_history,
    rest,
)
from tests.support.decide.history_users import MIXED
from tests.support.decide.reality import Reality
from tests.support.laws import When

_SETTINGS = [each for each in DYNAMIC if "full-pcpus-only" in each.options]
_WHOLE = [*(each for each in STATIC if "full-pcpus-only" in each.options), *_SETTINGS, *MIXED]


def history(seed: int) -> Reality:
    rng = random.Random(seed)
    machine = uniform(cores=rng.choice((4, 5, 6)), threads=2)
    return play(machine, rng.choice(_SETTINGS), random_history(rng, 60))


def test_whole_cores_keep_all_laws_while_threads_come_and_go() -> None:
    """Also the one that says: nothing is idle that a container could have, instead of half a core either."""
    for seed in range(300):
        history(seed)


def test_a_half_core_that_is_kept_for_good_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a policy that gives no whole core for a half one."""
    monkeypatch.setattr(dynamic, "in_whole_cores", lambda *_: None)
    with pytest.raises(Broken) as caught:
        history(1705)
    assert caught.value.laws == {SPARE}


@pytest.mark.parametrize("seed", [317, 330, 474])
def test_an_original_set_on_too_many_cores_is_noticed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a set that is completed from the nearest CPUs beside half a core; without, all laws are kept."""
    history(seed)
    completes_an_original_set_from_anywhere(monkeypatch)
    with pytest.raises(Broken) as caught:
        history(seed)
    assert caught.value.laws == {NO_LARGER}


def on_few_cores(seed: int) -> Reality:
    """Play a history in which a thread of each core of the machine goes offline at once."""
    rng = random.Random(seed)
    machine = uniform(cores=rng.choice((3, 4)), threads=2, adjacent=rng.random() < 0.5)
    ops = random_history(rng, 60)
    reality, at = begun(machine, rng.choice(_WHOLE), ops, 0), rng.randrange(len(ops))
    for place, op in enumerate(ops):
        if place == at:
            for core in machine.cores:
                reality.toggle_cpu(max(core.cpus))
            reality.read_topology()
        going_on(reality, op)
        check(reality, When.STEP)
    rest(reality)
    return reality


def test_whole_cores_keep_all_laws_where_each_core_may_lack_a_thread() -> None:
    """A core has the threads that it was seen with, also after a crash, so no half is granted as a whole."""
    for seed in range(200):
        on_few_cores(seed)


@pytest.mark.parametrize("seed", [9, 11, 17])
def test_a_half_core_that_is_granted_as_a_whole_is_noticed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a sidecar that knows no thread that is offline."""
    on_few_cores(seed)
    forgets_threads_that_are_offline(monkeypatch)
    with pytest.raises(Broken) as caught:
        on_few_cores(seed)
    assert caught.value.laws == {WHOLE}


def test_a_ceiling_that_comes_to_no_whole_core_counts_in_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was lowered to one CPU, of a container that was granted that under other options, and then a whole core."""
    long_run.history(86001220)
    monkeypatch.setattr(dynamic, "_is_odd", lambda *_: False)
    with pytest.raises(Broken) as caught:
        long_run.history(86001220)
    assert BOOKS in caught.value.laws
