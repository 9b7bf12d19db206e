"""`events`: what is recorded, in words and as JSON; what happens, and that the daemon is gone and back."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sidecar.__main__ import main
from sidecar.cli.cmd_events import EventReader
from sidecar.status.event_file import event_file
from sidecar.status.status_file import LOCK
from sidecar.status.status_lease import renew_status_lease
from state import codec
from tests.support.schemas import misfits


def event(number: int, message: str, *, ago: float = 0.0, **fields: Any) -> bytes:
    """Return an event that happened so many seconds ago."""
    at = (datetime.now(UTC) - timedelta(seconds=ago)).isoformat(timespec="milliseconds")
    level = "warning" if message == "refused" else "info"
    return codec.encode({"id": f"r-{number}", "time": at, "level": level, "message": message, **fields})


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    """Return the directory of a daemon that was granted something an hour ago, and refused something now."""
    event_file(str(tmp_path)).append(
        [
            event(1, "granted", ago=3600, container="voice", cpus="2-3"),
            event(2, "refused", container="big", reason="no"),
        ]
    )
    return tmp_path


@pytest.fixture
def running(state_dir: Path) -> Iterator[int]:
    """Hold the lock on the directory, and vouch, as a daemon that runs."""
    opened = os.open(state_dir / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(opened, fcntl.LOCK_EX)
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(1.0):
            renew_status_lease(state_dir, time.time())

    renew_status_lease(state_dir, time.time())
    renewing = threading.Thread(target=renew)
    renewing.start()
    yield opened
    ended.set()
    renewing.join()
    os.close(opened)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], str]:
    code = main(["events", *words])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


def test_it_prints_what_happened_in_words(state_dir: Path, running: int, capsys: pytest.CaptureFixture[str]) -> None:
    """With the time of this place, oldest first."""
    code, lines, err = printed(capsys, "--state-dir", str(state_dir))
    assert (code, err) == (0, "")
    assert [line[21:] for line in lines] == ["voice was granted CPUs 2-3", "big was refused: no"]
    at = datetime.strptime(lines[1][:19], "%Y-%m-%d %H:%M:%S").astimezone()
    assert timedelta() <= datetime.now(UTC) - at < timedelta(minutes=3)


def test_json_has_the_events_themselves(state_dir: Path, running: int, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines, _ = printed(capsys, "--state-dir", str(state_dir), "--json", "--since", "10m")
    assert code == 0
    [found] = [json.loads(line) for line in lines]
    assert (found["id"], found["message"], found["container"]) == ("r-2", "refused", "big")
    assert misfits("event", lines[0]) == []


def test_without_a_daemon_it_prints_what_is_recorded_and_says_so(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Code 1: the last events may be missing. So it is where nothing was ever recorded."""
    code, lines, err = printed(capsys, "--state-dir", str(state_dir))
    assert (code, len(lines)) == (1, 2)
    assert "no daemon is running on" in err
    code, lines, err = printed(capsys, "--state-dir", str(state_dir / "nowhere"))
    assert (code, lines) == (1, [])
    assert err


def test_names_drive_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither in words nor as JSON."""
    event_file(str(tmp_path)).append([event(1, "refused", container="\x1b[2J\u202e", reason="\n\nfake line")])
    for flag in ((), ("--json",)):
        _, lines, _ = printed(capsys, "--state-dir", str(tmp_path), *flag)
        assert len(lines) == 1
        assert lines[0].isprintable()


def test_a_reader_sees_each_event_once_though_the_file_is_replaced(state_dir: Path) -> None:
    """By its id; by its time, if the last event that it saw is gone."""
    file, reader = event_file(str(state_dir)), EventReader(str(state_dir))
    assert len(reader.more()) == 2
    assert reader.more() == []
    file.replace([event(2, "refused", container="big", reason="no"), event(3, "moved", ago=-1)])
    assert [each["id"] for each in reader.more()] == ["r-3"]
    file.replace([event(4, "old", ago=30), event(5, "new", ago=-2)])
    assert [each["id"] for each in reader.more()] == ["r-5"]


def test_it_follows_and_says_that_the_daemon_is_gone_and_back(state_dir: Path, running: int) -> None:
    """Until Ctrl-C, which is a clean end."""
    command = [
        sys.executable,
        "-m",
        "sidecar",
        "events",
        "--follow",
        "--since",
        "0",
        "--json",
        "--state-dir",
        str(state_dir),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        late = threading.Timer(60, process.kill)
        late.start()

        def next_message() -> str:
            assert process.stdout
            message: str = json.loads(process.stdout.readline())["message"]
            return message

        later = event(3, "the daemon began", ago=-3600)
        event_file(str(state_dir)).append([later])
        assert next_message() == "the daemon began"
        fcntl.flock(running, fcntl.LOCK_UN)
        assert next_message() == f"no daemon is running on {state_dir}"
        fcntl.flock(running, fcntl.LOCK_EX)
        assert next_message() == "a daemon runs again, and vouches for what it tells"
        process.send_signal(signal.SIGINT)
        assert (process.wait(20), process.stderr.read()) == (0, "")
        late.cancel()
