"""What is left of the kernel's watches, before they run out."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from sidecar.hand.inotify_limits import InotifyUse, inotify_use
from sidecar.hand.libc_calls import IN_CREATE, Queue


def test_the_watches_of_this_process_are_counted(tmp_path: Path) -> None:
    before = inotify_use()
    assert before.max_watches > 0
    assert before.max_instances > 0
    # Other processes of this user come and go, so the count is of a tree with this one alone.
    alone = tmp_path / "proc"
    alone.mkdir()
    (alone / str(os.getpid())).symlink_to(f"/proc/{os.getpid()}")
    with closing(Queue()) as queue:
        had = inotify_use(alone)
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            queue.watch(bytes(tmp_path / name), IN_CREATE)
        has = inotify_use(alone)
    assert (has.watches - had.watches, has.instances - had.instances) == (2, 0)
    assert inotify_use(alone).instances == had.instances - 1


def test_it_is_said_before_they_run_out() -> None:
    roomy, tight = InotifyUse(1000, 128, 100, 3), InotifyUse(1000, 128, 900, 120)
    assert (roomy.watches_run_out, roomy.instances_run_out) == (False, False)
    assert (tight.watches_run_out, tight.instances_run_out) == (True, True)
    assert roomy.has_room_for(800)
    assert not tight.has_room_for(100)


def test_a_kernel_without_inotify_has_none(tmp_path: Path) -> None:
    assert inotify_use(tmp_path) == InotifyUse(0, 0, 0, 0)
