"""Why no daemon vouches for a projection: what is so, as far as it can be seen from here."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.commit.state_lock import hold_lock
from sidecar.config.config import Config
from sidecar.config.running_settings import write_settings
from sidecar.status.document import Status
from sidecar.status.machine_map import machine_of
from sidecar.status.status_file import write_status
from sidecar.workload.gates import UNVOUCHED
from sidecar.workload.why_unvouched import STALLED, WAITS, why_unvouched
from state.topology import uniform


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Return the configuration of the last daemon of this host."""
    state_dir = tmp_path / "state"
    state_dir.mkdir()
    made = Config(state_dir=str(state_dir), projections=str(tmp_path / "told"))
    write_settings(state_dir, made)
    return made


@pytest.mark.parametrize(("is_ready", "said"), [(False, WAITS), (True, STALLED)])
def test_a_daemon_that_waits_for_its_engine_is_not_called_stalled(config: Config, is_ready: bool, said: str) -> None:
    """It is alive, and says itself that it is not ready."""
    write_status(config.state_dir, Status(is_ready=is_ready, machine=machine_of(uniform(cores=2))))
    with hold_lock(config.state_dir):
        assert why_unvouched(config, f"{config.projections}/by-id/{'a' * 12}") == said


def test_a_daemon_that_has_ended_is_said_to_have_ended(config: Config) -> None:
    said = f"no daemon is running on {config.state_dir}, so none vouches for this"
    assert why_unvouched(config, f"{config.projections}/by-name/voice") == said


def test_what_cannot_be_seen_is_not_asserted(config: Config, tmp_path: Path) -> None:
    """Beside a workload there is no state directory, and a directory elsewhere may be another daemon's."""
    assert why_unvouched(config, str(tmp_path / "cpus")) == UNVOUCHED
    elsewhere = Config(state_dir=str(tmp_path / "nowhere"), projections=config.projections)
    assert why_unvouched(elsewhere, f"{config.projections}/by-name/voice") == UNVOUCHED
