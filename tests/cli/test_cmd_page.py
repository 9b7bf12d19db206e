"""`page`: what it prints, and that it serves what the daemon answers until it is interrupted."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import trio

from sidecar.__main__ import main
from sidecar.cli.cmd_page import _forwarding, told
from tests.api.apirig import Elastic, Rig

LINK = "http://127.0.0.1:8090/token/"


def test_without_a_daemon_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And serves nothing."""
    assert main(["page", "--state-dir", str(tmp_path)]) == 1
    assert "no daemon is running on" in capsys.readouterr().err


def test_the_line_for_ssh_names_the_user_and_the_host_that_ssh_came_to() -> None:
    """Not root, to whom sudo changed."""
    lines = told(LINK, 8090, {"SUDO_USER": "ada", "SSH_CONNECTION": "192.0.2.7 51000 192.0.2.9 22"})
    assert lines[0] == LINK
    assert "  ssh -N -L 8090:127.0.0.1:8090 ada@192.0.2.9" in lines


def test_the_browser_is_sent_through_a_file_of_its_user(tmp_path: Path) -> None:
    """The token is in no argument of a process, which every user of the host can read."""
    made = _forwarding(tmp_path, LINK)
    assert LINK in made.read_text()


@pytest.mark.trio
async def test_it_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    """The printed link works, another one does not, and Ctrl-C ends it cleanly."""
    rig = Rig(tmp_path, Elastic())
    async with rig.serving():
        await trio.to_thread.run_sync(_look, str(tmp_path))
    await rig.close()


def _look(state_dir: str) -> None:
    command = [sys.executable, "-m", "sidecar", "page", "--state-dir", state_dir]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        link = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{22}/", link), process.stderr.read()
        assert b"<title>" in _content(link)
        assert b'"changes"' in _content(f"{link}v1/history")
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            _content(link.replace(link[-5:-1], "wrong"))
        refused.value.close()
        process.send_signal(signal.SIGINT)
        assert (process.wait(20), process.stderr.read()) == (0, "")


def _content(link: str) -> bytes:
    with urllib.request.urlopen(link, timeout=20) as answer:
        found: bytes = answer.read()
        return found
