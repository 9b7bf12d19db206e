"""What is printed of a status document says whether a daemon vouches for it, and claims nothing without."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.commit.state_lock import hold_lock
from sidecar.status.describe import status_of
from sidecar.status.document import HandStatus
from sidecar.status.last_state import reading_of, replace
from sidecar.status.status_file import NAME, write_status
from sidecar.status.status_lease import end_status_lease, renew_status_lease
from sidecar.status.status_reader import StatusFollower, read_last_status
from state.errors import StateError
from state.lease import LEASE_SECONDS
from tests.support.decide.stories import Story

NOW = 1_800_000_000.0


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    """A state directory whose document has one container, settled and alone."""
    story = Story()
    story.arrive("voice", 1)
    story.settle()
    write_status(tmp_path, status_of(story.world))
    return tmp_path


@pytest.mark.parametrize(("age", "vouched"), [(0.0, True), (LEASE_SECONDS - 1, True), (LEASE_SECONDS + 1, False)])
def test_claims_end_with_the_lease(state_dir: Path, age: float, vouched: bool) -> None:
    with hold_lock(str(state_dir)):
        renew_status_lease(state_dir, NOW - age)
        reading = read_last_status(state_dir, NOW).reading
    (voice,) = reading.containers
    assert (reading.vouched, reading.is_ready, voice.is_settled, voice.is_alone) == (vouched,) * 4


def test_what_only_a_working_daemon_does_is_told_as_what_was(state_dir: Path) -> None:
    """And the words of the engine stay as they are."""
    refused = "container is not running"
    status = read_last_status(state_dir, NOW).status
    failed = replace(status.containers[0], trouble=refused, explanation=(f"It runs. The last order failed: {refused}",))
    hand = HandStatus(is_answering=True, text="the sidecar answers births")
    reading = reading_of(replace(status, containers=(failed,), hand=hand), vouched=False, outdated=True)
    assert reading.hand == HandStatus(is_answering=False, text="the sidecar answered births")
    assert reading.containers[0].trouble == refused
    assert reading.containers[0].explanation[1] == f"It ran. The last order failed: {refused}"


def test_a_daemon_that_is_gone_vouches_for_nothing(state_dir: Path) -> None:
    """Even within the time that its last renewal counts."""
    renew_status_lease(state_dir, NOW)
    assert not read_last_status(state_dir, NOW).reading.vouched
    end_status_lease(state_dir)
    assert not read_last_status(state_dir, NOW).reading.is_ready


def test_a_document_that_is_read_again_is_decoded_when_it_has_changed(state_dir: Path) -> None:
    """What its lease says is looked at each time."""
    follower = StatusFollower(state_dir)
    with hold_lock(str(state_dir)):
        renew_status_lease(state_dir, NOW)
        first = follower.read(NOW)
        again = follower.read(NOW + LEASE_SECONDS + 1)
    assert again.status is first.status
    assert (first.vouched, again.vouched) == (True, False)
    write_status(state_dir, replace(first.status, policy="none"))
    assert follower.read(NOW).status.policy == "none"
    (state_dir / NAME).unlink()
    with pytest.raises(StateError):
        follower.read(NOW)
