"""Small file systems of their own below a path: one that can be filled, and one that breaks and is repaired."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.live.waiting import eventually

_FILLER: Final = "filler"
_IMAGE_BYTES: Final = 16 * 1024 * 1024


class SmallDisk:
    """A tmpfs of some size at `path`."""

    def __init__(self, path: Path, size: str) -> None:
        self.path = path
        self._size = size

    def mount(self) -> None:
        """Mount it. Skips the test where that is not allowed."""
        self.path.mkdir(parents=True, exist_ok=True)
        _run_or_skip("mount", "-t", "tmpfs", "-o", f"size={self._size},mode=700", "cpuset-test", str(self.path))

    def unmount(self) -> None:
        """Unmount it, even in use."""
        subprocess.run(["umount", "-l", str(self.path)], check=False, capture_output=True)

    def fill(self) -> None:
        """Leave no room for a byte in any new file."""
        with open(self.path / _FILLER, "ab", buffering=0) as filler, suppress(OSError):
            while True:
                filler.write(b"\\0" * 4096)

    def free(self) -> None:
        """Free the room again."""
        (self.path / _FILLER).unlink(missing_ok=True)


class BreakingDisk:
    """An ext4 in a file, mounted at `path`. Files that are open there stay open on a broken disk, too."""

    def __init__(self, path: Path, image: Path) -> None:
        self.path = path
        self._image = image

    def make(self) -> None:
        """Make and mount it. Skips the test where that is not allowed."""
        with open(self._image, "wb") as image:
            image.truncate(_IMAGE_BYTES)
        _run_or_skip("mkfs.ext4", "-q", "-F", str(self._image))
        self.path.mkdir(parents=True, exist_ok=True)
        self._mount()

    def break_down(self) -> None:
        """Mark an error in it, as on a dying disk: the kernel makes it read-only, with all open files."""
        device = subprocess.run(
            ["findmnt", "-no", "SOURCE", str(self.path)], check=True, capture_output=True, text=True
        ).stdout.strip()
        (Path("/sys/fs/ext4") / Path(device).name / "trigger_fs_error").write_text("1")

    def repair(self) -> None:
        """Mount a copy of it that was checked, in its place: it must not be in use for longer than an instant.

        The broken file system itself stays read-only for as long as any mount namespace has it, and a container that
        starts meanwhile has a copy of all mounts. Its image mounted again would be that same file system.
        """
        eventually(self._is_unmounted, "it is not in use", seconds=5)
        broken, self._image = self._image, self._image.with_name(self._image.name + "-repaired")
        shutil.copyfile(broken, self._image)
        subprocess.run(["e2fsck", "-fy", str(self._image)], check=False, capture_output=True)
        self._mount()

    def unmount(self) -> None:
        """Unmount it, even in use."""
        subprocess.run(["umount", "-l", str(self.path)], check=False, capture_output=True)

    def _is_unmounted(self) -> bool:
        return subprocess.run(["umount", str(self.path)], check=False, capture_output=True).returncode == 0

    def _mount(self) -> None:
        _run_or_skip("mount", "-o", "loop,errors=remount-ro", str(self._image), str(self.path))
        self.path.chmod(0o700)


def _run_or_skip(*command: str) -> None:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip(f"the program {command[0]} is not here")
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")


@contextmanager
def small_disk(path: Path, size: str = "1m") -> Iterator[SmallDisk]:
    """Provide one for the length of the block."""
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    disk = SmallDisk(path, size)
    disk.mount()
    try:
        yield disk
    finally:
        disk.unmount()


@contextmanager
def breaking_disk(path: Path, image: Path) -> Iterator[BreakingDisk]:
    """Provide one for the length of the block."""
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    disk = BreakingDisk(path, image)
    disk.make()
    try:
        yield disk
    finally:
        disk.unmount()
