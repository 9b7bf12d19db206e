"""Hooks and events of a real daemon, with the rights that the shipped files give it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.live.containers import SLEEP, Containers
from tests.live.sidecarprocess import LAST, SidecarProcess
from tests.live.waiting import eventually

pytestmark = pytest.mark.live

HOSTILE = "$(touch pwned);`id`"


def told(path: Path) -> list[Any]:
    """Return all events that a command was told."""
    if not path.exists():
        return []
    return [event for line in path.read_text().splitlines() for event in json.loads(line)["events"]]


def test_a_command_is_told_of_a_grant_and_one_that_hangs_holds_up_nothing(
    sidecar: SidecarProcess, workloads: Containers, tmp_path: Path
) -> None:
    """What a tenant wrote is text on stdin. The other command is killed at its limit, and that is a problem."""
    heard, script = tmp_path / "heard", tmp_path / "tell"
    script.write_text(f"#!/bin/sh\ncat >>{heard}\necho >>{heard}\n")
    script.chmod(0o755)
    hooks = [
        {"name": "tell", "command": [str(script), HOSTILE], "on": ["granted", "refused"]},
        {"name": "hang", "command": ["/bin/sleep", "600"], "timeout": "500ms"},
    ]
    sidecar.configure(hook=hooks)
    sidecar.start()
    rt = workloads.create("rt", *SLEEP, labels={"cpuset.exclusive": "1"})
    workloads.api.act(rt, "start")
    sidecar.until(rt, lambda it: it.is_settled and it.cpus == LAST, "it has its CPU, whatever hooks do")
    odd = workloads.create("odd", *SLEEP, labels={"cpuset.exclusive": HOSTILE})
    workloads.api.act(odd, "start")
    eventually(lambda: {event["message"] for event in told(heard)} == {"granted", "refused"}, "both were told")
    [refused] = [event for event in told(heard) if event["message"] == "refused"]
    assert HOSTILE in refused["reason"]
    assert not list(tmp_path.rglob("pwned"))
    eventually(
        lambda: "the hook hang failed: it was killed after 0.5 s" in sidecar.command("status", "--problems").stdout,
        "the one that hangs is a problem",
    )
    assert sidecar.command("events").stdout.count("was granted CPU") == 1


def test_events_tell_what_happened_before_a_kill(running: SidecarProcess, workloads: Containers) -> None:
    """In words, from the file that the killed daemon left; the next one continues it."""
    rt = workloads.create("rt", *SLEEP, labels={"cpuset.exclusive": "1"})
    workloads.api.act(rt, "start")
    running.until(rt, lambda it: it.is_settled and it.cpus == LAST, "it has its CPU")
    eventually(lambda: "was granted" in running.command("events").stdout, "the grant is recorded")
    running.kill()
    last = running.command("events")
    assert last.returncode == 1
    assert "no daemon is running" in last.stderr
    assert last.stdout.count("the daemon began") == 1
    running.start()
    eventually(lambda: running.command("events").stdout.count("the daemon began") == 2, "the next one continues it")
    assert f"was granted CPU {LAST}" in running.command("events").stdout
