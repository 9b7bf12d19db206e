"""The browser leaves nothing behind in the process that drives it."""

from __future__ import annotations

import asyncio

import pytest

from tests.page.browser import browsing

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("page")]


def test_no_event_loop_is_left_running() -> None:
    """Tests of the library for asyncio are played by the same worker, before and after those of the page."""
    with browsing():
        pass
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    asyncio.run(asyncio.sleep(0))
