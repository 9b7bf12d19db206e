"""How all tests run: live tests in lanes, the lanes first; and which tests are left to other runs."""

from __future__ import annotations

import gc
import os
import re
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
from _pytest.nodeid import NodeId

from tests.live.lanes import HOST, lane_of, lanes_here

EXIT_SECONDS = 30
"""How long an interrupted worker may take to end; pytest-xdist's ten are few to end an engine and its containers."""

QUICK_EXAMPLES = 25
"""How many examples of a property `make check` plays; `make test` plays a hundred."""

MEMORY = "/dev/shm"
"""Where files are in memory."""

ROOM_BYTES = 1 << 30
"""How much must be free there: all tests together write less than a tenth."""


def pytest_configure(config: pytest.Config) -> None:
    """Let interrupted workers restore the host; and let no example fail because of another process's load."""
    hypothesis.settings.register_profile("beside-others", deadline=None)
    hypothesis.settings.register_profile("quick", deadline=None, max_examples=QUICK_EXAMPLES)
    hypothesis.settings.load_profile(config.getoption("--hypothesis-profile") or "beside-others")
    if config.pluginmanager.hasplugin("dsession"):
        from xdist.workermanage import NodeManager

        NodeManager.EXIT_TIMEOUT = EXIT_SECONDS


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave what is collected out of garbage collection: it stays to the end, and looking through it takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give each live test its lane, for pytest-xdist; a live test without one is an error."""
    if item.get_closest_marker("live") or item.path.parent.name == "live":
        lane, here = _lane(item), lanes_here()
        item.add_marker(pytest.mark.xdist_group(lane if lane in here else here[0]))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the lanes before all other tests, whose order stays random: a long lane that began last would end last.
    Only `host`, beside which no lane runs, is in the middle of these: by then the other lanes have probably ended.
    """
    order = {lane: place for place, lane in enumerate(lanes_here())}
    items.sort(key=lambda item: order.get(_group(item), len(order)))
    alone = [item for item in items if _group(item) == HOST]
    beside = [item for item in items if _group(item) != HOST]
    lanes = sum(_group(item) in order for item in beside)
    middle = lanes + (len(beside) - lanes) // 2
    items[:] = [*beside[:middle], *alone, *beside[middle:]]
    for item in items:
        _name_by_group(item)
    if config.getoption("benchmark_skip", default=False) and not config.getoption("benchmark_only"):
        # `make bench` runs these.
        left_out = [item for item in items if "benchmark" in getattr(item, "fixturenames", ())]
        items[:] = [item for item in items if "benchmark" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Restore the blocked signals: a daemon that does not begin, because of a mistake, ends with SIGHUP blocked, and
    the programs of later tests would inherit that.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        return (yield)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.fixture(scope="session")
def memory() -> Iterator[Path | None]:
    """Make a folder in memory, and remove it at the end; None where there is none that is large and runs programs."""
    try:
        there = os.statvfs(MEMORY)
    except OSError:
        there = None
    if there is None or there.f_flag & os.ST_NOEXEC or there.f_bavail * there.f_frsize < ROOM_BYTES:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="cpuset-sidecar-tests-", dir=MEMORY, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, memory: Path | None) -> Path:
    """Return a fresh folder: in memory for a test that needs no engine, since a disk costs it half of its time.

    With `-n 0 --basetemp=FOLDER` all folders are in that one, and stay.
    """
    is_given = bool(request.config.option.basetemp) and not hasattr(request.config, "workerinput")
    if memory is None or is_given or request.node.get_closest_marker("live"):
        ordinary: Path = request.getfixturevalue("tmp_path")
        return ordinary
    return Path(tempfile.mkdtemp(prefix=re.sub(r"\W", "_", request.node.name)[:30] + "-", dir=memory))


def _lane(item: pytest.Item) -> str:
    said = item.get_closest_marker("lane")
    if said is not None:
        return str(said.args[0])
    try:
        return lane_of(item.path.stem)
    except KeyError:
        raise pytest.UsageError(f"{item.nodeid} is live and has no lane: see tests/live/lanes.py") from None


def _name_by_group(item: pytest.Item) -> None:
    """Give a test the name by which pytest-xdist knows its group: 3.8 writes that where pytest 9.2 reads none."""
    name = getattr(item, "_nodeid", item.nodeid)
    if name != item.nodeid:
        item._id = NodeId.parse(name)


def _group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark else ""
