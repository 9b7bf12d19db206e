"""What commands say of a daemon that runs, and does not vouch for its status: its last word, with exit code 1."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from sidecar.__main__ import main
from sidecar.cli import cmd_explain
from sidecar.commit.state_lock import hold_lock
from sidecar.decide.contacts import Away
from sidecar.status.status_file import decode_status
from sidecar.status.status_lease import renew_status_lease
from state.lease import LEASE_SECONDS
from tests.cli.test_commands import BUSY, leave
from tests.support.decide.contacts import with_readiness


def test_a_stalled_daemon_is_not_believed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is there, and vouches for nothing: exit code 1, and nothing is alone."""
    monkeypatch.setenv("CPUSET_SIDECAR_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(cmd_explain, "read_topology", lambda: BUSY.topology)
    leave(tmp_path, BUSY)
    with hold_lock(str(tmp_path)):
        renew_status_lease(tmp_path, 0)
        for words in (["status"], ["top", "--once"]):
            assert main(words) == 1
            shown = capsys.readouterr()
            assert "THE DAEMON IS STOPPED, STALLED OR STUCK, OR CANNOT WRITE ITS STATUS: it does not vouch" in shown.out
            assert "was settled, alone" in shown.out
            assert "the daemon is running" not in shown.out
            assert "does not vouch for this" in shown.err
        assert main(["explain", "web"]) == 1
        told = capsys.readouterr().out
        assert "The daemon is stopped, stalled or stuck, or cannot write its status." in told
        assert "It ran on exactly these, and no other container of the engine did." in told
        assert main(["explain", "new"]) == 1
        assert "there is no container 'new'" in (said := capsys.readouterr().err)
        assert f"but the daemon on {tmp_path} runs, but does not vouch for this" in said
        assert main(["status", "--problems"]) == 1
        assert f"problem: the daemon on {tmp_path} runs, but" in capsys.readouterr().out
        assert main(["explain", "web", "--json"]) == 1
        assert "It ran on exactly these" in capsys.readouterr().out
        assert main(["status", "--json"]) == 1
        last = decode_status(capsys.readouterr().out.encode())
        assert not any(each.is_settled or each.is_alone for each in last.containers)
        renew_status_lease(tmp_path, time.time())
        assert main(["status"]) == 0


def test_a_daemon_that_waits_for_its_engine_is_believed_as_long_as_its_lease_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Afterwards every command tells its last word, in the past tense, and has exit code 1."""
    monkeypatch.setenv("CPUSET_SIDECAR_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(cmd_explain, "read_topology", lambda: BUSY.topology)
    leave(tmp_path, with_readiness(BUSY, Away("the engine is gone")))
    commands = (["status"], ["top", "--once"], ["explain", "web"], ["explain", "2"], ["status", "--json"], ["events"])
    with hold_lock(str(tmp_path)):
        renew_status_lease(tmp_path, time.time())
        for words in commands:
            assert main(words) == 0
            assert json.loads(capsys.readouterr().out)["vouched"] if "--json" in words else capsys.readouterr()
        renew_status_lease(tmp_path, time.time() - LEASE_SECONDS - 1)
        said = []
        for words in commands:
            assert main(words) == 1
            shown = capsys.readouterr()
            assert "runs, but does not vouch for this: it waits for its engine" in shown.err
            said.append(shown.out)
        assert all("THE DAEMON WAITS FOR ITS ENGINE: it does not vouch for this" in each for each in said[:2])
        assert all("The daemon waits for its engine. This is what it last said" in each for each in said[2:4])
        assert "It ran on" in said[2]
        assert "It runs on" not in said[2]
        assert json.loads(said[4])["vouched"] is False
