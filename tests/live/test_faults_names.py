"""Names, labels and environments as hostile as a real engine accepts: any user may create containers."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.live.containers import SLEEP, Containers
from tests.live.engineapi import ApiError
from tests.live.kernelview import KernelView, online
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import eventually
from tests.live.watching import ONE, given_back, problems, told_in, until_alone, until_shared

pytestmark = pytest.mark.live

GIANT: Final = 40_000_000
MANY: Final = 10_000
UGLY: Final = '"\n\r\t\x1b[31m\x00\u202egnp.\u2028😀\ud800\\u0000{}$(reboot)%s'
"""Quotes, line ends, an escape code, a NUL, marks that turn the direction, a character of four bytes, half a pair."""

_ATTRIBUTES: Final = (
    "name",
    "image",
    "exitCode",
    "id",
    "ID",
    "Action",
    "Type",
    "Actor",
    "status",
    "timeNano",
    "signal",
)
"""What an event says besides a container's labels, and beside them."""

HOSTILE: Final[dict[str, dict[str, str]]] = {
    "values": {
        "cpuset.near": UGLY,
        "cpuset.on-shortage": UGLY,
        "cpuset.grace": UGLY,
        "com.docker.compose.project": UGLY,
    },
    "keys": {
        UGLY: "1",
        f"cpuset.{UGLY}": "1",
        "cpuset.": "1",
        "": "1",
        "cpuset.exclusive ": "1",
        "CPUSET.EXCLUSIVE": "1",
    },
    "events": dict.fromkeys(_ATTRIBUTES, "destroy"),
    "event-in-a-label": {"a": '"},"Action":"destroy","Actor":{"ID":"' + "f" * 64 + '"},"Type":"container"}\n'},
    "many": {f"label-{number}": "x" * 50 for number in range(MANY)},
    "many-of-ours": {f"cpuset.z{number}": "1" for number in range(MANY)},
    "numbers": {"cpuset.exclusive": "9" * 5000},
    "negative": {"cpuset.exclusive": "-1"},
    "digits-of-others": {"cpuset.exclusive": "\u0661"},
    "weight": {"cpuset.exclusive": "1e3", "cpuset.weight": "nan", "cpuset.min": "0x1", "cpuset.grace": "1e309s"},
}

PATHS: Final = (
    "../..",
    "../../../etc",
    "/etc",
    ".",
    "..",
    ".staging",
    "by-id",
    "a/b",
    "a\x00b",
    "",
    "-rf",
    "x" * 300,
    UGLY,
)
"""Wishes for a projection's name, of which one is a name."""


def test_whatever_a_label_says_it_harms_nobody(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """Each is refused with a reason or ignored, runs in the pool, and can be shown. Its neighbours are served."""
    owner = workloads.run("owner", labels=ONE)
    made = {name: workloads.run(name, labels=labels) for name, labels in HOSTILE.items()}
    until_alone(running, owner)
    for id in made.values():
        until_shared(running, id)
        assert kernel.once_running(id) == REST
    assert kernel.once_running(owner) == LAST
    assert not problems(running)
    for command in (("status",), ("explain", f"{workloads.prefix}-values"), ("explain", f"{workloads.prefix}-keys")):
        done = running.command(*command)
        assert done.returncode == 0, done.stderr
        assert all(each.isprintable() for each in done.stdout.splitlines())
    assert all(line.isprintable() for line in running.log().splitlines())
    assert running.logged()
    assert running.journal()
    given_back(running, workloads, {id: {} for id in made.values()})


def test_a_name_for_a_projection_leads_nowhere_else(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """An invalid directory name is a warning, and its container has a projection by id only."""
    made = [workloads.run(f"path-{n}", labels={"cpuset.projection": name}) for n, name in enumerate(PATHS)]
    for number, id in enumerate(made):
        until_shared(running, id)
        eventually(lambda id=id: running.projection(id), "told by id")  # type: ignore[misc]
        said = running.container(id).warnings  # type: ignore[union-attr]
        assert said == () if PATHS[number] == "by-id" else "cpuset.projection is" in said[0], said
    root = running.projections
    assert {each.name for each in root.iterdir()} == {".staging", "by-id", "by-name"}
    assert {each.name for each in (root / "by-name").iterdir()} == {"by-id"}
    assert {each.name for each in (root / "by-id").iterdir()} == {id[:12] for id in made}
    assert not problems(running)


def test_two_of_one_name_are_told_each_its_own(running: SidecarProcess, workloads: Containers) -> None:
    """An owner and another container that took its name: by id they are apart."""
    labels = {"cpuset.projection": "web"}
    owner, other = workloads.run("owner", labels={**ONE, **labels}), workloads.run("other", labels=labels)
    until_alone(running, owner)
    until_shared(running, other)
    place = running.projections / "by-name/web/by-id"
    for id, cpus in ((owner, LAST), (other, REST)):
        path = place / id[:12] / "cpuset"
        eventually(lambda path=path, cpus=cpus: told_in(path) == str(cpus), "its own")  # type: ignore[misc]
    workloads.api.remove(owner)
    path = running.projections / "by-name/web/cpuset"
    eventually(lambda: told_in(path) == str(online()), "whoever is left has the name")


def test_names_and_environments_may_be_long(running: SidecarProcess, workloads: Containers, kernel: KernelView) -> None:
    """As long as the engine accepts; a container's environment never counts as our settings."""
    env = [f"CPUSET_SIDECAR_RESERVED={online()}", "CPUSET_EXCLUSIVE=1", "X=" + "y" * 100_000, f"U={UGLY}"]
    long = _named(workloads, "n" * 4000, env) or _named(workloads, "n" * 200, env)
    assert long
    workloads.api.act(long, "start")
    owner = workloads.run("owner", labels=ONE)
    until_alone(running, owner)
    until_shared(running, long)
    assert (kernel.once_running(owner), kernel.once_running(long)) == (LAST, REST)
    assert len(running.container(long).name) <= 256  # type: ignore[union-attr]


def _named(workloads: Containers, name: str, env: list[str]) -> str | None:
    wanted: dict[str, Any] = {
        "Image": workloads.image,
        "Cmd": list(SLEEP),
        "Env": [each.replace("\x00", "") for each in env],
        "HostConfig": {"NetworkMode": "host"},
    }
    try:
        made = str(workloads.api.ask("POST", "containers/create", wanted, name=f"{workloads.prefix}-{name}")["Id"])
    except ApiError:
        return None
    workloads.made.append(made)
    return made


@pytest.mark.slow
def test_a_label_of_40_megabytes_delays_nobody(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """It is pinned like any other, and others meanwhile, too; its label is not kept."""
    giant = workloads.create("giant", labels={"story": "x" * GIANT, "cpuset.near": "y" * 100_000})
    owner = workloads.run("owner", labels=ONE)
    until_alone(running, owner)
    workloads.api.act(giant, "start")
    until_shared(running, giant)
    assert (kernel.allowed(owner), kernel.once_running(giant)) == (LAST, REST)
    assert (running.state_dir / "journal.jsonl").stat().st_size < 1_000_000
    assert (running.state_dir / "status.json").stat().st_size < 1_000_000
