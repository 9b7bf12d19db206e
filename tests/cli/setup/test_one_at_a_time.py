"""Commands that change files of the host, two at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sidecar.cli.setup import one_at_a_time as lock
from sidecar.cli.setup.one_at_a_time import NAME, one_at_a_time
from sidecar.failures import SidecarError, StateUnwritable
from tests.cli.setup.test_cmd_install_runtime import PLAIN, Host, host

__all__ = ["host"]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a user's lock is elsewhere")


def test_the_lock_leaves_nothing_behind(tmp_path: Path) -> None:
    with one_at_a_time(str(tmp_path)):
        assert os.stat(tmp_path / "run" / NAME).st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "run").mkdir()
    with one_at_a_time(str(tmp_path)):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["run"]


def test_another_one_is_waited_for_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lock, "WAIT_SECONDS", 0.2)
    with (
        one_at_a_time(str(tmp_path)),
        pytest.raises(SidecarError, match="another install-runtime or install-slice has been at work"),
        one_at_a_time(str(tmp_path)),
    ):
        pass
    assert capsys.readouterr().err == "waiting for another install-runtime or install-slice to end\n"


def test_a_lock_that_was_removed_meanwhile_is_none(tmp_path: Path) -> None:
    """The one before removes the file as it ends; what was opened before that is another file."""
    (tmp_path / "run").mkdir()
    stale = os.open(tmp_path / "run" / NAME, os.O_RDWR | os.O_CREAT, 0o600)
    os.unlink(tmp_path / "run" / NAME)
    try:
        with one_at_a_time(str(tmp_path)):
            assert not os.path.samestat(os.fstat(stale), os.stat(tmp_path / "run" / NAME))
    finally:
        os.close(stale)


def test_where_no_lock_can_be_made_nothing_is_done(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(StateUnwritable, match="nothing was changed"), one_at_a_time(str(tmp_path)):
        pass


def test_an_install_beside_a_removal_is_whole_or_gone(host: Host) -> None:
    """Whichever is last: no default without its program, and no program without its record."""
    before = host.files()
    called = [sys.executable, "-m", "sidecar", "install-runtime", "--root", str(host.root), *PLAIN, "--for", "docker"]
    assert host.install("--for", "docker", "--default") == 0
    whole = host.files()
    for _ in range(5):
        both = [subprocess.Popen([*called, word], stdout=subprocess.DEVNULL) for word in ("--default", "--remove")]
        assert [each.wait(60) for each in both] == [0, 0]
        assert host.files() in (whole, before)
