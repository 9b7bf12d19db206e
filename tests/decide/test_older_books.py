"""A daemon that starts on a State whose containers are named by id alone: no container loses anything."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.decide.facts import EngineConnected, EngineInfo, InventoryTaken, StartHeld
from sidecar.decide.moves.starts_from_books import from_books
from sidecar.decide.reconcile import begin
from sidecar.decide.step import step
from sidecar.decide.world import World, replace
from state.key import ContainerKey
from state.refusal import RefusalCode
from tests.decide.lawbook.laws import LAWS
from tests.state.test_claim import older
from tests.support.decide.real import ENGINE, Real
from tests.support.decide.stories import Story
from tests.support.laws import When, breaches

LIMIT = 2_000_000_000


def upgraded(*, is_crash: bool = True) -> tuple[Story, list[Real]]:
    """Return three containers, of which one holds CPUs, and one is refused, after the daemon restarted on a State
    written by an earlier release.
    """
    story = Story()
    reals = [
        story.arrive("rt", 2, nano_cpus=LIMIT),
        story.arrive("plain"),
        story.arrive("late", 7, labels={"cpuset.on-shortage": "wait"}),
    ]
    story.settle()
    story.checkpoint = older(story.world.state)
    if is_crash:
        story.crash([True])
    return story, reals


def test_grants_and_originals_are_those_of_before() -> None:
    """And nothing is ordered, as after any restart."""
    story, (rt, plain, late) = upgraded()
    assert story.granted(rt) == "1-2"
    assert story.world.state.originals.keys() == {rt.key, plain.key, late.key}
    assert story.world.state.originals[rt.key].nano_cpus == LIMIT
    assert story.refusal(late).code is RefusalCode.NOT_ENOUGH
    assert story.flight == []
    story.settle()
    assert breaches(LAWS, story, When.REST) == []


def test_everything_can_be_given_back() -> None:
    """The originals that an earlier release recorded are restored."""
    story, (rt, _, _) = upgraded()
    story.release()
    story.settle()
    assert (rt.nano_cpus, story.world.state.originals) == (LIMIT, {})


@pytest.mark.parametrize("is_connected", [True, False])
def test_books_are_claimed_before_an_inventory_is_counted(is_connected: bool) -> None:
    """Also by an inventory that is taken before the engine identified itself."""
    story, (rt, plain, late) = upgraded(is_crash=False)
    world = begin(story.checkpoint, story.machine, story.settings)
    views = tuple(real.view() for real in (rt, plain, late))
    engine = EngineInfo(name=ENGINE, version="1", api_version="1.41", ncpu=8)
    first = [EngineConnected(engine, 1)] if is_connected else []
    world, orders = step(world, [*first, InventoryTaken(views, (), 2)])
    assert world.state.originals == story.world.state.originals
    assert world.state.assignments == story.world.state.assignments
    assert world.containers[rt.key].wish == story.known(rt).wish
    assert not orders


def test_a_start_that_is_held_before_the_engine_is_reached_goes_by_older_books() -> None:
    """The runtime sends an id, and the State knows it."""
    story, (rt, _, _) = upgraded(is_crash=False)
    world = begin(story.checkpoint, story.machine, story.settings)
    key = world.key_of(rt.key.id)
    assert key == ContainerKey("", rt.key.id)
    answer = from_books(world, replace(rt.view(), engine=key.engine, is_glance=True), 1)
    assert answer is not None
    assert answer.update is not None
    assert (str(answer.update.cpus), answer.exclusive) == ("1-2", True)


def test_a_held_start_claims_the_books_as_any_news_does() -> None:
    story, (rt, _, _) = upgraded(is_crash=False)
    world = begin(story.checkpoint, story.machine, story.settings)
    world, _ = step(world, [StartHeld(replace(rt.view(), is_glance=True), 1, 1)])
    assert world.state.assignments == story.world.state.assignments


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["rt", "plain", "stop", "limit"]), max_size=6))
def test_an_upgrade_changes_nothing_for_any_containers(there: list[str]) -> None:
    """The State after it equals the one before it."""
    story = Story()
    for number, kind in enumerate(there):
        real = story.arrive(f"{kind}{number}", 1 if kind != "plain" else None, nano_cpus=10**9 * (kind == "limit"))
        if kind == "stop":
            story.end(real)
    story.settle()
    before = story.world.state
    story.checkpoint = older(before)
    story.crash([True])
    assert story.world.state == before


def test_books_that_are_never_claimed_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the claim the first inventory forgets the originals of containers."""

    def unclaimed(world: World, engine: str) -> World:
        return world

    monkeypatch.setattr(World, "named", unclaimed)
    story, (rt, _, _) = upgraded(is_crash=False)
    was = story.world.state.originals[rt.key]
    with pytest.raises(AssertionError):
        story.crash([True])
    assert story.world.state.originals.get(rt.key) != was
