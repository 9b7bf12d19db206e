"""Pods of a real Podman: the examples of their page, limits of a pod, what was copied, and a directory of its own."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from sidecar.status.document import ContainerStatus, SharingStatus
from state.cpuset import CPUSet
from tests.live import hostpython
from tests.live.alonejudge import judged_alone
from tests.live.image import ensure_image
from tests.live.kernelview import KernelView, allowed_of, online
from tests.live.privateengine import opened
from tests.live.privatepodman import PrivatePodman
from tests.live.sidecarprocess import LAST, REST, ROOT, SidecarProcess
from tests.live.waiting import PATIENCE, eventually, stays

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(120 * PATIENCE)]

PAGE: Final = (ROOT / "docs/how-to/pods-and-kube-play.md").read_text()
EXAMPLES: Final = re.findall(r"```(sh|yaml) pods\n(.*?)```", PAGE, re.DOTALL)
IMAGE: Final = "localhost/voice:latest"
ASKS: Final = ("--label", "cpuset.exclusive=1")


@pytest.fixture(scope="module")
def engine() -> Iterator[PrivatePodman]:
    """Provide a Podman with the images of the page, and one of the tests' own to hold pods together."""
    if len(online()) < 2:
        pytest.skip("a machine with one CPU has none to give")
    with opened(PrivatePodman) as made:
        if isinstance(made, str):
            pytest.skip(made)
        made.run("create", "--name", "sleeper", ensure_image(made.api), "true")
        for name in ("voice", "log"):
            made.run("commit", "-q", "--change", 'CMD ["sleep", "3600"]', "sleeper", f"localhost/{name}:latest")
        made.run("rm", "sleeper")
        holds = f'[engine]\ninfra_image = "{IMAGE}"\n'
        made.configuration.write_text(made.configuration.read_text().replace("[engine]\n", holds))
        yield made


@pytest.fixture
def sidecar(engine: PrivatePodman, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SidecarProcess]:
    """Yield a daemon that is ready; no pod and no container is left at the end."""
    process = SidecarProcess(tmp_path, engine.socket_path)
    process.start()
    with judged_alone(process, intrudes=request.node.get_closest_marker("intrudes") is not None):
        yield process
        process.kill()
    engine.run("pod", "rm", "-f", "-t0", "-a")
    engine.run("rm", "-f", "-t0", "-a")


def named(sidecar: SidecarProcess, name: str) -> ContainerStatus:
    """Return the status of a container that has settled."""

    def look() -> ContainerStatus | None:
        found = [each for each in sidecar.status().containers if each.name.endswith(name)]
        return next((each for each in found if each.is_settled), None)

    return eventually(look, f"{name} is settled")


def run(engine: PrivatePodman, *words: str) -> str:
    """Run a container that sleeps; return its id."""
    return engine.run("run", "-d", *words, IMAGE).strip()


@pytest.mark.parametrize(("kind", "text"), EXAMPLES, ids=["pod create", "by name", "cpuset.for"])
def test_the_examples_of_the_page(
    kind: str, text: str, engine: PrivatePodman, sidecar: SidecarProcess, kernel: KernelView, tmp_path: Path
) -> None:
    """The one that is named has a CPU of its own; the other, and what holds the pod together, are in the pool."""
    if kind == "sh":
        for line in text.splitlines():
            words = shlex.split(line)[1:]
            engine.run(*words, *(("--network", "none") if words[:2] == ["pod", "create"] else ()))
    else:
        file = tmp_path / "phone.yaml"
        file.write_text(re.sub(r"image: (\w+)", r'image: "localhost/\1:latest"', text))
        engine.run("kube", "play", "--network", "none", str(file))
    voice, log, infra = (named(sidecar, name) for name in ("voice", "log", "-infra"))
    voice = sidecar.until(voice.id, lambda each: each.is_alone, "it is alone")
    assert (voice.sharing, voice.cpus) == (SharingStatus.EXCLUSIVE, LAST)
    assert {log.sharing, infra.sharing} == {SharingStatus.SHARED}
    assert [kernel.once_running(each.id) for each in (voice, log, infra)] == [LAST, REST, REST]


def test_a_name_that_no_container_of_the_pod_has_is_said(
    engine: PrivatePodman, sidecar: SidecarProcess, tmp_path: Path
) -> None:
    """None has CPUs of its own then, and each tells why."""
    kind, text = EXAMPLES[-1]
    assert kind == "yaml"
    file = tmp_path / "phone.yaml"
    mistyped = text.replace("cpuset.for: voice", "cpuset.for: voise")
    assert mistyped != text
    file.write_text(re.sub(r"image: (\w+)", r'image: "localhost/\1:latest"', mistyped))
    engine.run("kube", "play", "--network", "none", str(file))
    wrong = "cpuset.for is for 'voise', and no container of this pod is called so: it has phone-log, phone-voice"
    for name in ("voice", "log"):
        found = sidecar.until(named(sidecar, name).id, lambda each: each.warnings == (wrong,), "what is wrong")
        assert f"Warning: {wrong}" in found.explanation
    assert not sidecar.books().assignments


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        (("--cpuset-cpus", str(min(online()))), "its pod is confined to"),
        (("--cpus", "0.5"), "its pod has a limit of 0.5 CPUs"),
    ],
    ids=["cpuset", "cpus"],
)
def test_a_pod_with_limits_has_no_owner(
    limit: tuple[str, ...], says: str, engine: PrivatePodman, sidecar: SidecarProcess
) -> None:
    """It could never have its CPUs, or would be throttled on them: it is told so, and no CPU is kept for it."""
    engine.run("pod", "create", "--name", "narrow", "--network", "none", *limit)
    id = run(engine, "--pod", "narrow", *ASKS)
    found = sidecar.until(id, lambda each: says in each.refusal, "it is refused, with the reason")
    assert found.sharing is SharingStatus.SHARED
    assert not sidecar.books().assignments
    sidecar.until(run(engine, *ASKS), lambda each: each.is_alone, "another container has its CPU")


@pytest.mark.intrudes("what is born in the pod is on the owner's CPU until it is known")
def test_a_pod_that_is_pinned_to_an_owners_cpu_takes_it_from_nobody(
    engine: PrivatePodman, sidecar: SidecarProcess, kernel: KernelView
) -> None:
    """Without the right to pin, those in it leave that CPU, though their pod's group has no other. A release puts them
    back.
    """
    owner = run(engine, *ASKS)
    sidecar.until(owner, lambda each: each.is_alone, "alone")
    engine.run("pod", "create", "--name", "evil", "--network", "none", "--cpuset-cpus", str(LAST))
    inside = [run(engine, "--pod", "evil") for _ in range(2)]
    for id in (*inside, engine.run("pod", "inspect", "-f", "{{.InfraContainerID}}", "evil").strip()):
        eventually(partial(is_off, kernel, id), "it is off the owner's CPU")
    sidecar.until(owner, lambda each: each.is_alone, "alone again")
    late = run(engine, "--pod", "evil")
    assert kernel.once_running(late) == REST
    sidecar.until(late, lambda each: each.is_settled, "it is known")
    assert kernel.allowed(owner) == LAST
    sidecar.terminate()
    sidecar.release()
    assert [kernel.allowed(id) for id in (*inside, late)] == [LAST] * 3


@pytest.mark.skipif(not Path("/sys/fs/cgroup/cpuset").exists(), reason="systemd takes no path as a parent")
def test_a_parent_that_is_called_like_a_pods_container_is_nobodys(
    engine: PrivatePodman, sidecar: SidecarProcess
) -> None:
    """A tenant's container is in a group, elsewhere, with the name of an owner in a pod: it gets none of its CPUs."""
    engine.run("pod", "create", "--name", "phone", "--network", "none")
    owner = run(engine, "--pod", "phone", *ASKS)
    sidecar.until(owner, lambda each: each.is_alone, "it is alone")
    parent = f"/libpod_parent/side/libpod-{owner}"
    evil = engine.run("create", "--cgroup-parent", parent, IMAGE).strip()
    sidecar.until(evil, lambda each: each.warnings, "what to do")
    try:
        engine.run("start", evil)
        pid = int(engine.run("inspect", "-f", "{{.State.Pid}}", evil))
        stays(lambda: process_cpus(pid).isdisjoint(LAST), "it is off the owner's CPU", seconds=1.5 * PATIENCE)
        assert process_cpus(int(engine.run("inspect", "-f", "{{.State.Pid}}", owner))) == LAST
        sidecar.until(owner, lambda each: each.is_alone, "the owner is alone all the while")
    finally:
        engine.run("rm", "-f", "-t0", evil)
        for made in Path("/sys/fs/cgroup").glob("*/libpod_parent/side"):
            for group, *_ in os.walk(made, topdown=False):
                eventually(partial(removed, group), f"{group} is empty")


def is_off(kernel: KernelView, id: str) -> bool:
    """Return whether a container runs on none but the CPU that nobody is granted."""
    return kernel.allowed(id) == REST


def removed(group: str) -> bool:
    """Remove a cgroup; return whether it is gone."""
    with suppress(OSError):
        os.rmdir(group)
    return not os.path.exists(group)


def process_cpus(pid: int) -> CPUSet:
    """Return where the kernel lets a process run."""
    return allowed_of(Path(f"/proc/{pid}/status").read_text())


def test_a_clone_is_not_pinned(engine: PrivatePodman, sidecar: SidecarProcess, kernel: KernelView) -> None:
    """From 5.1 on it has the CPUs that the sidecar wrote, the pool's or an owner's: they are no pin of people."""
    sidecar.configure(tenants_may=["pin"])
    sidecar.reload()
    owner, plain = run(engine, "--name", "owner", *ASKS), run(engine, "--name", "plain")
    sidecar.until(owner, lambda each: each.is_alone, "alone")
    sidecar.until_quiet()
    clones = {}
    for name in ("plain", "owner"):
        engine.run("container", "clone", name, f"{name}-2")
        clones[name] = engine.run("inspect", "-f", "{{.Id}}", f"{name}-2").strip()
    engine.run("rm", "-f", "-t0", "owner")
    for id in clones.values():
        engine.run("start", id)
    heir = sidecar.until(clones["owner"], lambda each: each.is_settled, "the clone of the owner is where it should be")
    assert heir.sharing in (SharingStatus.EXCLUSIVE, SharingStatus.SHARED)
    if heir.sharing is SharingStatus.SHARED:
        # It asked while the first one was there.
        engine.run("restart", "-t0", clones["owner"])
    sidecar.until(clones["owner"], lambda each: each.is_alone, "the CPU is to be had")
    eventually(lambda: [kernel.allowed(each) for each in (plain, clones["plain"])] == [REST, REST], "in the pool")
    shared = sidecar.container(clones["plain"])
    assert shared is not None
    assert shared.sharing is SharingStatus.SHARED


def test_a_container_of_a_pod_finds_its_own_directory(engine: PrivatePodman, sidecar: SidecarProcess) -> None:
    """Its host name is the pod's."""
    engine.run("pod", "create", "--name", "phone", "--network", "none")
    mounts = [f"--volume={each}" for each in hostpython.mounts()]
    variables = [f"--env={key}={value}" for key, value in hostpython.environment().items()]
    told = f"--volume={sidecar.projections}:/run/cpuset-sidecar:ro"
    id = run(engine, "--pod", "phone", *ASKS, *mounts, *variables, told)
    sidecar.until(id, lambda each: each.is_alone, "it is alone")
    watch = ("watch", "--until", "alone", "--timeout", "30")
    assert "exclusive  cpus" in engine.run("exec", id, hostpython.python(), "-m", "sidecar", *watch)
