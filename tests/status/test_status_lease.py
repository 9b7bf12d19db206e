"""The lease of the status document: what a stalled daemon wrote is not believed, though its process is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.commit.state_lock import hold_lock
from sidecar.status.status_lease import end_status_lease, renew_status_lease, why_outdated
from state.lease import LEASE_SECONDS, NAME

NOW = 1_800_000_000.0


def test_without_a_daemon_it_is_outdated_whatever_the_lease(tmp_path: Path) -> None:
    renew_status_lease(tmp_path, NOW)
    assert why_outdated(tmp_path, NOW, is_ready=True) == f"no daemon is running on {tmp_path}"


def test_a_daemon_that_does_not_renew_does_not_vouch(tmp_path: Path) -> None:
    with hold_lock(str(tmp_path)):
        renew_status_lease(tmp_path, NOW)
        assert why_outdated(tmp_path, NOW + LEASE_SECONDS - 1, is_ready=True) == ""
        assert "does not vouch for this" in why_outdated(tmp_path, NOW + LEASE_SECONDS + 1, is_ready=True)
        renew_status_lease(tmp_path, NOW + 100)
        assert why_outdated(tmp_path, NOW + 101, is_ready=True) == ""
        end_status_lease(tmp_path)
        assert "does not vouch for this" in why_outdated(tmp_path, NOW, is_ready=True)


def test_a_document_that_says_itself_that_the_engine_is_away_is_not_outdated(tmp_path: Path) -> None:
    with hold_lock(str(tmp_path)):
        renew_status_lease(tmp_path, 0)
        assert why_outdated(tmp_path, NOW, is_ready=False) == ""


def test_a_daemon_without_leases_is_believed(tmp_path: Path) -> None:
    """An earlier version keeps none."""
    with hold_lock(str(tmp_path)):
        assert why_outdated(tmp_path, NOW, is_ready=True) == ""


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
