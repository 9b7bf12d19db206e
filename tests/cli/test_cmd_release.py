"""`release` of everything says what it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar import daemon
from sidecar.__main__ import main
from sidecar.cli import cmd_release


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("fronts", [{}, {"cpuset": True, "cpuset-default (docker)": True}])
def test_fronts_that_stay_are_named_with_what_they_mean(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: int,
    fronts: dict[str, bool],
) -> None:
    """Without a sidecar they start nothing that asks for CPUs."""
    monkeypatch.setattr(cmd_release, "was_used", lambda _: True)
    monkeypatch.setattr(cmd_release, "fronts_here", lambda: fronts)
    monkeypatch.setattr(daemon, "release", lambda _: code)
    assert main(["release", "--state-dir", str(tmp_path)]) == code
    told = capsys.readouterr().out
    assert ("still installed before runtimes: cpuset, cpuset-default (docker)" in told) == bool(fronts)
    assert ("install-runtime --remove" in told) == bool(fronts)
