"""Doctor on the cgroups above containers, and on the shared group."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sidecar.cli.doctor.group_checks import check_parents, check_shared_group
from sidecar.cli.doctor.host_checks import EngineReport, Finding, Verdict
from sidecar.config.config import Config
from sidecar.decide.facts import ContainerView, EngineInfo, Phase
from sidecar.engines.traits_table import traits_of
from state.cpuset import CPUSet
from tests.support.daemon.group import FakeGroup

ONLINE = CPUSet.parse("0-3")
ENGINE = EngineInfo(name="docker", version="26", api_version="1.45", ncpu=4, cgroup_version="2")
OURS = {"cgroup-parent": "pool.slice"}


def view(name: str, *, parent: str = "", phase: Phase = Phase.RUNNING, **labels: str) -> ContainerView:
    return ContainerView(id=(name * 64)[:64], name=name, phase=phase, cgroup_parent=parent, labels=labels)


def labelled(name: str, *, parent: str = "", phase: Phase = Phase.RUNNING) -> ContainerView:
    return msgspec.structs.replace(view(name, parent=parent, phase=phase), labels={"cpuset.exclusive": "1"})


def report(*views: ContainerView, engine: str = "docker") -> EngineReport:
    made = msgspec.structs.replace(ENGINE, name=engine, traits=traits_of(engine, ENGINE.version))
    return EngineReport(engine=made, views=views)


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1, found
    return found[0]


@pytest.fixture
def group() -> FakeGroup:
    made = FakeGroup()
    made.is_there = True
    return made


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Return a configuration on a v2 hierarchy."""
    (tmp_path / "cgroup.controllers").write_text("cpuset\n")
    return Config(cgroup=str(tmp_path))


def placed(config: Config, one: ContainerView, parent: str, cpus: str) -> None:
    """Put a container into a cgroup with these CPUs."""
    at = Path(config.cgroup) / parent
    (at / f"docker-{one.id}.scope").mkdir(parents=True)
    (at / "cpuset.cpus.effective").write_text(f"{cpus}\n")


def test_a_narrow_parent_is_named_once_with_what_it_confines(config: Config) -> None:
    """A slice with AllowedCPUs, dockerd's own unit: hard to find without a hint."""
    views = [view("a", parent="x.slice"), view("b", parent="x.slice"), view("c", parent="y.slice")]
    for one, cpus in zip(views, ("0-1", "0-1", "0-3"), strict=True):
        placed(config, one, one.cgroup_parent, cpus)
    found = only(list(check_parents(config, report(*views), ONLINE)))
    assert found.verdict is Verdict.WARN
    assert "the cgroup /x.slice has only CPUs 0-1 for a, b" in found.says
    assert list(check_parents(config, report(*views), ONLINE, shared="/x.slice")) == []


def test_an_engine_that_counts_fewer_cpus_than_there_are_is_said(config: Config) -> None:
    """dockerd in a slice of its own refuses CPUs outside it."""
    found = only(list(check_parents(config, report(), CPUSet.parse("0-7"))))
    assert found.verdict is Verdict.WARN
    assert "the engine knows 4 of 8 CPUs" in found.says


def test_a_parent_with_a_controllers_name_is_said(config: Config) -> None:
    """Whether its containers run or not."""
    found = only(list(check_parents(config, report(view("a", parent="cpu-x.slice", phase=Phase.EXITED)), ONLINE)))
    assert "cpu-x.slice begins with a cgroup controller's name" in found.says


def test_without_a_group_there_is_nothing_to_say_but_that_dockerd_has_one() -> None:
    """The reverse case of a group that is configured and not installed."""
    assert list(check_shared_group(report(), None, {})) == []
    assert list(check_shared_group(EngineReport(error="gone"), None, OURS)) == []
    found = only(list(check_shared_group(report(), None, OURS)))
    assert found.verdict is Verdict.WARN
    assert 'set shared_slice = "pool.slice"' in found.cure


def test_a_group_that_does_not_fit_the_engine_fails(group: FakeGroup) -> None:
    """With the group's own message."""
    group.objection = "not with this driver"
    found = only(list(check_shared_group(report(), group, OURS)))
    assert (found.verdict, found.says) == (Verdict.FAIL, "not with this driver")


@pytest.mark.parametrize("settings", [{}, {"cgroup-parent": "other.slice"}])
def test_a_group_that_is_not_dockerds_default_fails(group: FakeGroup, settings: dict[str, str]) -> None:
    """Containers would be created elsewhere, and assumed inside until they run."""
    found = only(list(check_shared_group(report(), group, settings)))
    assert found.verdict is Verdict.FAIL
    assert "install-slice" in found.cure
    assert only(list(check_shared_group(report(engine="podman"), group, settings))).verdict is Verdict.OK


def test_containers_of_before_are_named_until_they_are_restarted(group: FakeGroup) -> None:
    """Also where dockerd's configuration is not visible."""
    inside, outside = view("inside"), view("outside")
    group.homes = {inside.id: "/pool.slice/x", outside.id: "/system.slice/x"}
    found = only(list(check_shared_group(report(inside, outside, view("far", parent="b.slice")), group, None)))
    assert found.verdict is Verdict.WARN
    assert "outside of 2 without a cgroup parent is not in pool.slice" in found.says
    assert only(list(check_shared_group(report(inside), group, OURS))).says == ("pool.slice confines the shared pool")


def test_labelled_containers_inside_fail_with_the_cure(group: FakeGroup) -> None:
    """Running there, or about to start there."""
    running, idle, apart = labelled("running"), labelled("idle", phase=Phase.CREATED), labelled("x", parent="b.slice")
    group.homes = {running.id: "/pool.slice/x", apart.id: "/b.slice/x"}
    found = only(list(check_shared_group(report(running, idle, apart), group, OURS)))
    assert found.verdict is Verdict.FAIL
    assert found.says.startswith("idle, running ask for exclusive CPUs")
    assert "cgroup_parent: sidecar-exclusive.slice" in found.cure
