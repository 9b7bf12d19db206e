"""How all tests run: live tests in lanes, the lanes first; and which tests are left to other runs."""

from __future__ import annotations

import hypothesis
import pytest

from tests.live.lanes import lane_of, lanes_here

EXIT_SECONDS = 30
"""How long an interrupted worker may take to end; pytest-xdist's ten are few to end an engine and its containers."""


def pytest_configure(config: pytest.Config) -> None:
    """Let interrupted workers restore the host; and let no example fail because of another process's load."""
    hypothesis.settings.register_profile("beside-others", deadline=None)
    hypothesis.settings.load_profile("beside-others")
    if config.pluginmanager.hasplugin("dsession"):
        from xdist.workermanage import NodeManager

        NodeManager.EXIT_TIMEOUT = EXIT_SECONDS


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give each live test its lane, for pytest-xdist; a live test without one is an error."""
    if item.get_closest_marker("live") or item.path.parent.name == "live":
        lane, here = _lane(item), lanes_here()
        item.add_marker(pytest.mark.xdist_group(lane if lane in here else here[0]))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the lanes before all other tests, whose order stays random: a long lane that began last would end last."""
    order = {lane: place for place, lane in enumerate(lanes_here())}
    items.sort(key=lambda item: order.get(_group(item), len(order)))
    if config.getoption("benchmark_skip", default=False) and not config.getoption("benchmark_only"):
        for item in items:
            if "benchmark" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.skip(reason="a benchmark: `make bench` runs it"), append=False)


def _lane(item: pytest.Item) -> str:
    said = item.get_closest_marker("lane")
    if said is not None:
        return str(said.args[0])
    try:
        return lane_of(item.path.stem)
    except KeyError:
        raise pytest.UsageError(f"{item.nodeid} is live and has no lane: see tests/live/lanes.py") from None


def _group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark else ""
