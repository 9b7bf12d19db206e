"""The one generator of churn: its actions are lawful, repeat with the same seed, and cover every verb."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from sidecar.decide.container.labels import read_labels
from state.cpuset import CPUSet
from tests.live import users
from tests.support.churn import Act, Mix, Scene, Verb, acts
from tests.support.daemon.churn import STATIC_MIX
from tests.support.daemon.dynamic_churn import DYNAMIC_MIX
from tests.support.decide import history_users
from tests.support.kinds import Wanted

MIXES = {
    "of histories": history_users.STATIC_MIX,
    "of dynamic histories": history_users.DYNAMIC_MIX,
    "of the simulated daemon": STATIC_MIX,
    "of the dynamic daemon": DYNAMIC_MIX,
    "of a real engine": users.STATIC_MIX,
    "of a real engine and dynamic": users.ELASTIC_MIX,
}

LIKE_A_MISTAKE = ({"cpuset.exclusive": "1.5"},)
"""Labels of kinds that are mistaken on purpose."""


def scene() -> Scene:
    return Scene(containers=["a", "b"], has_room=True, online=CPUSet.parse("0-7"), present=CPUSet.parse("0-7"))


def drawn(mix: Mix, count: int = 2000, seed: int = 1) -> list[Act]:
    return [act for act in islice(acts(seed, scene, mix), count) if act is not None]


@pytest.mark.parametrize("mix", MIXES.values(), ids=MIXES)
def test_a_seed_means_the_same_acts_each_time_and_every_verb_is_among_them(mix: Mix) -> None:
    """About as often as the mix says, and repeatable, so that a history can be played again."""
    assert drawn(mix, 50) == drawn(mix, 50)
    assert drawn(mix, 50) != drawn(mix, 50, seed=2)
    found = Counter(act.verb for act in drawn(mix))
    whole = sum(mix.verbs.values())
    assert all(found[verb] > 1000 * weight / whole for verb, weight in mix.verbs.items())


@pytest.mark.parametrize("mix", MIXES.values(), ids=MIXES)
def test_what_is_asked_for_can_be_asked_for(mix: Mix) -> None:
    """Labels without a mistake, except deliberate ones, with bounds that contain the size."""
    for wanted in _wanted(mix):
        labels = wanted.labels_of(1)
        size = labels.get("cpuset.exclusive", "")
        if labels not in LIKE_A_MISTAKE:
            assert read_labels(labels, int(size) if size.isdecimal() else None).mistakes == (), labels


def _wanted(mix: Mix) -> list[Wanted]:
    return [act.wanted for act in drawn(mix) if act.verb is Verb.CREATE]


def test_nothing_is_drawn_for_containers_that_are_not_there_or_have_no_room() -> None:
    """An impossible action is None, and the next one is drawn from the scene at that time."""
    empty = Scene(containers=[], has_room=False, online=CPUSet.parse("0-3"), present=CPUSet())
    verbs: dict[Verb, int] = {verb: 1 for verb in Verb if verb is not Verb.DEFRAGMENT}
    mix = Mix(kinds=STATIC_MIX.kinds, verbs=verbs)
    assert list(islice(acts(1, lambda: empty, mix), 200)) == [None] * 200


class _Engine:
    """Records what a user asks an engine for."""

    def __init__(self, over: threading.Event) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.api = self
        self._over = over

    def create(self, name: str, *command: str, labels: dict[str, str], **host: Any) -> str:
        self.asked.append(("create", *sorted(host)))
        if len(self.asked) > 60:
            self._over.set()
        return name

    def act(self, container: str, action: str, **params: str) -> None:
        self.asked.append((action, *params))

    def remove(self, container: str) -> None:
        self.asked.append(("remove",))


def test_a_user_of_a_real_engine_does_what_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """In terms of the engine's API: created with its limits, stopped at once, and removed on request."""
    over, wished = threading.Event(), list[str]()
    engine = _Engine(over)
    monkeypatch.setattr(users, "_PAUSE_SECONDS", 0)
    wishes = {verb: lambda id, rng: wished.append(id) for verb in (Verb.ACKNOWLEDGE, Verb.RESIZE)}
    quiet = SimpleNamespace(made=lambda id, wanted: None, gone=lambda id: None, touched=lambda id: None)
    user = users.User(
        engine,  # type: ignore[arg-type]
        3,
        over,
        quiet.made,
        quiet.gone,
        touched=quiet.touched,
        mix=users.ELASTIC_MIX,
        wishes=wishes,
    )
    user.run()
    asked = {asked[0] for asked in engine.asked}
    assert asked >= {"create", "start", "stop", "kill", "restart", "pause", "unpause", "remove"}
    assert wished
    assert not user.answers
