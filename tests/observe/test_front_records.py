"""Which fronts are recorded on a host, and that a daemon notices when the last one is gone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
import trio
from trio.testing import MockClock

from sidecar.board import Board
from sidecar.host.install.fronts import Front, recorded_fronts
from sidecar.host.install.runtime_files import Places
from sidecar.observe.front_records import FRONTS, LOOK_SECONDS, recorded, watch_fronts
from state import codec
from tests.support.decide.stories import Story

NONE: Final = frozenset[tuple[str, str]]()


def record(root: Path, front: Front) -> Path:
    """Write the record of a front as `install-runtime` does."""
    place = Path(f"{root}{Places().front_record(front.engine, front.name)}")
    place.parent.mkdir(parents=True, exist_ok=True)
    written = place.with_suffix(".new")
    written.write_bytes(codec.encode(front))
    written.rename(place)
    return place


def present(board: Board) -> Mapping[str, int] | None:
    """Return what is counted now."""
    return board.starts.around


def test_the_records_of_fronts_that_ask_are_read(tmp_path: Path) -> None:
    """As those who wrote them do; one that is passing asks nothing, and what cannot be understood is none."""
    folder = f"{tmp_path}{FRONTS}"
    made_here = frozenset({("docker", "cpuset-default")})
    assert recorded([folder]) == (NONE, NONE)
    made = Front(engine="docker", name="cpuset-default", real="/usr/bin/runc", is_default=True)
    record(tmp_path, made)
    record(tmp_path, Front(engine="podman", name="crun", real="/usr/bin/crun", passing_since="2026-03-04T05:06:07Z"))
    assert [each.name for each in recorded_fronts(str(tmp_path), Places(), "docker")] == ["cpuset-default"]
    assert recorded([folder]) == (made_here, frozenset({("podman", "crun")}))
    Path(f"{folder}/podman/crun.json").write_text("{")
    assert recorded([folder]) == (made_here, NONE)


@pytest.mark.trio
async def test_a_front_that_is_taken_away_is_noticed_while_the_daemon_runs(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Readers of the status are woken: nothing else may change."""
    board = Board(Story().world)
    place = record(tmp_path, Front(engine="docker", name="cpuset-default", real="/usr/bin/runc"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_fronts, board, ("/nonexistent", f"{tmp_path}{FRONTS}"))
        await trio.sleep(2 * LOOK_SECONDS)
        assert present(board) == {}
        count = board.count
        place.unlink()
        await trio.sleep(2 * LOOK_SECONDS)
        assert present(board) is None
        assert board.count == count + 1
        nursery.cancel_scope.cancel()
