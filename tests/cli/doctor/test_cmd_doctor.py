"""Doctor reports what will not work on this host, with its cure, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from sidecar.__main__ import main
from sidecar.astray import Astray, AstrayKind
from sidecar.cli.doctor.cmd_doctor import examine, look_at, rendered
from sidecar.cli.doctor.engine_checks import UNJUDGED
from sidecar.cli.doctor.host_checks import (
    EngineReport,
    Finding,
    Verdict,
    check_cgroups,
    check_config,
    check_containers,
    check_engine,
    check_file,
    check_machine,
    check_projections,
    check_rules,
    check_state_dir,
    file_system,
)
from sidecar.config.config import Config, load
from sidecar.decide.facts import ContainerView, Mount
from sidecar.decide.settings import Rule
from sidecar.decide.world import replace
from sidecar.failures import EngineUnavailable
from sidecar.host.cgroup.engine_lock import EngineLock
from sidecar.host.cgroup.places import Hierarchy
from sidecar.ports import Engine
from state.cpuset import CPUSet
from state.errors import StateError
from state.model import Originals
from state.topology import Topology, topology, uniform
from tests.cli.worlds import ENGINE, container
from tests.support.decide.rights import EVERY_RIGHT
from tests.support.engine.simulated import SimulatedEngine
from tests.support.engine.simulated_docker import SimulatedDocker
from tests.support.schemas import misfits

ALL = CPUSet.parse("0-3")


def told(findings: Iterator[Finding]) -> list[tuple[str, str, str]]:
    """Return question, verdict and message; every fault has a cure, and nothing else has one."""
    found = list(findings)
    assert all(bool(each.cure) == (each.verdict is not Verdict.OK) for each in found)
    return [(each.question, each.verdict.value, each.says) for each in found]


def test_an_engine_that_answers_and_one_that_does_not() -> None:
    """Its identity, whether it supports cpusets, and what to do if not."""
    assert told(check_engine(EngineReport(engine=ENGINE))) == [
        ("engine", "ok", "docker 26.1.5 answers (API 1.45, 8 CPUs)"),
        ("cpuset controller", "ok", "the engine has it (cgroup v2, driver systemd)"),
    ]
    assert told(check_engine(EngineReport(error="permission denied"))) == [("engine", "fail", "permission denied")]
    lacking = EngineReport(error="no cpuset controller. Delegate it", is_lacking=True)
    assert [(each.says, each.cure) for each in check_engine(lacking)] == [("no cpuset controller. Delegate it", "")]
    rootless = replace(ENGINE, has_cpuset=False)
    assert told(check_engine(EngineReport(engine=rootless)))[1][:2] == ("cpuset controller", "fail")


def test_the_kernels_word_on_containers() -> None:
    """Without the kernel's view orders cannot be verified, which is a warning."""
    seen = EngineReport(views=(container("web", effective=ALL), container("log", effective=ALL)))
    blind = EngineReport(views=(container("web", effective=ALL), container("log")))
    hierarchy = Hierarchy(2, "/sys/fs/cgroup", "cpuset")
    assert told(check_cgroups(hierarchy, "/sys/fs/cgroup", seen))[1][1:] == (
        "ok",
        "readable for all that run (2 containers)",
    )
    assert told(check_cgroups(hierarchy, "/sys/fs/cgroup", blind))[1][1:] == (
        "warn",
        "the effective CPUs of log cannot be read",
    )
    assert told(check_cgroups(None, "/cg", seen)) == [
        ("cgroups", "warn", "no cgroup hierarchy with cpusets at /cg: updates cannot be verified")
    ]


def test_machines_that_are_too_small_isolated_or_silent() -> None:
    """One CPU is too few; isolcpus and missing levels are worth knowing."""
    assert told(check_machine(uniform(cores=1)))[0][1] == "fail"
    assert told(check_machine(uniform(cores=4)))[0] == ("machine", "ok", "4 CPUs in 4 cores, 1 NUMA node")
    isolated = topology(
        cores=[CPUSet.of(0), CPUSet.of(1)], isolated=CPUSet.of(1), notes=("nodes are missing: one node",)
    )
    found = told(check_machine(isolated))
    assert found[0][1:] == ("warn", "2 CPUs in 2 cores, 1 NUMA node; nodes are missing: one node")
    assert found[1][1:] == ("warn", "the kernel isolates CPU 1 (isolcpus): it balances no load there")


def test_a_configuration_that_does_nothing_or_does_not_fit() -> None:
    """None is the default, and deserves a remark; a reservation must fit the machine."""
    siblings = uniform(cores=2, threads=2)
    assert told(check_config(Config(), siblings)) == [
        ("policy", "warn", "it is none (no file): no container is changed")
    ]

    def static(**flags: str) -> Config:
        return load(None, {}, {"policy": "static", **flags})

    assert [each[:2] for each in told(check_config(static(reserved="0,2"), siblings))] == [
        ("policy", "ok"),
        ("reserved CPUs", "ok"),
        ("SMT", "warn"),
    ]
    assert told(check_config(static(reserved="0,9"), siblings))[1][1] == "fail"
    split = told(check_config(static(reserved="0", options="full-pcpus-only"), siblings))
    assert [each[:2] for each in split] == [("policy", "ok"), ("reserved CPUs", "warn")]
    assert [each[:2] for each in told(check_config(static(reserved="count:1"), None))] == [("policy", "ok")]
    cores = uniform(cores=4)
    greedy = told(check_config(load(None, {}, {"policy": "dynamic", "reserved": "0"}), cores))
    assert [each[:2] for each in greedy] == [("policy", "ok"), ("reserved CPUs", "ok"), ("shared pool", "warn")]
    assert len(told(check_config(static(policy="dynamic", reserved="0", shared_min="1"), cores))) == 2


def test_a_file_that_was_changed_under_a_running_daemon_is_told(tmp_path: Path) -> None:
    """By its keys; what the daemon has from variables and flags counts on."""
    file = tmp_path / "c.toml"
    rule = '[[rule]]\nmatch = { name = "a" }\nexclusive = 1\n'
    file.write_text(f'reserved = "0"\nlinger = "3s"\n{rule}')
    running = load(str(file), {"CPUSET_SIDECAR_POLICY": "static"}, {"linger": "5s"})
    assert told(check_file(running)) == told(check_file(Config())) == []
    file.write_text(f'# more\nreserved = "0"\nlinger = "4s"\npolicy = "none"\n{rule}')
    assert told(check_file(running)) == []
    file.write_text('reserved = "0-1"\nshared_min = 1\n')
    says = f"{file} was changed since the daemon read it: reserved, shared_min, rule"
    assert told(check_file(running)) == [("settings", "warn", says)]
    file.write_text("reserved = 1\n")
    [(_, verdict, says)] = told(check_file(running))
    assert verdict == "warn"
    assert "has mistakes: " in says
    file.unlink()
    assert told(check_file(running)) == []


def test_a_rule_that_is_no_containers_is_named() -> None:
    """Its patterns may have a slip; it may also be for containers to come."""
    config = Config(rules=(Rule(name="db-*", place="c.toml, line 1"), Rule(image="x", place="c.toml, line 5")))
    report = EngineReport(engine=ENGINE, views=(container("db-1"),))
    says = "c.toml, line 5: the rule for image x is no container's now"
    assert told(check_rules(config, report)) == [("rules", "warn", says)]
    assert told(check_rules(Config(rules=config.rules[:1]), report)) == [
        ("rules", "ok", "1 rule, each of some container")
    ]
    assert told(check_rules(Config(), report)) == told(check_rules(config, EngineReport(error="?"))) == []


def test_containers_that_are_pinned_mounted_or_labelled_wrongly() -> None:
    """A container that the sidecar pinned is not pinned by hand. All mistakes in labels are reported."""
    ours = container("ours", cpuset="1-2", exclusive=2)
    pinned = container("pinned", cpuset="3")
    stale = container("stale", mounts=(Mount(source="/run/cpuset-sidecar/by-id/x/cpuset"),))
    odd = container("odd", labels={"cpuset.exclusiv": "2", "cpuset.mems": "fllw"})
    report = EngineReport(views=(ours, pinned, stale, odd))
    found = told(check_containers(Config(tenants_may=EVERY_RIGHT), report, {ours.key: Originals()}, ALL))
    assert found == [
        ("pinned by hand", "warn", "pinned has a cpuset of its own"),
        ("mounts", "fail", "stale mounts a single projected file, which stays stale"),
        (
            "labels",
            "warn",
            (
                "odd: unknown label 'cpuset.exclusiv'; did you mean 'cpuset.exclusive'?; "
                "cpuset.mems is 'fllw'; did you mean 'follow'?"
            ),
        ),
    ]
    # Also if tenants have no right to pin.
    assert told(check_containers(Config(), report, {ours.key: Originals()}, ALL)) == found
    many = EngineReport(views=tuple(container(f"p{n}", cpuset="3") for n in range(9)))
    found = told(check_containers(Config(tenants_may=EVERY_RIGHT), many, {}, ALL))
    assert found[0][2].startswith("p0, p1, p2, p3, p4 and 4 more have")


DISK = "25 1 8:1 / / rw - ext4 /dev/sda1 rw"


def test_directories_that_cannot_be_written_or_will_not_last(tmp_path: Path) -> None:
    """The State belongs on a disk, projections in memory."""
    memory = f"{DISK}\n30 25 0:5 / {tmp_path} rw - tmpfs none rw"
    path = str(tmp_path / "made" / "later")
    assert told(check_state_dir(path, DISK, is_running=False))[0][1:] == ("ok", f"{path} can be written (ext4)")
    assert told(check_state_dir(path, DISK, is_running=True))[1] == ("daemon", "ok", f"it is running on {path}")
    assert told(check_state_dir(path, memory, is_running=None))[0][1] == "warn"
    assert told(check_projections(path, memory))[0][1] == "ok"
    assert told(check_projections(path, DISK))[0][1] == "warn"
    (tmp_path / "file").write_text("")
    for check in (check_projections(f"{tmp_path}/file/x", DISK), check_projections("/dev/null/x", DISK)):
        assert told(check)[0][1] == "fail"
    vouched = check_state_dir("/dev/null/x", DISK, is_running=True, is_vouched=True)
    assert [each[1] for each in told(vouched)] == ["ok", "ok"], "the daemon writes there, which this command may not"


@pytest.mark.parametrize(
    ("space", "says"),
    [
        ({"f_bfree": 3, "f_bavail": 3}, "has 12 KiB free"),
        ({"f_files": 100, "f_ffree": 2}, "has room for 2 files"),
        ({"f_files": 0, "f_ffree": 0}, ""),
    ],
    ids=["space", "files", "a file system that counts no files"],
)
def test_a_full_file_system_is_told(
    space: dict[str, int], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can be written, and no file on it can be replaced."""
    roomy = {"f_bfree": 10**6, "f_bavail": 10**6, "f_frsize": 4096, "f_files": 10**6, "f_ffree": 10**6}
    monkeypatch.setattr(os, "statvfs", lambda at: SimpleNamespace(**roomy | space))
    for check in (check_state_dir(str(tmp_path), DISK, is_running=None), check_projections(str(tmp_path), DISK)):
        _, found, text = told(check)[0]
        assert (found == "fail", says in text) == (bool(says), True)


def test_a_daemon_that_does_not_vouch_is_told(tmp_path: Path) -> None:
    findings = told(check_state_dir(str(tmp_path), DISK, is_running=True, outdated="it does not vouch for this"))
    assert findings[0] == ("daemon", "fail", "it does not vouch for this")
    assert all(what != "daemon" for what, *_ in findings[1:])
    waits = list(check_state_dir(str(tmp_path), DISK, is_running=True, outdated="it waits", is_ready=False))
    assert waits[0].cure == "make its engine answer: it goes on by itself then"


@pytest.mark.parametrize(("answer", "verdict"), [(False, "fail"), (True, "warn"), (None, "warn")])
def test_a_file_system_without_hard_links_cannot_hold_projections(
    tmp_path: Path, answer: bool | None, verdict: str
) -> None:
    """The directory is asked, or the nearest one above it; one that cannot be asked is no finding."""
    asked: list[Path] = []

    def links(at: Path) -> bool | None:
        asked.append(at)
        return answer

    card = f"{DISK}\n30 25 8:2 / {tmp_path} rw - vfat /dev/sdb1 rw"
    [(_, found, says)] = told(check_projections(str(tmp_path / "made" / "later"), card, links))
    assert (found, "vfat, which has no hard links" in says) == (verdict, answer is False)
    assert asked == [tmp_path]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/a", "ext4"),
        ("/run", "tmpfs"),
        ("/run/x", "tmpfs"),
        ("/runner", "ext4"),
        ("/run/a b/c", "xfs"),
        ("/top", "zfs"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_the_deepest_mount(path: str, kind: str) -> None:
    """Names with spaces are escaped there, and a later mount covers an earlier one."""
    mounts = (
        f"{DISK}\n26 25 0:2 / /run rw shared:1 - tmpfs none rw\n27 26 0:3 / /run/a\\040b rw - xfs x rw\n"
        "28 25 0:4 / /top rw - ext4 x rw\n29 28 0:4 / /top rw - zfs x rw\nnonsense\n"
    )
    assert file_system(path, mounts) == kind
    assert file_system(path, "") == "unknown"


@pytest.mark.trio
async def test_an_engine_is_asked_for_itself_and_its_containers() -> None:
    """Containers that vanish meanwhile are left out; an engine that is down is a finding, not a crash."""
    docker = SimulatedDocker(uniform(cores=4), chance=Random(1))
    id = await docker.run("web")

    class Forgetful(SimulatedEngine):
        async def containers(self) -> tuple[str, ...]:
            return (*await super().containers(), "0" * 64)

    @asynccontextmanager
    async def open_engine(address: str) -> AsyncIterator[Engine]:
        if address != "auto":
            raise EngineUnavailable("no engine there")
        yield Forgetful(docker)

    report = await look_at(open_engine, "auto")
    assert report.engine is not None
    assert [view.id for view in report.views] == [id]
    assert await look_at(open_engine, "unix:///nowhere") == EngineReport(error="no engine there")
    await docker.go_down()
    assert (await look_at(open_engine, "auto")).error.startswith("the engine at simulated: nobody answers")


class OddKernel:
    """A kernel of which nothing can be read."""

    def effective_cpus(self, view: ContainerView) -> CPUSet | None:
        return None

    def ears(self) -> None:
        return None

    def cpu_ears(self) -> None:
        return None

    def parent_of(self, view: ContainerView) -> str:
        return ""

    why_unreadable = parent_of

    def confinement(self, view: ContainerView, cpus: CPUSet) -> str:
        return ""

    def topology(self) -> Topology:
        raise StateError("no sysfs here")

    def online(self) -> CPUSet:
        raise StateError("no sysfs here")

    def mend(self, views: Iterable[ContainerView]) -> tuple[Astray, ...]:
        return tuple(Astray(kind=AstrayKind.UNSEEN, container=view.name) for view in views)


def test_a_host_where_nothing_works_gets_a_whole_report(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One failure does not hide the others."""
    disk = tmp_path_factory.mktemp("disk")
    config = Config(state_dir=f"{disk}/state", projections="/dev/null/x", cgroup=str(disk))
    findings = examine(config, OddKernel(), lambda address: EngineReport(error=f"no engine at {address}"))
    verdicts = {each.question: each.verdict.value for each in findings}
    assert verdicts == {
        "engine": "fail",
        "cgroups": "warn",
        "machine": "fail",
        "policy": "warn",
        "state directory": "ok",
        "projections": "fail",
    }


def test_findings_are_lines_with_their_cures() -> None:
    """Aligned, escaped, and coloured only where asked."""
    findings = [Finding("engine", Verdict.OK, "fine"), Finding("the disk", Verdict.FAIL, "full\x1b[2J", "delete")]
    assert rendered(findings) == [
        "ok    engine    fine",
        "fail  the disk  full\\x1b[2J",
        "                cure: delete",
    ]
    assert "\x1b[31mfail\x1b[0m" in rendered(findings, is_coloured=True)[1]


def test_long_findings_are_wrapped_on_a_terminal() -> None:
    """Below their beginning; in a pipe each is one line."""
    long = Finding("engine", Verdict.WARN, "word " * 30, "cure " * 30)
    lines = rendered([long], width=60)
    assert max(map(len, lines)) <= 60
    assert all(line.startswith(" " * 14) for line in lines[1:])
    assert len(rendered([long])) == 2


def test_the_labels_of_every_container_are_told() -> None:
    """In a finding each, however many they are."""
    views = tuple(container(f"svc-{number}", exclusive="two") for number in range(12))
    found = told(check_containers(Config(), EngineReport(views=views), {}, ALL))
    assert [says.partition(":")[0] for _, _, says in found] == [f"svc-{number}" for number in range(12)]


def test_doctor_fails_with_a_reason_and_goes_on_after_a_wrong_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 if any check failed; `--json` prints the findings."""
    args = ["doctor", "--engine", f"unix://{tmp_path}/nowhere.sock", "--state-dir", str(tmp_path)]
    assert main([*args, "--json"]) == 1
    shown = capsys.readouterr()
    found = {each["question"]: each["verdict"] for each in json.loads(shown.out)}
    assert found["engine"] == "fail"
    assert misfits("doctor", shown.out) == []
    assert shown.err.startswith("cpuset-sidecar: ")
    assert main(["doctor", "--engine", "unix:///nowhere.sock", "--reserved", "x"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fail  configuration ")
    assert any(line.startswith(("ok    machine", "warn  machine")) for line in lines)


def test_containers_of_another_sidecar_are_not_judged(tmp_path: Path) -> None:
    """Their limits and cpusets may be those that it set, so its owner would be sent to correct what is right."""
    (tmp_path / "cgroup.controllers").write_text("cpuset\n")
    config = Config(state_dir=f"{tmp_path}/state", cgroup=str(tmp_path))
    views = (container("odd", labels={"cpuset.exclusive": "two"}),)
    report = EngineReport(engine=replace(ENGINE, home="here"), views=views)
    lone = examine(config, OddKernel(), lambda _: report)
    assert any(each.question == "labels" for each in lone)
    with closing(EngineLock(str(tmp_path))) as lock:
        lock.hold("here")
        beside = examine(config, OddKernel(), lambda _: report)
    assert UNJUDGED in beside
    assert not any(each.question in ("labels", "pinned by hand") for each in beside)
