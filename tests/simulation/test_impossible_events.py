"""What cannot happen in a scenario is told before it is played, beside all other mistakes."""

from __future__ import annotations

import pytest

from sidecar.simulation.busy_host import ScenarioError
from sidecar.simulation.scenario import simulation_of
from sidecar.simulation.scenario_file import scenario_of
from tests.simulation.test_reading import CONTAINER, EVENT, HEAD


def test_all_events_that_cannot_happen_are_told_before_anything_is_played() -> None:
    """In the order of the lines, though judged in the order of time."""
    happenings = [
        ("9s", "stop", "container = 'web'"),
        ("1s", "run", "container = 'web'"),
        ("2s", "run", "container = 'web'"),
        ("3s", "remove", "container = 'web'"),
        ("4s", "create", "container = 'web'"),
        ("5s", "remove", "container = 'web'"),
        ("6s", "offline", "cpus = '3,9'"),
        ("7s", "offline", "cpus = '0-2'"),
        ("8s", "online", "cpus = '3-4'"),
    ]
    events = "".join(f"[[event]]\nat = '{at}'\ndo = '{do}'\n{more}\n" for at, do, more in happenings)
    with pytest.raises(ScenarioError) as caught:
        scenario_of(f"{CONTAINER}cpuset = '2-5'\n{events}", "x.toml")
    assert [told.removeprefix("x.toml, ") for told in caught.value.sentences] == [
        "line 8: cpuset is '2-5', but 4-5 is not on this machine: it has 0-3",
        "line 9: stop at 9 s: there is no container 'web' now; there is none",
        "line 17: run at 2 s: there is a container 'web' already: remove it before it is created again",
        "line 36: cpus is 3,9, but 9 is not on this machine: it has 0-3",
        "line 37: offline at 7 s: the last CPU cannot go offline",
        "line 44: cpus is 3-4, but 4 is not on this machine: it has 0-3",
    ]


def test_what_cannot_happen_is_told_beside_what_cannot_be_read() -> None:
    """But for what the unread event may change: whether its container is there."""
    happenings = [
        ("1s", "run", "container = 'a'"),
        ("9999999", "stop", "container = 'a'"),
        ("2s", "start", "container = 'b'"),
        ("2s", "rum", "container = 'c'"),
        ("3s", "stop", "container = 'c'"),
        ("soon", "create", "container = 'd'"),
        ("4s", "start", "container = 'd'"),
        ("4s", "run", "container = 'a'"),
        ("soon", "offline", "cpus = '9'"),
    ]
    containers = "".join(f"[[container]]\nname = '{name}'\n" for name in "abcd")
    events = "".join(f"[[event]]\nat = '{at}'\ndo = '{do}'\n{more}\n" for at, do, more in happenings)
    with pytest.raises(ScenarioError) as caught:
        scenario_of(f"{HEAD}{containers}{events}", "x.toml")
    assert [told.removeprefix("x.toml, ").partition(":")[0] for told in caught.value.sentences] == [
        "line 19",
        "line 22",
        "line 28",
        "line 35",
        "line 42",
        "line 47",
        "line 49",
    ]
    assert "line 22: start at 2 s: there is no container 'b' now; there is a" in caught.value.sentences[1]


def test_an_event_that_could_not_be_read_at_all_may_concern_any_container() -> None:
    """Nor is the last CPU judged then: it may have brought CPUs back."""
    text = f"{EVENT}do = 'stop'\ncontainer = 'web'\n[[event]]\nat = 1\ndo = 'offline'\ncpus = '0-3'\n"
    with pytest.raises(ScenarioError) as caught:
        scenario_of(f"{text}[[event]]\nat = 0\ndo = 'rum'\n", "x.toml")
    assert [told.removeprefix("x.toml, ") for told in caught.value.sentences] == [
        "line 18: do is 'rum'; did you mean 'run'?"
    ]


def test_an_event_after_the_end_is_not_judged() -> None:
    """It does not happen."""
    text = f"ends = '5s'\n{EVENT.replace('1s', '9s')}do = 'stop'\ncontainer = 'web'\n"
    assert scenario_of(text, "x.toml").ends == 5.0


def test_what_cannot_be_done_at_its_time_is_said_with_its_line() -> None:
    text = f"{EVENT}do = 'stop'\ncontainer = 'web'\n"
    with pytest.raises(ScenarioError, match=r"x.toml, line 8: stop at 1 s: there is no container 'web' now"):
        simulation_of(scenario_of(text, "x.toml")).advance(10)
