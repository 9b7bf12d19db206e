"""On a real engine: doctor reports what it finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sidecar.__main__ import main
from sidecar.cli.doctor.inotify_checks import listening
from sidecar.config.config import Config
from sidecar.hand.inotify_limits import inotify_use
from tests.live.containers import Containers
from tests.live.sidecarprocess import SHIPPED, SidecarProcess
from tests.live.waiting import eventually

pytestmark = pytest.mark.live


def test_doctor_sees_the_engine_and_a_container_pinned_by_hand(
    containers: Containers, engine_address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine answers, and a container with a cpuset of its own is named."""
    containers.run("pinned", CpusetCpus="0")
    arguments = ["--engine", f"unix://{engine_address}", "--state-dir", str(tmp_path), "--projections", f"{tmp_path}/p"]
    main(["doctor", "--json", "--tenants-may", "pin", *arguments])
    found = {each["question"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["engine"]["verdict"] == "ok"
    assert found["pinned by hand"]["verdict"] == "warn"
    assert "pinned" in found["pinned by hand"]["says"]


@pytest.mark.parametrize("hand", ["auto", "off"])
def test_the_daemon_opens_the_inotify_instances_that_doctor_counts(
    hand: str, sidecar: SidecarProcess, tmp_path: Path
) -> None:
    """No more and no fewer, with a hand and without."""
    sidecar.configure(hand=hand)
    sidecar.start()
    told = eventually(lambda: sidecar.status().hand, "it is known whether there is a hand")
    has_hand = not told.text.startswith("the engine alone changes CPUs")
    counted = len(listening(Config(), has_hand=has_hand).losses)
    alone = tmp_path / "proc"
    alone.mkdir()
    (alone / str(sidecar.pid)).symlink_to(f"/proc/{sidecar.pid}")
    eventually(lambda: inotify_use(alone).instances >= counted, "it listens")
    assert inotify_use(alone).instances == counted


@pytest.mark.skipif(not SHIPPED, reason="needs root and setpriv, to take rights from the daemon")
@pytest.mark.parametrize("rights", ["-all", "-all,+sys_nice,+dac_override"], ids=["none", "both"])
def test_doctor_speaks_of_the_daemon_and_not_of_itself(rights: str, sidecar: SidecarProcess) -> None:
    """It has all rights itself."""
    sidecar.wrapper = ("setpriv", "--bounding-set", rights, "--inh-caps", "-all", "--no-new-privs")
    sidecar.start()
    eventually(lambda: sidecar.status().hand, "it is known whether there is a hand")
    sidecar.wrapper = ()
    found = {each["question"]: each for each in json.loads(sidecar.command("doctor", "--json").stdout)}
    has_rights = rights != "-all"
    urgency = found["urgency"]
    assert f"process {sidecar.pid})" in urgency["says"]
    assert (urgency["verdict"] == "ok") == has_rights
    assert ("modes" in found) != has_rights
    assert found["births"]["verdict"] == "ok"
