"""Why a daemon does not vouch for a projection, as far as it can be seen: on a host its state directory tells more."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sidecar.config.config import Config
from sidecar.config.running_settings import read_settings
from sidecar.status.status_file import is_daemon_running, read_status
from sidecar.workload.gates import UNVOUCHED
from state.errors import StateError

WAITS: Final = "the daemon waits for its engine, and vouches for this when it has looked at all containers again"
STALLED: Final = "the daemon runs, but is stalled or stuck, and does not vouch for this"


def why_unvouched(config: Config, directory: str) -> str:
    """Return why the daemon of this configuration does not vouch for a directory, as a clause. If the directory is not
    known to be that daemon's, or it cannot be seen, return everything that may be so.
    """
    state_dir = config.state_dir
    is_its_own = Path(directory).resolve().is_relative_to(Path(config.projections).resolve())
    try:
        is_running = is_daemon_running(state_dir) if is_its_own and read_settings(state_dir) else None
        if is_running is None:
            return UNVOUCHED
        if not is_running:
            return f"no daemon is running on {state_dir}, so none vouches for this"
        return STALLED if read_status(state_dir).is_ready else WAITS
    except StateError:
        return UNVOUCHED
