"""Writes of cpusets are heard by whoever may only read them: inotify on real files, laid out as in cgroup v1 and v2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from sidecar.decide.facts import ContainerView, Phase
from sidecar.host.cgroup.cpuset_ears import CpusetEars
from sidecar.host.cgroup.host_kernel import HostKernel
from sidecar.host.cgroup.places import Hierarchy

WEB, DB = "1" * 64, "2" * 64


def view(id: str, *, phase: Phase = Phase.RUNNING, started: str = "first", cgroup: str = "") -> ContainerView:
    return ContainerView(engine="docker", id=id, name=id[:3], phase=phase, started_at=started, cgroup=cgroup)


def group(root: Path, path: str) -> Path:
    """Make a cgroup; return the file of its CPUs."""
    (root / path).mkdir(parents=True)
    file = root / path / "cpuset.cpus"
    file.write_text("0-3\n")
    return file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu\n")
    return tmp_path


@pytest.fixture
def ears(root: Path) -> Iterator[CpusetEars]:
    made = CpusetEars(lambda: Hierarchy(2, str(root), "cpuset"), str(root / "no-proc"))
    yield made
    made.close()


def names(ears: CpusetEars) -> set[str]:
    """Return the first digits of all that were heard."""
    heard = ears.heard()
    assert heard is not None
    return {key.id[0] for key in heard}


def test_a_write_names_its_container(root: Path, ears: CpusetEars) -> None:
    """And no other; a file that is only read makes no sound."""
    web, db = group(root, f"docker/{WEB}"), group(root, f"docker/{DB}")
    ears.listen([view(WEB), view(DB)])
    assert web.read_text()
    assert names(ears) == set()
    web.write_text("0\n")
    assert names(ears) == {"1"}
    assert names(ears) == set()
    db.write_text("1\n")
    web.write_text("0-1\n")
    assert names(ears) == {"1", "2"}


def test_a_scope_is_heard_as_well_as_the_group_in_it(root: Path, ears: CpusetEars) -> None:
    """Under systemd crun keeps the limits on the scope, and the process one level deeper."""
    scope = group(root, f"machine.slice/libpod-{WEB}.scope")
    inner = group(root, f"machine.slice/libpod-{WEB}.scope/container")
    above = group(root, "machine.slice/other").parent.parent / "cpuset.cpus"
    ears.listen([view(WEB, cgroup=f"/machine.slice/libpod-{WEB}.scope")])
    for file in (scope, inner):
        file.write_text("0\n")
        assert names(ears) == {"1"}
    above.write_text("0\n")
    assert names(ears) == set()


def test_each_start_has_a_cgroup_of_its_own(root: Path, ears: CpusetEars) -> None:
    """The end of the earlier one is heard too: a look finds out what it was."""
    web = group(root, f"docker/{WEB}")
    ears.listen([view(WEB)])
    web.unlink()
    assert names(ears) == {"1"}
    web.write_text("0\n")
    ears.listen([view(WEB)])
    web.write_text("0-1\n")
    assert names(ears) == set()
    ears.listen([view(WEB, started="second")])
    web.write_text("0-2\n")
    assert names(ears) == {"1"}


def test_what_is_not_named_any_more_or_rests_is_not_heard(root: Path, ears: CpusetEars) -> None:
    """Nor one without a cgroup, which is no error."""
    web = group(root, f"docker/{WEB}")
    ears.listen([view(WEB), view(DB)])
    ears.listen([view(WEB, phase=Phase.EXITED)])
    web.write_text("0\n")
    assert names(ears) == set()
    ears.listen([])
    ears.listen([view(WEB)])
    web.write_text("1\n")
    assert names(ears) == {"1"}


def test_a_host_without_cpusets_has_silent_ears(tmp_path: Path) -> None:
    """The daemon says elsewhere that there are none."""
    ears = HostKernel(cgroup=tmp_path).ears()
    assert ears is not None
    ears.listen([msgspec.structs.replace(view(WEB), pid=1)])
    assert ears.heard() == frozenset()
    ears.close()
    ears.close()
