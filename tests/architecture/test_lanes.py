"""Live tests run in lanes: each module has one, and a test that needs the whole host runs alone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.live.lanes import HOST, LANES, ONLY, lane_of, lanes_here, room_on_host
from tests.support.sources import ROOT

MODULES = sorted(path.stem for path in (ROOT / "tests" / "live").glob("test_*.py"))


def test_each_module_of_live_tests_has_one_lane() -> None:
    """And no lane names a module that does not exist."""
    assert sorted(module for modules in LANES.values() for module in modules) == MODULES


def test_a_module_without_a_lane_is_an_error() -> None:
    """It could otherwise run beside a test that kills its engine."""
    with pytest.raises(KeyError):
        lane_of("test_something_new")


def test_each_live_test_of_this_run_is_in_a_lane(request: pytest.FixtureRequest) -> None:
    """Live tests of the contract suite, too."""
    live = [item for item in request.session.items if item.get_closest_marker("live")]
    groups = {item.nodeid: [mark.args[0] for mark in item.iter_markers("xdist_group")] for item in live}
    assert {id: group for id, group in groups.items() if len(group) != 1 or group[0] not in lanes_here()} == {}


@pytest.mark.xdist_group("lanes")
def test_a_test_in_a_group_is_named_by_it(request: pytest.FixtureRequest) -> None:
    """pytest-xdist knows a group by the end of a test's name alone. A pytest that keeps the old name lets many workers
    run a lane.
    """
    is_grouped = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@lanes") == is_grouped


def test_without_an_engine_of_its_own_every_live_test_is_in_one_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share the host's engine, and the effects of each other's actions on it."""
    monkeypatch.setattr("tests.live.lanes.os.geteuid", lambda: 1000)
    assert lanes_here() == (ONLY,)


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (True, True)])
def test_what_needs_the_whole_host_has_it_alone(tmp_path: Path, first: bool, second: bool) -> None:
    """The second waits until the first has ended."""
    done: list[str] = []

    def other() -> None:
        with room_on_host(tmp_path, is_alone=second):
            done.append("second")

    with room_on_host(tmp_path, is_alone=first):
        waiting = threading.Thread(target=other)
        waiting.start()
        waiting.join(0.1)
        done.append("first")
    waiting.join()
    assert done == ["first", "second"]


def test_others_are_beside_each_other(tmp_path: Path) -> None:
    """Two tests that each need an engine run concurrently."""
    with room_on_host(tmp_path, is_alone=False), room_on_host(tmp_path, is_alone=False):
        assert (tmp_path / "host.lock").exists()


def test_there_is_a_lane_for_what_needs_the_host() -> None:
    assert "test_hotplug" in LANES[HOST]
