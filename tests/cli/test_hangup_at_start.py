"""SIGHUP to a daemon that is starting: it is heard once the daemon is there, and ends nothing."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

_SIGHUP_BIT = 1 << (signal.SIGHUP - 1)


def blocks_hangups(pid: int) -> bool:
    """Return whether SIGHUP waits, by the kernel's word."""
    status = Path(f"/proc/{pid}/status").read_text()
    [blocked] = [line.split()[1] for line in status.splitlines() if line.startswith("SigBlk:")]
    return bool(int(blocked, 16) & _SIGHUP_BIT)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_a_hangup_during_the_start_is_heard_after_it(tmp_path: Path) -> None:
    """The engine is there and says nothing, as while it starts itself: the daemon waits for it, and hears signals."""
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(tmp_path / "engine.sock"))
        engine.listen()
        words = ["--engine", f"unix://{tmp_path}/engine.sock", "--state-dir", str(tmp_path / "state")]
        words += ["--projections", str(tmp_path / "told"), "--hand", "off", "--policy", "none"]
        with (tmp_path / "log").open("wb") as log:
            daemon = subprocess.Popen([sys.executable, "-m", "sidecar", "run", *words], stderr=log)
        try:
            deadline = time.monotonic() + 60
            while not blocks_hangups(daemon.pid):
                assert daemon.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.002)
            daemon.send_signal(signal.SIGHUP)
            while b"configuration reloaded" not in (tmp_path / "log").read_bytes():
                assert daemon.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.02)
            assert not blocks_hangups(daemon.pid)
            daemon.send_signal(signal.SIGTERM)
            assert daemon.wait(60) == 0
        finally:
            daemon.kill()
            daemon.wait()
