"""The promises of the pages hold in random scenarios, as far as the output of `simulate --json` shows."""

from __future__ import annotations

import pytest

from tests.blackbox.judge import broken_in, cut_down
from tests.blackbox.plain_values import Scenario
from tests.blackbox.scenarios import scenario_of, toml_of

SOME = 60
"""How many are played here; `python -m tests.blackbox.long_run` plays more."""


def test_the_promises_hold_in_random_scenarios() -> None:
    """A failure names the seed, and has a scenario that is cut down to what breaks the promise."""
    for seed in range(SOME):
        scenario = scenario_of(seed)
        if found := broken_in(scenario):
            pytest.fail(f"seed {seed}: {found[0]}\n{toml_of(cut_down(scenario, found[0].promise))}")


def test_a_seed_is_a_scenario() -> None:
    assert toml_of(scenario_of(7)) == toml_of(scenario_of(7))
    assert toml_of(scenario_of(7)) != toml_of(scenario_of(8))


def test_scenarios_are_various() -> None:
    """Each verb, both policies, and every kind of container come up in a few."""
    few = [scenario_of(seed) for seed in range(60)]
    verbs = {event["do"] for each in few for event in each["event"]}
    assert verbs == {
        *("run", "create", "start", "stop", "remove", "resize", "release", "defragment", "reload"),
        *("offline", "online", "crash", "restart"),
    }
    assert {each["settings"]["policy"] for each in few} == {"static", "dynamic"}
    labels = {label for each in few for one in each["container"] for label in one.get("labels", {})}
    assert {"cpuset.exclusive", "cpuset.max", "cpuset.numa", "cpuset.options", "cpuset.grace"} <= labels


def _short_run() -> Scenario:
    return {
        "machine": {"cores": 3},
        "settings": {"policy": "static", "reserved": "0"},
        "container": [{"name": "a", "labels": {"cpuset.exclusive": "1"}}, {"name": "b"}],
        "event": [{"at": 1.0, "do": "run", "container": "b"}, {"at": 2.0, "do": "run", "container": "a"}],
    }


def test_what_breaks_nothing_is_not_cut_down() -> None:
    """Nothing is left out without a reason: the same promise must be broken still."""
    scenario = _short_run()
    assert broken_in(scenario) == ()
    assert cut_down(scenario, "owners_are_alone") == scenario


def test_a_client_that_wins_the_race_breaks_no_strict_start() -> None:
    """What is created and started in one go runs on other CPUs for some milliseconds: the sidecar has not seen it."""
    by_events, strict = "batch", "voice"
    scenario: Scenario = {
        "machine": {"cores": 8},
        "settings": {"policy": "static", "reserved": "0"},
        "container": [
            {"name": by_events},
            {"name": strict, "labels": {"cpuset.exclusive": "2"}, "runtime": "cpuset"},
        ],
        "event": [
            {"at": 19.0, "do": "run", "container": strict},
            {"at": 23.05, "do": "stop", "container": strict},
            {"at": 23.05, "do": "start", "container": strict},
            {"at": 23.1, "do": "create", "container": by_events},
            {"at": 23.1, "do": "start", "container": by_events},
        ],
    }
    assert broken_in(scenario) == ()
