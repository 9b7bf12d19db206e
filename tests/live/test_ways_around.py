"""Starts around the front of a real Docker: counted as long as it asks, and not while it passes everything on."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.live.privateengine import PrivateEngine
from tests.live.sidecarfixtures import Ground
from tests.live.sidecarprocess import SidecarProcess
from tests.live.stricthost import STAY, Docker, install
from tests.live.test_default_runtime import engine, usual
from tests.live.waiting import eventually

__all__ = ["engine"]

pytestmark = [pytest.mark.live, pytest.mark.slow]


def test_ways_around_are_counted_while_a_front_asks_and_not_any_more_when_it_passes_everything_on(
    engine: PrivateEngine, ground: Ground, sidecar: SidecarProcess, tmp_path: Path
) -> None:
    """Plain containers start by the standing order: nothing ever asks."""
    sidecar.start()
    assert install(engine, tmp_path, "--default").returncode == 0
    sidecar.kill()
    sidecar.start()
    made = Docker(ground.api, ground.image, "around")

    def counts(wanted: int) -> bool:
        return starts() == {"runc": wanted}

    def starts() -> dict[str, int] | None:
        around = sidecar.status().around
        return dict(around.starts) if around else None

    def said() -> str:
        around = sidecar.status().around
        return around.text if around else ""

    try:
        assert usual(made, "plain").returncode == 0
        assert made.run("around", "sh", "-c", STAY, runtime="runc", options=("-d",)).returncode == 0
        for count in (1, 2, 3):
            eventually(partial(counts, count), "it is counted")
            assert made.call("restart", "-t0", made.full("around")).returncode == 0
        done = install(engine, tmp_path, "--remove")
        assert made.full("plain") in done.stdout
        told = "the front cpuset-default (docker) was removed, and passes everything on"
        eventually(lambda: said() == told, "that it passes is said")
        for name in ("around", "plain"):
            assert made.call("restart", "-t0", made.full(name)).returncode == 0
        sidecar.until_quiet()
        assert starts() == {}
        assert told in sidecar.command("doctor").stdout
    finally:
        made.remove_all()
    assert install(engine, tmp_path, "--remove").returncode == 0
    eventually(lambda: sidecar.status().around is None, "nothing is said of it")
