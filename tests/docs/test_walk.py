"""The walk of the architecture page is the one that the program takes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Final

import pytest
import trio
from trio.testing import MockClock

import sidecar
from tests.docs.pages import ROOT, section
from tests.support.daemon.host import Host

PACKAGE: Final = Path(sidecar.__file__).parent


def documented() -> list[str]:
    text = section(ROOT / "docs" / "architecture.md", "A walk: one label, there and back")
    return re.findall(r"^\d+\. `([^`]+)`:", text, re.MULTILINE)


class Walk:
    """Records which functions of the program are called, in their order, for as long as it is on."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def begin(self) -> None:
        sys.setprofile(self._hear)

    def end(self) -> None:
        sys.setprofile(None)

    def _hear(self, frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            self.steps.append(f"{path.relative_to(PACKAGE).with_suffix('')}.{frame.f_code.co_qualname}")


@pytest.mark.trio
async def test_a_label_takes_the_documented_walk(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each function of the page is called, and after the one before it."""
    host, walk = Host(tmp_path, monkeypatch), Walk()
    async with host.running():
        await host.docker.run("plain")
        await trio.sleep(1)
        walk.begin()
        rt = await host.docker.create("rt", labels={"cpuset.exclusive": "2"})
        await trio.sleep(0.05)
        await host.docker.start(rt)
        await host.settled(rt)
        walk.end()
    taken = iter(walk.steps)
    assert [step for step in documented() if step not in taken] == []
    assert len(documented()) > 20
