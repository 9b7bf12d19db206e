"""What the kernel tells of CPUs reaches the ears at once, and nothing else does. This machine's own kernel is asked, by
one test at a time: all ears hear the same.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from sidecar.host.cgroup.host_kernel import HostKernel
from sidecar.host.machine.uevents import CpuUevents, hear_cpus

pytestmark = pytest.mark.xdist_group("uevents")

WAIT_MS: Final = 2000
SILENCE_MS: Final = 100

_ANY_CPU: Final = Path("/sys/devices/system/cpu/cpu0/uevent")
_ASKED: Final = "from sidecar.host.machine.uevents import hear_cpus; print(hear_cpus() is not None)"


def tell(what: str) -> None:
    """Have the kernel tell of an action once more (Documentation/ABI/testing/sysfs-uevent); no CPU changes."""
    try:
        _ANY_CPU.write_text(what)
    except OSError as error:
        pytest.skip(f"the kernel tells nothing by demand here: {error}")


@pytest.fixture
def ears() -> Iterator[CpuUevents]:
    made = hear_cpus()
    if made is None:
        pytest.skip("the kernel tells nothing here: this network namespace is not the first user namespace's")
    with closing(made):
        yield made


def is_heard(ears: CpuUevents, milliseconds: int) -> bool:
    poll = select.poll()
    poll.register(ears.fd, select.POLLIN)
    return bool(poll.poll(milliseconds))


@pytest.mark.parametrize("what", ["online", "offline"])
def test_cpus_that_come_and_go_are_heard(ears: CpuUevents, what: str) -> None:
    """Any number of them, until all is taken."""
    for _ in range(3):
        tell(what)
    assert is_heard(ears, WAIT_MS)
    ears.drain()
    assert not is_heard(ears, SILENCE_MS)


def test_what_else_the_kernel_tells_wakes_nobody(ears: CpuUevents) -> None:
    """As of interfaces that are added with each container."""
    for what in ("change", "add", "remove"):
        tell(what)
    assert not is_heard(ears, SILENCE_MS)
    tell("online")
    assert is_heard(ears, WAIT_MS)


def test_more_than_fits_is_news_once(ears: CpuUevents) -> None:
    """A full socket loses some, and says so."""
    for _ in range(2000):
        tell("online")
    assert is_heard(ears, WAIT_MS)
    ears.drain()
    assert not is_heard(ears, SILENCE_MS)


def test_what_is_closed_hears_nothing(ears: CpuUevents) -> None:
    """And reading from it is an error, not a loop."""
    ears.close()
    ears.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        ears.drain()


def test_another_user_namespaces_network_hears_nothing_and_knows_it() -> None:
    """As a sidecar below a rootless engine has: it looks each second instead."""
    there = subprocess.run(["unshare", "--user", "--map-root-user", "--net", "true"], check=False, capture_output=True)
    if there.returncode:
        pytest.skip(f"no user namespaces here: {there.stderr.decode(errors='replace').strip()}")
    asked = [sys.executable, "-c", _ASKED]
    within = ["unshare", "--user", "--map-root-user", "--net", *asked]
    assert subprocess.run(within, check=True, capture_output=True, text=True).stdout == "False\n"
    if os.geteuid() == 0 and hear_there():
        own = ["unshare", "--net", *asked]
        assert subprocess.run(own, check=True, capture_output=True, text=True).stdout == "True\n"


def hear_there() -> bool:
    """Return whether this process itself is told."""
    found = hear_cpus()
    if found is None:
        return False
    found.close()
    return True


def test_a_machine_of_files_has_no_ears(tmp_path: Path) -> None:
    """What this machine's kernel tells is not of that one."""
    assert HostKernel(sys=tmp_path).cpu_ears() is None
