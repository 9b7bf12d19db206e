"""The shared group on a real engine and kernel: newcomers start in the pool, and one write moves all members.

The engine is the tests' own, restarted with the default cgroup parent that `install-slice` wrote into its
configuration. Under the systemd driver the group is a slice, under cgroupfs a path.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sidecar.decide.settings import shared_id
from sidecar.host.cgroup.places import v2_hierarchy
from sidecar.status.document import SharingStatus
from sidecar.systemd_names import slice_path
from state.cpuset import CPUSet
from tests.live.alonejudge import judged_alone
from tests.live.containers import Containers
from tests.live.image import ensure_image
from tests.live.kernelview import allowed_of, online
from tests.live.privateengine import NoPrivateEngine, PrivateEngine
from tests.live.sidecarprocess import ROOT, SidecarProcess
from tests.live.waiting import eventually, stays

NEWCOMERS: Final = 12 if float(os.environ.get("CPUSET_TESTS_PATIENCE", "1")) > 1 else 30
"""Fewer where the machine is emulated: thirty take four minutes there (and all were born in the pool)."""

HAS_SYSTEMD: Final = Path("/run/systemd/system").is_dir()
SHARED: Final = "sidecartests-shared.slice" if HAS_SYSTEMD else "/sidecartests-shared"
APART: Final = "sidecartests-apart.slice" if HAS_SYSTEMD else "/sidecartests-apart"
GROUP: Final = Path("/sys/fs/cgroup" + (slice_path(SHARED) if HAS_SYSTEMD else SHARED))
ONE: Final = {"cpuset.exclusive": "1"}

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(v2_hierarchy("/sys/fs/cgroup", "cpuset") is None, reason="needs cgroup v2: see `make vm-test`"),
    pytest.mark.skipif(os.environ.get("CPUSET_TESTS_ENGINE") == "podman", reason="Podman has no default parent to set"),
    pytest.mark.skipif(len(online()) < 4, reason="needs four CPUs: see `make vm-test`"),
]


class Sliced(PrivateEngine):
    """An engine with a configuration that the tests write: a start does not replace it."""

    @property
    def configuration(self) -> Path:
        return self.folder / "daemon.json"

    def _configuration(self, live_restore: bool) -> Path:
        if not self.configuration.exists():
            self.configuration.write_text("{}")
        return self.configuration


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sliced]:
    """Provide an engine whose default cgroup parent is the group; containers from before are not in it."""
    try:
        made = Sliced()
        made.start()
    except NoPrivateEngine as error:
        pytest.skip(str(error))
    try:
        ensure_image(made.api)
        host = tmp_path_factory.mktemp("host")
        done = install(made, host)
        assert done.returncode == 0, done.stderr
        assert json.loads(made.configuration.read_text()) == {"cgroup-parent": SHARED}
        made.stop()
        made.start()
        yield made
    finally:
        made.close()
        if HAS_SYSTEMD:
            subprocess.run(["systemctl", "set-property", "--runtime", SHARED, "AllowedCPUs="], check=True)


@pytest.fixture
def made(engine: Sliced) -> Iterator[Containers]:
    """Yield a maker of containers, and remove them."""
    containers = Containers(engine.api, ensure_image(engine.api))
    yield containers
    containers.remove_all()


@pytest.fixture
def sidecar(
    engine: Sliced, made: Containers, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[SidecarProcess]:
    """Provide a sidecar that knows the group, and reserves CPU 0; ready."""
    process = SidecarProcess(tmp_path, engine.socket_path)
    process.configure(shared_slice=SHARED, reserved="0")
    with judged_alone(process, intrudes=request.node.get_closest_marker("intrudes") is not None):
        process.start()
        # The last test's owner is gone, and its sidecar was killed before it could give the group that CPU back.
        eventually(is_whole, "the group has all CPUs, or is not there yet")
        yield process
        process.kill()


def install(engine: Sliced, root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sidecar", "install-slice", "--root", str(root), "--shared-slice", SHARED]
    command += ["--daemon-json", str(engine.configuration), "--engine", f"unix://{engine.socket_path}", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def allowed(made: Containers, id: str) -> CPUSet:
    """Return the CPUs that its first process may run on, by the kernel."""
    pid = made.api.inspect(id)["State"]["Pid"]
    return allowed_of(Path(f"/proc/{pid}/status").read_text())


def in_force() -> CPUSet:
    """Return the CPUs of the group."""
    return CPUSet.parse((GROUP / "cpuset.cpus.effective").read_text())


def is_whole() -> bool:
    """Return whether the group has all CPUs, or is not there: systemd makes it for its first member."""
    try:
        return in_force() == online()
    except FileNotFoundError:
        return True


def owner_of_one(sidecar: SidecarProcess, made: Containers, name: str = "owner") -> str:
    """Run an exclusive container outside the group, alone."""
    owner = made.run(name, labels=ONE, CgroupParent=APART)
    sidecar.until(owner, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    return owner


def is_told(made: Containers, id: str) -> Any:
    return made.api.inspect(id)["HostConfig"]["CpusetCpus"]


def test_newcomers_are_born_in_the_pool(sidecar: SidecarProcess, made: Containers, tmp_path: Path) -> None:
    """Each of thirty, at its first instruction: none is ever on the owner's CPU, and none is written to."""
    # Under the cgroupfs driver the engine makes the group for this one: this sidecar has no right to make directories.
    made.run("first")
    owner = owner_of_one(sidecar, made)
    taken = allowed(made, owner)
    out = tmp_path / "out"
    out.mkdir()
    script = "grep Cpus_allowed_list /proc/self/status >/out/{}; exec sleep 3600"
    ids = [made.run(f"new{n}", "sh", "-c", script.format(n), Binds=[f"{out}:/out"]) for n in range(NEWCOMERS)]
    eventually(lambda: len([each for each in out.iterdir() if each.stat().st_size]) == NEWCOMERS, "all have begun")
    born = {each.name: allowed_of(each.read_text()) for each in out.iterdir()}
    assert set(born.values()) == {online() - taken}
    sidecar.until_quiet()
    assert {is_told(made, id) for id in ids} == {""}
    assert allowed(made, owner) == taken


def test_one_write_moves_everybody(sidecar: SidecarProcess, made: Containers) -> None:
    """The members leave for an owner and come back, without any call to the engine."""
    members = [made.run(f"member{n}") for n in range(8)]
    sidecar.until_quiet()
    assert {allowed(made, id) for id in members} == {online()}
    owner = owner_of_one(sidecar, made)
    taken = allowed(made, owner)
    assert len(taken) == 1
    assert {allowed(made, id) for id in members} == {online() - taken} == {in_force()}
    assert {is_told(made, id) for id in members} == {""}
    made.api.remove(owner)
    eventually(lambda: {allowed(made, id) for id in members} == {online()}, "they are back")
    assert {is_told(made, id) for id in members} == {""}


def test_a_label_inside_the_group_is_refused_with_the_cure(sidecar: SidecarProcess, made: Containers) -> None:
    """Otherwise it would be promised CPUs that it cannot have."""
    wrong = made.run("wrong", labels=ONE)
    status = sidecar.until(wrong, lambda it: it.refusal, "refused")
    assert "create it with cgroup_parent: " in " ".join((status.refusal, *status.warnings, *status.explanation))
    eventually(lambda: allowed(made, wrong) == online(), "the group has all CPUs again")


@pytest.mark.intrudes("the group is put onto the CPU of the owner")
def test_the_kernels_word_is_put_back(sidecar: SidecarProcess, made: Containers) -> None:
    """A change of the group by another tool is drift like any other."""
    made.run("member")
    owner = owner_of_one(sidecar, made)
    right = online() - allowed(made, owner)
    if HAS_SYSTEMD:
        subprocess.run(["systemctl", "set-property", "--runtime", SHARED, f"AllowedCPUs={online()}"], check=True)
    else:
        (GROUP / "cpuset.cpus").write_text(str(online()))
    eventually(lambda: in_force() == right, "it is put back")


@pytest.mark.skipif(not HAS_SYSTEMD, reason="needs systemd: see `make vm-test`")
def test_a_reload_of_systemd_moves_nobody(sidecar: SidecarProcess, made: Containers) -> None:
    """The group's CPUs and the owner's are properties of units: members, owner and newcomers stay where they are."""
    member = made.run("member")
    owner = owner_of_one(sidecar, made)
    taken = allowed(made, owner)
    sidecar.terminate()
    for _ in range(3):
        subprocess.run(["systemctl", "daemon-reload"], check=True, timeout=300)
        assert (allowed(made, owner), allowed(made, member), in_force()) == (taken, online() - taken, online() - taken)
    late = made.run("late")
    assert allowed(made, late) == online() - taken


def test_a_container_of_before_joins_at_its_next_start(engine: Sliced, made: Containers, tmp_path: Path) -> None:
    """The engine applies its default parent at every start, also to containers that were created before."""
    engine.stop()
    engine.configuration.write_text("{}")
    engine.start()
    old, idle = made.run("old"), made.create("idle")
    assert SHARED not in cgroup(made, old)
    engine.stop()
    engine.configuration.write_text(json.dumps({"cgroup-parent": SHARED}))
    engine.start()
    for id in (old, idle):
        made.api.act(id, "start")
        assert SHARED in cgroup(made, id)


def cgroup(made: Containers, id: str) -> str:
    return Path(f"/proc/{made.api.inspect(id)['State']['Pid']}/cgroup").read_text()


def test_a_release_gives_the_group_all_cpus(sidecar: SidecarProcess, made: Containers) -> None:
    """Members and later ones run everywhere again."""
    member = made.run("member")
    owner_of_one(sidecar, made)
    assert sidecar.terminate() == 0
    done = sidecar.command("release")
    assert done.returncode == 0, done.stderr
    assert in_force() == online() == allowed(made, member)


def test_a_sidecar_that_was_killed_finds_the_group_as_it_left_it(sidecar: SidecarProcess, made: Containers) -> None:
    """And it goes on: the next owner's CPUs are taken from the group, too."""
    made.run("member")
    first = owner_of_one(sidecar, made)
    sidecar.kill()
    stays(lambda: in_force() == online() - allowed(made, first), "nobody moves", seconds=0.5)
    sidecar.start()
    second = owner_of_one(sidecar, made, "second")
    assert in_force() == online() - allowed(made, first) - allowed(made, second)
    group = sidecar.container(shared_id(SHARED))
    assert group is not None
    assert group.name == SHARED


def test_doctor_says_that_the_group_confines_the_pool(sidecar: SidecarProcess, made: Containers) -> None:
    """And it reports no cgroup above containers as an obstacle."""
    made.run("member")
    owner_of_one(sidecar, made)
    findings = json.loads(sidecar.command("doctor", "--json").stdout)
    about = {each["question"]: each for each in findings}
    assert "cgroup parents" not in about
    assert SHARED in about["shared group"]["says"]


def test_a_parent_that_is_too_narrow_is_named(engine: Sliced, made: Containers, tmp_path: Path) -> None:
    """An update is accepted without effect: the reason names the cgroup, and doctor reports it beforehand."""
    name = "sidecartests-narrow.slice" if HAS_SYSTEMD else "/sidecartests-narrow"
    path = slice_path(name) if HAS_SYSTEMD else name
    first = CPUSet.of(min(online()))
    made.run("narrow", CgroupParent=name, CpusetCpus=str(min(online())))
    if HAS_SYSTEMD:
        subprocess.run(["systemctl", "set-property", "--runtime", name, f"AllowedCPUs={first}"], check=True)
    else:
        Path(f"/sys/fs/cgroup{path}/cpuset.cpus").write_text(str(first))
    process = SidecarProcess(tmp_path, engine.socket_path)
    process.configure(shared_slice=SHARED, reserved="0")
    findings = json.loads(process.command("doctor", "--json").stdout)
    assert [each["says"] for each in findings if each["question"] == "cgroup parents" and path in each["says"]]


def test_install_and_remove_are_inverse(engine: Sliced, tmp_path: Path) -> None:
    """Units and key come and go; a second time changes nothing."""
    before = engine.configuration.read_text()
    again = install(engine, tmp_path, "--json")
    units = [f"{tmp_path}/etc/systemd/system/{name}" for name in (SHARED,)] if HAS_SYSTEMD else []
    assert all(Path(unit).read_text().startswith("# Written by") for unit in units)
    assert engine.configuration.read_text() == before
    assert json.loads(install(engine, tmp_path, "--json").stdout)["written"] == []
    assert again.returncode == 0
    try:
        assert install(engine, tmp_path, "--remove").returncode == 0
        assert not any(Path(unit).exists() for unit in units)
        assert engine.configuration.read_text() == "{}", "as before the first installation"
    finally:
        engine.configuration.write_text(before)
