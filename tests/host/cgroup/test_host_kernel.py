"""A container's effective CPUs are found wherever an engine puts its cgroup, and nowhere else."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from sidecar.decide.facts import ContainerView, Phase, ViewKind
from sidecar.host.cgroup.host_kernel import HostKernel, find_hierarchy
from state.cpuset import CPUSet
from state.errors import FileUnreadable

ID = "0123456789abcdef" * 4


def view(*, id: str = ID, parent: str = "", pid: int = 0, phase: Phase = Phase.RUNNING) -> ContainerView:
    return ContainerView(id=id, name="a", phase=phase, cgroup_parent=parent, pid=pid)


def v2(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / "cgroup.controllers").write_text("cpuset cpu io memory\n")
    return root


def v1(root: Path) -> Path:
    base = root / "cpuset"
    base.mkdir(parents=True)
    (base / "cpuset.cpus").write_text("0-7\n")
    (base / "cpuset.effective_cpus").write_text("0-7\n")
    (base / "tasks").write_text("")
    return base


def group(base: Path, path: str, file: str, text: str) -> Path:
    directory = base / path
    directory.mkdir(parents=True, exist_ok=True)
    (directory / file).write_text(text)
    return directory


def effective(root: Path, seen: ContainerView, proc: Path | None = None) -> str | None:
    cpus = HostKernel(cgroup=root, proc=proc or root / "proc").effective_cpus(seen)
    return None if cpus is None else str(cpus)


@pytest.mark.parametrize(
    ("parent", "path"),
    [
        ("", f"docker/{ID}"),
        ("", f"system.slice/docker-{ID}.scope"),
        ("", f"machine.slice/libpod-{ID}.scope"),
        ("", f"machine.slice/libpod-{ID}.scope/container"),
        ("", f"libpod_parent/libpod-{ID}"),
        ("/actions", f"actions/{ID}"),
        ("/", ID),
        ("a/b", f"a/b/{ID}"),
        ("games.slice", f"games.slice/docker-{ID}.scope"),
        ("a-b-c.slice", f"a.slice/a-b.slice/a-b-c.slice/docker-{ID}.scope"),
        ("-.slice", f"docker-{ID}.scope"),
        ("cpu-a.slice", f"_cpu.slice/cpu-a.slice/docker-{ID}.scope"),
        ("user.slice", f"user.slice/libpod-{ID}.scope/container"),
        ("gone.slice", f"system.slice/docker-{ID}.scope"),
    ],
)
def test_engines_put_cgroups_in_known_places(tmp_path: Path, parent: str, path: str) -> None:
    """Under both drivers, under a parent of the user's, and one deeper as crun does it."""
    group(v2(tmp_path / "two"), path, "cpuset.cpus.effective", "2-3\n")
    group(v1(tmp_path / "one"), path, "cpuset.effective_cpus", "4\n")
    assert effective(tmp_path / "two", view(parent=parent)) == "2-3"
    assert effective(tmp_path / "one", view(parent=parent)) == "4"


@pytest.mark.parametrize("path", [f"second/{ID}", f"second.slice/docker-{ID}.scope"])
def test_an_engine_may_have_a_parent_of_its_own_that_it_does_not_tell(tmp_path: Path, path: str) -> None:
    """Also where its processes are not visible: a parent is a group at the top."""
    group(v2(tmp_path), path, "cpuset.cpus.effective", "2-3\n")
    assert effective(tmp_path, view()) == "2-3"


@pytest.mark.parametrize(
    ("path", "parent"),
    [
        (f"docker/{ID}", "/docker"),
        (f"second.slice/docker-{ID}.scope", "/second.slice"),
        (f"machine.slice/libpod-{ID}.scope/container", "/machine.slice"),
        (f"docker/{'f' * 64}/docker/{ID}", f"/docker/{'f' * 64}/docker"),
    ],
)
def test_the_parent_of_a_containers_cgroup_is_found(tmp_path: Path, path: str, parent: str) -> None:
    """Whether it was looked at before or not, and for live containers alone."""
    group(v2(tmp_path), path, "cpuset.cpus.effective", "2-3\n")
    group(tmp_path / "proc", "7", "cgroup", f"0::/{path}\n")
    kernel = HostKernel(cgroup=tmp_path, proc=tmp_path / "proc")
    assert kernel.parent_of(view(pid=7)) == parent
    kernel.effective_cpus(view(pid=7))
    assert kernel.parent_of(view(pid=7)) == parent
    assert kernel.parent_of(view(pid=7, phase=Phase.EXITED)) == ""
    assert kernel.parent_of(view(id="e" * 64)) == ""


def test_a_hybrid_host_has_its_cpusets_on_v1(tmp_path: Path) -> None:
    """v2 is mounted next to it, without the controller."""
    group(v1(tmp_path), f"docker/{ID}", "cpuset.effective_cpus", "1\n")
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified/cgroup.controllers").write_text("\n")
    hierarchy = find_hierarchy(tmp_path)
    assert hierarchy is not None
    assert hierarchy.version == 1
    assert effective(tmp_path, view()) == "1"


def test_an_old_kernel_without_the_effective_file(tmp_path: Path) -> None:
    """v1 before 3.17 knows only cpuset.cpus."""
    group(v1(tmp_path), f"docker/{ID}", "cpuset.cpus", "1,3\n")
    assert effective(tmp_path, view()) == "1,3"


def test_the_root_may_be_the_v1_mount_itself(tmp_path: Path) -> None:
    """For a sidecar that has only that mount."""
    group(v1(tmp_path), f"docker/{ID}", "cpuset.effective_cpus", "1\n")
    assert effective(tmp_path / "cpuset", view()) == "1"


def test_a_cgroup_without_cpus_runs_on_its_ancestors(tmp_path: Path) -> None:
    """v2 without the controller there; v1 after its last CPU went offline."""
    two = v2(tmp_path / "two")
    group(two, "system.slice", "cpuset.cpus.effective", "0-3\n")
    (two / f"system.slice/docker-{ID}.scope").mkdir()
    assert effective(two, view()) == "0-3"
    one = v1(tmp_path / "one")
    group(one, "docker", "cpuset.effective_cpus", "0-1\n")
    group(one, f"docker/{ID}", "cpuset.effective_cpus", "\n")
    group(one, f"docker/{ID}", "cpuset.cpus", "\n")
    assert effective(tmp_path / "one", view()) == "0-1"


def test_an_ancestors_cpus_are_not_remembered_as_its_own(tmp_path: Path) -> None:
    """When the cgroup gets CPUs of its own, those count."""
    root = v2(tmp_path)
    group(root, "docker", "cpuset.cpus.effective", "0-3\n")
    (root / "docker" / ID).mkdir()
    kernel = HostKernel(cgroup=root)
    assert kernel.effective_cpus(view()) == CPUSet.parse("0-3")
    group(root, f"docker/{ID}", "cpuset.cpus.effective", "1\n")
    assert kernel.effective_cpus(view()) == CPUSet.of(1)


def test_a_cgroup_that_vanishes_and_comes_back_elsewhere_is_found_again(tmp_path: Path) -> None:
    """The remembered path is only a shortcut."""
    root = v2(tmp_path)
    old = group(root, f"docker/{ID}", "cpuset.cpus.effective", "1\n")
    kernel = HostKernel(cgroup=root)
    assert kernel.effective_cpus(view()) == CPUSet.of(1)
    shutil.rmtree(old)
    assert kernel.effective_cpus(view()) is None
    group(root, f"system.slice/docker-{ID}.scope", "cpuset.cpus.effective", "2\n")
    assert kernel.effective_cpus(view()) == CPUSet.of(2)


def test_proc_tells_where_the_places_do_not(tmp_path: Path) -> None:
    """An engine inside a container has its cgroups below that container's."""
    root, proc = v2(tmp_path / "cg"), tmp_path / "proc"
    group(root, f"lxc/outer/docker/{ID}", "cpuset.cpus.effective", "5\n")
    group(proc, "42", "cgroup", f"1:name=systemd:/\n0::/lxc/outer/docker/{ID}\n")
    assert effective(root, view(pid=42), proc) == "5"
    one = tmp_path / "one"
    group(v1(one), f"lxc/{ID}", "cpuset.effective_cpus", "6\n")
    group(proc, "43", "cgroup", f"4:cpu,cpuset:/lxc/{ID}\n0::/\n")
    assert effective(one, view(pid=43), proc) == "6"


def test_a_group_that_a_tenant_named_is_not_taken_for_the_container(tmp_path: Path) -> None:
    """The engine makes any group that is named as a parent, and this one is called like the container."""
    root, proc = v2(tmp_path / "cg"), tmp_path / "proc"
    for place, cpus in (("docker", "5"), ("a", "5"), ("engines/own", "6")):
        group(root, f"{place}/{ID}", "cpuset.cpus.effective", f"{cpus}\n")
    group(root, f"engines/own/{ID}/init", "cpuset.cpus.effective", "7\n")
    group(proc, "42", "cgroup", f"0::/engines/own/{ID}/init\n")
    assert effective(root, view(pid=42), proc) == "6"


@pytest.mark.parametrize("line", ["0::/somebody/else", f"0::/../../{ID}", f"3:cpuset:/lxc/{ID}", "nonsense", "\xff"])
def test_a_pid_of_another_process_is_not_believed(tmp_path: Path, line: str) -> None:
    """In another PID namespace the same number is another process; through a cgroup namespace a path leads nowhere."""
    root, proc = v2(tmp_path / "cg"), tmp_path / "proc"
    group(root, "somebody/else", "cpuset.cpus.effective", "5\n")
    group(root, f"lxc/deeper/{ID}", "cpuset.cpus.effective", "5\n")
    group(proc, "42", "cgroup", line)
    assert effective(root, view(pid=42), proc) is None


@pytest.mark.parametrize("id", ["", "..", "../../etc", ID[:12], ID.upper(), ID + "0", ID[:-1] + "/"])
def test_only_a_full_id_becomes_part_of_a_path(tmp_path: Path, id: str) -> None:
    """Any other text names no cgroup."""
    root = v2(tmp_path)
    group(root, f"docker/{ID}", "cpuset.cpus.effective", "1\n")
    group(root, "docker", "cpuset.cpus.effective", "1\n")
    assert effective(root, view(id=id)) is None


@pytest.mark.parametrize("parent", ["../..", "/a/../..", "a\0b", "x" * 2000])
def test_a_hostile_parent_leads_nowhere_else(tmp_path: Path, parent: str) -> None:
    """A cgroup parent is text from the container's creator: it never leads out of the hierarchy."""
    root = v2(tmp_path / "deep" / "cg")
    group(tmp_path, ID, "cpuset.cpus.effective", "7\n")
    group(tmp_path / "deep", ID, "cpuset.cpus.effective", "7\n")
    assert effective(root, view(parent=parent)) is None


@pytest.mark.parametrize("phase", [phase for phase in Phase if not phase.is_live])
def test_a_container_that_is_not_live_runs_nowhere(tmp_path: Path, phase: Phase) -> None:
    """A cgroup may linger; the container does not run in it."""
    group(v2(tmp_path), f"docker/{ID}", "cpuset.cpus.effective", "1\n")
    assert effective(tmp_path, view(phase=phase)) is None


def test_no_hierarchy_is_no_answer(tmp_path: Path) -> None:
    """A sidecar without the host's cgroups works without them."""
    assert find_hierarchy(tmp_path) is None
    assert effective(tmp_path, view()) is None
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    assert find_hierarchy(tmp_path) is None


def test_nonsense_in_the_file_is_no_answer(tmp_path: Path) -> None:
    """It should never happen; it does not crash the reader."""
    directory = group(v2(tmp_path), f"docker/{ID}", "cpuset.cpus.effective", "all of them\n")
    assert effective(tmp_path, view()) is None
    (directory / "cpuset.cpus.effective").write_bytes(b"\xff\xfe")
    assert effective(tmp_path, view()) is None


def test_the_kernel_port_reads_the_machine_too(tmp_path: Path) -> None:
    """One object answers for the kernel's files."""
    (tmp_path / "devices/system/cpu").mkdir(parents=True)
    (tmp_path / "devices/system/cpu/online").write_text("0-3\n")
    assert str(HostKernel(sys=tmp_path).topology().online) == "0-3"


STARTABLE = pytest.mark.parametrize("phase", [phase for phase in Phase if phase.may_begin])


@STARTABLE
def test_a_container_that_is_not_called_live_runs_where_its_group_has_processes(tmp_path: Path, phase: Phase) -> None:
    """A killed engine may have lost it; a container with an empty group, or none, has really ended."""
    base = v1(tmp_path)
    resting = view(phase=phase)
    assert effective(tmp_path, resting) is None
    directory = group(base, f"docker/{ID}", "cpuset.cpus", "1-2\n")
    (directory / "cgroup.procs").write_text("")
    assert effective(tmp_path, resting) is None
    (directory / "cgroup.procs").write_text("4711\n")
    assert effective(tmp_path, resting) == "1-2"
    assert effective(tmp_path, view(phase=Phase.DEAD)) is None
    assert effective(tmp_path, view(phase=phase, id="../docker")) is None


@STARTABLE
def test_a_glance_finds_a_start_that_is_under_way_by_its_group(tmp_path: Path, phase: Phase) -> None:
    """The engine holds its lock, and the runtime makes the group before any process is in it."""
    kernel = HostKernel(cgroup=tmp_path, proc=tmp_path / "proc")
    base = v1(tmp_path)
    glance = msgspec.structs.replace(view(phase=phase), is_glance=True)
    assert kernel.effective_cpus(glance) is None
    directory = group(base, f"docker/{ID}", "cpuset.cpus", "1-2\n")
    (directory / "cgroup.procs").write_text("")
    assert kernel.effective_cpus(glance) == CPUSet.of(1, 2)
    assert kernel.parent_of(msgspec.structs.replace(glance, phase=Phase.RUNNING)) == "/docker"
    assert kernel.effective_cpus(msgspec.structs.replace(glance, phase=Phase.DEAD)) is None


@pytest.mark.parametrize("path", ["pool.slice/x.service/libpod-payload-1", f"a.slice/libpod-{ID}.scope/container"])
def test_a_path_that_the_engine_tells_is_believed(tmp_path: Path, path: str) -> None:
    """Also a path without the id: a quadlet's container, or a group."""
    base = v2(tmp_path)
    group(base, path, "cpuset.cpus.effective", "4-5\n")
    group(base, f"docker/{ID}", "cpuset.cpus.effective", "0-7\n")
    told = msgspec.structs.replace(view(), cgroup="/" + path.removesuffix("/container"))
    assert effective(tmp_path, told) == "4-5"


def test_a_told_path_that_leads_out_of_the_hierarchy_is_not_followed(tmp_path: Path) -> None:
    """Nothing outside the mount is ever read."""
    base = v2(tmp_path / "mount")
    group(tmp_path, "outside", "cpuset.cpus.effective", "4-5\n")
    assert effective(base, msgspec.structs.replace(view(), cgroup="/../outside")) is None


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_what_cannot_be_read_for_lack_of_descriptors_is_not_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Absent would mean that the engine is believed."""
    group(v2(tmp_path), f"docker/{ID}", "cpuset.cpus.effective", "2-3\n")
    kernel = HostKernel(cgroup=tmp_path, proc=tmp_path / "proc")
    assert str(kernel.effective_cpus(view())) == "2-3"

    def exhausted(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", exhausted)
    with pytest.raises(FileUnreadable, match="cannot be read"):
        kernel.effective_cpus(view())


def test_what_a_container_closed_is_told_from_what_it_runs_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look counts it as on all of the group above. One file that may be read is enough."""
    base = v1(tmp_path)
    group(base, "docker", "cpuset.effective_cpus", "0-3")
    group(base, f"docker/{ID}", "cpuset.cpus", "2")
    group(base, f"docker/{ID}", "cpuset.effective_cpus", "2")
    kernel = HostKernel(cgroup=tmp_path, proc=tmp_path / "proc")
    assert kernel.why_unreadable(view()) == ""
    plain, closed = os.open, ["cpuset.cpus"]

    def denied(path: str, *rest: int, **others: int) -> int:
        if ID in str(path) and any(str(path).endswith(name) for name in closed):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return plain(path, *rest, **others)

    monkeypatch.setattr(os, "open", denied)
    assert kernel.why_unreadable(view()) == ""
    closed.append("cpuset.effective_cpus")
    assert str(kernel.effective_cpus(view())) == "0-3"
    assert "permission denied" in kernel.why_unreadable(view())
    assert kernel.why_unreadable(view(phase=Phase.EXITED)) == ""


@pytest.mark.parametrize(
    "path", ["system.slice/ssh.service", "system.slice/system-getty.slice/getty@tty1.service", "a"]
)
def test_a_unit_of_the_host_is_where_its_source_says_and_nowhere_else(tmp_path: Path, path: str) -> None:
    """Its name is no id, and leads to no group by itself; what belongs to containers is not done with it."""
    root, name = v2(tmp_path), path.rpartition("/")[2]
    group(root, path, "cpuset.cpus.effective", "2-3\n")
    group(root, f"docker/{name}", "cpuset.cpus.effective", "4\n")
    seen = msgspec.structs.replace(view(id=name), kind=ViewKind.UNIT, name=name, cgroup=f"/{path}")
    assert effective(root, seen) == "2-3"
    assert HostKernel(cgroup=root).parent_of(seen) == ""
    assert effective(root, msgspec.structs.replace(seen, cgroup="")) is None


def test_what_offlined_cpus_did_to_units_is_not_mended_as_to_containers(tmp_path: Path) -> None:
    """Processes of a unit may be anywhere in the other hierarchies of v1."""
    base = v1(tmp_path)
    group(base, "agents", "cpuset.cpus", "0\n")
    (base / "agents" / "cgroup.procs").write_text("")
    astray = tmp_path / "memory" / "agents"
    astray.mkdir(parents=True)
    for file in ("tasks", "cgroup.procs"):
        (tmp_path / "memory" / file).write_text("")
        (astray / file).write_text("4242\n")
    seen = msgspec.structs.replace(view(id="/agents"), kind=ViewKind.UNIT, cgroup="/agents")
    assert HostKernel(cgroup=tmp_path, proc=tmp_path / "proc").mend([seen]) == ()
    assert (base / "agents" / "cgroup.procs").read_text() == ""
