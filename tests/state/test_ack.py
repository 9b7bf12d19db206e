"""The file by which a workload acknowledges."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from state import ack
from state.errors import ProjectionError, ProjectionMissing
from tests.support.own_mounts import with_own_mounts


def test_it_is_a_number_and_a_newline(tmp_path: Path) -> None:
    """As a shell's echo would write it."""
    ack.write(tmp_path, 7)
    assert (tmp_path / "ack").read_bytes() == b"7\n"


def test_a_shorter_one_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    """And no other file is left, which would prevent the removal of the directory."""
    ack.write(tmp_path, 123456)
    ack.write(tmp_path, 7)
    assert (tmp_path / "ack").read_bytes() == b"7\n"
    assert os.listdir(tmp_path) == ["ack"]


def test_no_directory_is_a_projection_that_is_missing(tmp_path: Path) -> None:
    """Nothing is made."""
    with pytest.raises(ProjectionMissing):
        ack.write(tmp_path / "none", 1)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("planted", ["link", "pipe", "directory"])
def test_nothing_is_written_through_what_stands_there(planted: str, tmp_path: Path) -> None:
    """Nor does it block."""
    target = tmp_path / "target"
    target.write_text("untouched")
    own = tmp_path / "own"
    own.mkdir()
    match planted:
        case "link":
            (own / "ack").symlink_to(target)
        case "pipe":
            os.mkfifo(own / "ack")
        case _:
            (own / "ack").mkdir()
    with pytest.raises(ProjectionError, match=r"cannot write .*/ack"):
        ack.write(own, 1)
    assert target.read_text() == "untouched"


def test_a_negative_number_is_none(tmp_path: Path) -> None:
    """Generations begin with 1."""
    with pytest.raises(ProjectionError):
        ack.write(tmp_path, -1)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount")
def test_a_read_only_mount_is_told_with_the_cure(tmp_path: Path) -> None:
    """In a mount namespace of its own."""
    program = f"from state import ack; ack.write({str(tmp_path)!r}, 1)"
    mount = f'mount --bind "{tmp_path}" "{tmp_path}" && mount -o remount,bind,ro "{tmp_path}"'
    done = with_own_mounts(mount, "-c", program)
    assert "it is mounted read-only; mount the container's own directory (by-name/<name>) without `:ro`" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to step down from it")
def test_without_permission_the_error_says_so_and_a_file_of_ones_own_will_do(tmp_path: Path) -> None:
    """The directory itself need not belong to the workload."""
    above = tmp_path / "own"
    above.mkdir(mode=0o755)
    program = (
        "import os\nfrom state import ack\nfrom state.errors import ProjectionError\n"
        f"at = os.open({str(above)!r}, os.O_RDONLY); os.fchdir(at); os.setuid(65534)\n"
        "try: ack.write('.', 3)\nexcept ProjectionError as error: print(error)\n"
    )
    words = [sys.executable, "-c", program]
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert "permission denied; give the file itself, not the directory, to the workload's user" in done.stdout
    (above / "ack").touch()
    os.chown(above / "ack", 65534, 65534)
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == ""
    assert (above / "ack").read_text() == "3\n"
