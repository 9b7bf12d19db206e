"""The units of the pages on a machine that is the tests' own: `docker.service`, its restart, and a boot's transaction.

They are installed as they stand on the page, but for the path of the program.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sidecar.status.document import ContainerStatus
from sidecar.status.status_file import read_status
from state.cpuset import CPUSet
from state.errors import StateError
from tests.docs.units import UNIT, by_events, strict
from tests.live.containers import Containers
from tests.live.engineapi import api_at
from tests.live.image import ensure_image
from tests.live.kernelview import KernelView, online
from tests.live.sidecarprocess import ROOT
from tests.live.test_systemd import systemctl
from tests.live.waiting import eventually

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        os.environ.get("CPUSET_TESTS_UNITS") != "1", reason="needs a machine of its own: `make vm-test`"
    ),
]

ALWAYS = {"RestartPolicy": {"Name": "always"}}
BOTH = ("docker.service", UNIT)
FILES = {
    f"/etc/systemd/system/{UNIT}.d/program.conf": (
        f"[Service]\nEnvironment=PYTHONPATH={ROOT}\nExecStart=\nExecStart={sys.executable} -m sidecar run\n"
    ),
    "/etc/cpuset-sidecar.toml": 'policy = "static"\nreserved = "0"\n',
}
RESERVED = CPUSet.of(0)
STATE = Path("/var/lib/cpuset-sidecar")


@pytest.fixture(params=[by_events, strict])
def units(request: pytest.FixtureRequest) -> Iterator[None]:
    """Install the unit in either order, and start both in one transaction, as a boot does."""
    unit: Callable[[], str] = request.param
    files = {f"/etc/systemd/system/{UNIT}": unit(), **FILES}
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    systemctl("daemon-reload")
    systemctl("start", *BOTH)
    yield
    systemctl("stop", UNIT)
    for name in files:
        Path(name).unlink()
    systemctl("daemon-reload")


@pytest.fixture
def ten(units: None) -> Iterator[tuple[str, ...]]:
    """Run two owners of a CPU and eight others, restarted always; return their ids, the owners' first."""
    eventually(Path("/run/docker.sock").exists, "the engine listens")
    api = api_at("/run/docker.sock")
    made = Containers(api, ensure_image(api))
    owners = [made.run(f"owner{number}", labels={"cpuset.exclusive": "1"}, **ALWAYS) for number in range(2)]
    ids = (*owners, *(made.run(f"pool{number}", **ALWAYS) for number in range(8)))
    yield ids
    systemctl("start", *BOTH)
    made.remove_all()


def told(ids: tuple[str, ...]) -> list[ContainerStatus]:
    """Return what the daemon says of those that it knows, in this order."""
    with suppress(StateError):
        known = {each.id: each for each in read_status(STATE).containers}
        return [known[id] for id in ids if id in known]
    return []


def at_rest(ids: tuple[str, ...]) -> list[CPUSet]:
    """Wait until both owners are alone, by the kernel and told so, and all others in the pool; return their CPUs."""
    kernel = KernelView()

    def look() -> list[CPUSet]:
        said = told(ids)
        seen = [kernel.allowed(id) for id in ids]
        owned = seen[0] | seen[1]
        is_right = (
            len(said) == len(ids)
            and all(each.is_alone for each in said[:2])
            and [len(each) for each in seen[:2]] == [1, 1]
            and len(owned) == 2
            and all(each == online() - owned for each in seen[2:])
        )
        return seen if is_right else []

    try:
        return eventually(look, "the owners are alone, and all others in the pool", seconds=30.0)
    except AssertionError as error:
        api = api_at("/run/docker.sock")
        states = {id[:12]: api.inspect(id)["State"] for id in ids}
        ended = {id: (each["Status"], each["Error"]) for id, each in states.items() if not each["Running"]}
        raise AssertionError(f"{error}\nnot running: {ended}\nstatus: {told(ids)}") from None


def test_ten_containers_outlast_a_reload_a_restart_and_a_boot(ten: tuple[str, ...]) -> None:
    """Their CPUs are the same after each, and nobody has a CPU of an owner."""
    first = at_rest(ten)
    systemctl("daemon-reload")
    assert at_rest(ten) == first
    systemctl("restart", "docker")
    assert at_rest(ten) == first
    systemctl("stop", "docker.socket", *BOTH)
    assert subprocess.run(["systemctl", "is-active", "-q", *BOTH], check=False).returncode != 0
    for left in Path("/run/cpuset-sidecar").glob("*/*/*"):
        left.unlink(missing_ok=True)
    systemctl("start", *BOTH)
    assert at_rest(ten) == first
    systemctl("daemon-reload")
    systemctl("restart", UNIT)
    assert at_rest(ten) == first
