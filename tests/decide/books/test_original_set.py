"""An original set under full-pcpus-only is as many whole cores as the floor, whatever the machine went through."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sidecar.decide.books.original_set import with_original_sets_on_cores
from sidecar.decide.facts import Purpose
from state.topology import uniform
from tests.support.decide.dynamic import Dynamic
from tests.support.decide.stories import cpus

WHOLE = "full-pcpus-only"


def on_cores(count: int, reserved: str, **settings: object) -> Dynamic:
    return Dynamic(uniform(cores=count, threads=2), reserved_cpus=cpus(reserved), **settings)


@pytest.mark.parametrize("floor", [1, 2])
@pytest.mark.parametrize("is_back", [True, False])
def test_a_floor_fits_beside_what_a_thread_that_was_away_left_of_a_core(floor: int, *, is_back: bool) -> None:
    """Cores 0,4 1,5 2,6 3,7. The half core and the core that completed it are not both part of the floor."""
    story = on_cores(4, "0,4")
    whole = story.elastic("whole", 2, floor, 6, options=WHOLE)
    assert story.layout(whole) == ["1-3,5-7"]
    story.hotplug(5)
    if is_back:
        story.hotplug(5)
    late = story.elastic("late", 4 if is_back else 3)
    assert (len(story.grant(whole).cpus), len(story.grant(late).cpus)) == (2, 4 if is_back else 3)
    assert str(story.grant(whole).original | story.grant(whole).cpus) == "2,6"


def test_an_original_set_keeps_its_whole_cores() -> None:
    """Of two original cores one lost a thread; the other one stays, and a core beside them takes its place."""
    story = on_cores(5, "0,5")
    whole = story.elastic("whole", 4, None, 8, options=WHOLE)
    assert str(story.grant(whole).original) == "1-2,6-7"
    story.hotplug(6)
    assert str(story.grant(whole).original) == "2-3,7-8"
    story.hotplug(6)
    assert (str(story.grant(whole).original), story.layout(whole)) == ("2-3,7-8", ["1-4,6-9"])


def test_sizes_are_as_fair_as_before_when_the_thread_is_back() -> None:
    story = on_cores(4, "0")
    first = story.elastic("first", 2, None, 8, options=WHOLE)
    second = story.elastic("second", 1, None, 3)
    story.over(Purpose.COOLDOWN, first)
    story.settle()
    before = [len(story.grant(each).cpus) for each in (first, second)]
    gone = max(story.grant(first).original)
    story.hotplug(gone)
    story.hotplug(gone)
    story.settle()
    assert [len(story.grant(each).cpus) for each in (first, second)] == before


def test_books_in_which_it_lies_on_too_many_cores_are_mended() -> None:
    """An earlier version wrote them: the next decision sees to it."""
    story = on_cores(4, "0,4")
    whole = story.elastic("whole", 2, None, 4, options=WHOLE)
    grant = story.grant(whole)
    spread = replace(grant, original=cpus("1-2"), layers=(cpus("5-6"),))
    mended = with_original_sets_on_cores(story.world, story.world.state.holding(spread))
    assert str(mended.assignments[grant.container].original) == "1,5"
    assert with_original_sets_on_cores(story.world, mended) is mended


def test_halves_that_only_other_options_can_have_granted_stay() -> None:
    """A number that comes to no whole cores was granted before they were required."""
    story = on_cores(5, "0")
    single = story.elastic("single", 3, 1, 3)
    before = story.grant(single).original
    story.change_settings(options=(WHOLE,))
    assert story.grant(single).original == before
