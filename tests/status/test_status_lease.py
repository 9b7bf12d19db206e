"""The lease of the status document: what a stalled daemon wrote is not believed, though its process is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.commit.state_lock import hold_lock
from sidecar.status.status_lease import end_status_lease, is_vouched, renew_status_lease, why_unvouched
from state.lease import LEASE_SECONDS, NAME

NOW = 1_800_000_000.0


STALLED = "runs, but does not vouch for this: it is stopped, stalled or stuck, or cannot write it"


def test_without_a_daemon_it_is_outdated_whatever_the_lease(tmp_path: Path) -> None:
    renew_status_lease(tmp_path, NOW)
    assert not is_vouched(tmp_path, NOW)
    assert why_unvouched(tmp_path, is_ready=True) == f"no daemon is running on {tmp_path}"


def test_a_daemon_that_does_not_renew_does_not_vouch(tmp_path: Path) -> None:
    with hold_lock(str(tmp_path)):
        renew_status_lease(tmp_path, NOW)
        assert is_vouched(tmp_path, NOW + LEASE_SECONDS - 1)
        assert not is_vouched(tmp_path, NOW + LEASE_SECONDS + 1)
        renew_status_lease(tmp_path, NOW + 100)
        assert is_vouched(tmp_path, NOW + 101)
        end_status_lease(tmp_path)
        assert not is_vouched(tmp_path, NOW)
        assert STALLED in why_unvouched(tmp_path, is_ready=True)


def test_a_daemon_that_waits_for_its_engine_does_not_vouch_either(tmp_path: Path) -> None:
    """What it says of itself tells why, and excuses nothing."""
    with hold_lock(str(tmp_path)):
        renew_status_lease(tmp_path, 0)
        assert not is_vouched(tmp_path, NOW)
        assert "does not vouch for this: it waits for its engine" in why_unvouched(tmp_path, is_ready=False)


def test_a_daemon_without_a_lease_does_not_vouch(tmp_path: Path) -> None:
    """`vouched` and the exit code say the same."""
    with hold_lock(str(tmp_path)):
        assert not is_vouched(tmp_path, NOW)
        assert STALLED in why_unvouched(tmp_path, is_ready=True)


@pytest.mark.parametrize("planted", ["link", "nothing"])
def test_what_stands_in_its_place_is_replaced(tmp_path: Path, planted: str) -> None:
    if planted == "link":
        (tmp_path / NAME).symlink_to("nowhere")
    renew_status_lease(tmp_path, NOW)
    renew_status_lease(tmp_path, NOW)
    if planted == "nothing":
        assert os.lstat(tmp_path / NAME).st_mtime == NOW
    assert not (tmp_path / "nowhere").exists()


def test_an_end_without_a_directory_is_no_error(tmp_path: Path) -> None:
    end_status_lease(tmp_path / "gone")
    assert not (tmp_path / "gone").exists()
