"""Doctor on the processes of the host, which the sidecar does not confine."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from sidecar.cli.doctor.host_checks import Finding, Verdict
from sidecar.cli.doctor.unit_checks import check_unit_rules, check_units
from sidecar.config.config import Config
from sidecar.decide.settings import Rule
from sidecar.host.cgroup.places import Hierarchy
from state.cpuset import CPUSet

ONLINE, RESERVED = CPUSet.parse("0-3"), CPUSet.of(0)


def judged(root: Path, *, version: int = 2) -> list[Finding]:
    return list(check_units(Hierarchy(version, str(root), "cpuset"), RESERVED, ONLINE))


def unit(root: Path, path: str, cpus: str) -> None:
    (root / path).mkdir(parents=True)
    (root / path / "cpuset.cpus.effective").write_text(f"{cpus}\n")


def test_units_that_may_run_on_exclusive_cpus_are_named(tmp_path: Path) -> None:
    """Those on reserved CPUs are not."""
    unit(tmp_path, "init.scope", "0")
    unit(tmp_path, "system.slice", "0-3")
    unit(tmp_path, f"docker/{'b' * 64}", "1-3")
    [found] = judged(tmp_path)
    assert (found.question, found.verdict) == ("host processes", Verdict.WARN)
    assert found.says.endswith(": system.slice may run on exclusive CPUs")
    assert "keep-the-host-off.md" in found.cure


def test_a_service_with_containers_says_so(tmp_path: Path) -> None:
    """It cannot be confined: whoever reads this must know why."""
    unit(tmp_path, "user.slice/user@7.service", "1-3")
    unit(tmp_path, f"user.slice/user@7.service/app.slice/{'b' * 64}", "1-3")
    [found] = judged(tmp_path)
    assert "user@7.service (has containers) may run" in found.says


def test_units_on_reserved_cpus_are_well(tmp_path: Path) -> None:
    """As AllowedCPUs= of the administrator has it."""
    unit(tmp_path, "init.scope", "0")
    [found] = judged(tmp_path)
    assert found == Finding("host processes", Verdict.OK, "1 unit of systemd is kept on the reserved CPUs")


def test_where_no_unit_is_to_be_seen_it_says_so(tmp_path: Path) -> None:
    """Without systemd, in a container without the host's cgroups, and on v1, where units have no cpusets."""
    assert judged(tmp_path)[0].verdict is Verdict.WARN
    unit(tmp_path, "system.slice", "0")
    assert "no unit of systemd" in judged(tmp_path, version=1)[0].says
    assert not list(check_units(None, RESERVED, ONLINE))


def test_with_host_units_the_sidecar_confines_them(tmp_path: Path) -> None:
    """All but what has containers below it, which is named."""
    unit(tmp_path, "init.scope", "0-3")
    unit(tmp_path, "user.slice/user@7.service", "1-3")
    unit(tmp_path, f"user.slice/user@7.service/app.slice/{'b' * 64}", "1-3")
    [found] = check_units(
        Hierarchy(2, str(tmp_path), "cpuset"), RESERVED, ONLINE, is_confining=True, files=[str(tmp_path)]
    )
    assert found.verdict is Verdict.OK
    assert found.says.endswith("confines 1 unit of systemd to the shared pool, and not user@7.service (has containers)")


def test_files_in_which_units_ask_are_missed_where_they_cannot_be_read(tmp_path: Path) -> None:
    """As in a container that has the bus, and not the host's /etc/systemd: owners of CPUs would be taken for others."""
    unit(tmp_path, "init.scope", "0-3")
    files = [str(tmp_path), "/nowhere/system", "/nowhere/else"]
    _, found = check_units(Hierarchy(2, str(tmp_path), "cpuset"), RESERVED, ONLINE, is_confining=True, files=files)
    assert (found.verdict, "mount" in found.cure) == (Verdict.WARN, True)
    assert found.says.startswith("/nowhere/system, /nowhere/else cannot be read here")
    (tmp_path / "daemon/nowhere/system").mkdir(parents=True)
    root = f"{tmp_path}/daemon"
    v2 = Hierarchy(2, str(tmp_path), "cpuset")
    _, found = check_units(v2, RESERVED, ONLINE, is_confining=True, files=["/nowhere/system", "/tmp"], root=root)
    assert found.says.startswith("/tmp cannot be read here"), "the daemon's files count"


def test_where_groups_are_named_the_sidecar_confines_these(tmp_path: Path) -> None:
    """Without systemd, and without a name, it says that nothing is confined."""
    v1 = Hierarchy(1, str(tmp_path), "cpuset")
    [named] = check_units(v1, RESERVED, ONLINE, is_confining=True, groups=("/agents", "/"))
    assert (named.verdict, named.says.rpartition(": ")[2]) == (Verdict.OK, "/agents, /")
    [none] = check_units(v1, RESERVED, ONLINE, is_confining=True)
    assert (none.verdict, "host_groups" in none.cure) == (Verdict.WARN, True)


def test_rules_of_units_are_compared_with_those_of_the_host(tmp_path: Path) -> None:
    """Where there are any, and the sidecar confines them; one that it leaves alone counts as none."""
    (tmp_path / "cgroup.controllers").write_text("cpuset\n")
    unit(tmp_path, "system.slice/db.service", "0-3")
    db, web = (Rule(unit=f"{name}.service", labels={}, place="f, line 1") for name in ("db", "web"))
    config = Config(cgroup=str(tmp_path), host_units="auto", rules=(db, Rule(name="x", labels={})))
    [found] = check_unit_rules(config)
    assert (found.verdict, found.says) == (Verdict.OK, "1 rule, each of some unit")
    [found] = check_unit_rules(replace(config, rules=(db, web)))
    assert (found.verdict, found.says) == (Verdict.WARN, "f, line 1: the rule for unit web.service is no unit's now")
    [found] = check_unit_rules(replace(config, leave=("db*",)))
    assert found.says == "f, line 1: the rule for unit db.service is no unit's now"
    assert not list(check_unit_rules(replace(config, host_units="off")))
    [found] = check_unit_rules(replace(config, cgroup=str(tmp_path / "none")))
    assert "no units of systemd are visible here" in found.says
