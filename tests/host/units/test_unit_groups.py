"""Which units can be confined, on a tree of files, with a systemd that writes them as the real one does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from sidecar.failures import ContainerGone, EngineFailed, EngineUnavailable
from sidecar.host.units.unit_groups import IN_FORCE_SECONDS, SOON_SECONDS, UnitGroups
from sidecar.host.units.unit_properties import UnitDescription
from sidecar.host_ports import UnitLook
from state.cpuset import EMPTY, CPUSet

ID = "0123456789abcdef" * 4
ALL = CPUSet.parse("0-3")


class Systemd:
    """Writes what is set into the unit's group, and into a drop-in; `obeys` tells whether the kernel follows."""

    def __init__(self, root: Path, control: Path) -> None:
        self.root, self.control, self.obeys = root, control, True
        self.calls: list[tuple[str, str]] = []
        self.said: dict[str, UnitDescription] = {}
        self.asked: list[str] = []
        self.is_silent = False
        self.masked: set[str] = set()

    async def stop(self, unit: str) -> None:
        raise AssertionError("no unit is stopped here")

    async def kill(self, unit: str, signal: int) -> None:
        raise AssertionError("no unit is signalled here")

    async def described(self, units: Sequence[str]) -> dict[str, UnitDescription]:
        await trio.lowlevel.checkpoint()
        if self.is_silent:
            raise EngineUnavailable("systemd does not answer")
        self.asked += units
        return {each: self.said.get(each, UnitDescription()) for each in units}

    async def allow_cpus(self, unit: str, cpus: CPUSet) -> None:
        await trio.lowlevel.checkpoint()
        self.calls.append((unit, str(cpus)))
        if unit in self.masked:
            raise ContainerGone(f"Unit {unit} is masked.")
        drop_in = self.control / f"{unit}.d" / "50-AllowedCPUs.conf"
        drop_in.parent.mkdir(parents=True, exist_ok=True)
        drop_in.write_text(f"# made by systemctl\n[Service]\nAllowedCPUs={str(cpus).replace(',', ' ')}\n")
        for group in self.root.rglob(unit):
            if self.obeys and cpus:
                (group / "cpuset.cpus").write_text(f"{cpus}\n")


@pytest.fixture
def systemd(tmp_path: Path) -> Systemd:
    made = Systemd(tmp_path / "cgroup", tmp_path / "control")
    for path in ("init.scope", "system.slice/ssh.service", "system.slice/cron.service", "user.slice/user-0.slice"):
        born(made, path)
    return made


def born(systemd: Systemd, path: str) -> None:
    at = systemd.root / path
    at.mkdir(parents=True)
    drop_in = systemd.control / f"{at.name}.d" / "50-AllowedCPUs.conf"
    cpus = drop_in.read_text().strip().rpartition("=")[2] if drop_in.exists() else ""
    (at / "cpuset.cpus").write_text(f"{cpus.replace(' ', ',')}\n")


def ended(systemd: Systemd, *paths: str) -> None:
    for path in paths:
        (systemd.root / path / "cpuset.cpus").unlink(missing_ok=True)
        (systemd.root / path).rmdir()


def units(systemd: Systemd, parent: str = "", leave: tuple[str, ...] = (), ruled: tuple[str, ...] = ()) -> UnitGroups:
    control = (str(systemd.control),)
    return UnitGroups(systemd.root, systemd, lambda: ALL, parent=parent, leave=leave, ruled=ruled, control=control)


@pytest.mark.trio
async def test_services_one_by_one_where_containers_may_come_and_sessions_as_one(systemd: Systemd) -> None:
    assert sorted(units(systemd).all()) == ["cron.service", "init.scope", "ssh.service", "user.slice"]
    born(systemd, "apps.slice/apps-engine.slice")
    assert "apps.slice" in units(systemd).all()
    assert "apps.slice" not in units(systemd, "apps-engine.slice").all()


@pytest.mark.trio
async def test_one_whose_group_has_another_name_is_confined_by_its_own(systemd: Systemd) -> None:
    """systemd calls a group otherwise that would look like a file of the kernel's."""
    those = units(systemd)
    those.all()
    assert those.tell("memory.service")
    born(systemd, "system.slice/_memory.service")
    assert await those.look("memory.service") == UnitLook("/system.slice/_memory.service", "", runs=True)
    assert "memory.service" in those.all()
    assert "_memory.service" not in those.all()


@pytest.mark.trio
async def test_it_is_confined_and_let_go(systemd: Systemd) -> None:
    """Taking the property away leaves the kernel's file as it is, so all CPUs are set first."""
    those = units(systemd)
    those.all()
    assert await those.look("ssh.service") == UnitLook("/system.slice/ssh.service", "", runs=True)
    await those.confine("ssh.service", CPUSet.parse("0,2-3"))
    assert await those.look("ssh.service") == UnitLook("/system.slice/ssh.service", "0,2-3", runs=True)
    await those.confine("ssh.service", ALL)
    assert await those.look("ssh.service") == UnitLook("/system.slice/ssh.service", "0-3", runs=True)
    assert systemd.calls == [("ssh.service", "0,2-3"), ("ssh.service", "0-3"), ("ssh.service", "")]


@pytest.mark.trio
async def test_what_runs_never_is_tried_once_until_files_are_read_again(systemd: Systemd) -> None:
    """A unit that is masked, or has no file, is loaded whenever another one names it."""
    those = units(systemd)
    those.all()
    systemd.masked = {"never.service"}
    assert those.tell("never.service")
    assert await those.look("never.service") == UnitLook("", "", runs=False)
    with pytest.raises(ContainerGone):
        await those.confine("never.service", CPUSet.parse("0"))
    assert "never.service" not in those.all()
    assert not those.tell("never.service")
    assert await those.look("never.service") is None
    systemd.masked = set()
    those.reread()
    assert those.tell("never.service")


@pytest.mark.trio
async def test_what_was_set_goes_with_a_unit_whose_file_went(systemd: Systemd) -> None:
    """systemd keeps it, and cannot load the unit to take it away: the next unit of this name would be born with it."""
    those = units(systemd)
    await those.confine("ssh.service", CPUSet.parse("3"))
    (systemd.root / "system.slice/ssh.service/cpuset.cpus").unlink()
    (systemd.root / "system.slice/ssh.service").rmdir()
    systemd.masked = {"ssh.service"}
    other = systemd.control / "ssh.service.d" / "50-MemoryHigh.conf"
    other.write_text("[Service]\nMemoryHigh=1G\n")
    assert "ssh.service" in those.all()
    assert await those.look("ssh.service") == UnitLook("", "3", runs=False)
    with pytest.raises(ContainerGone):
        await those.confine("ssh.service", ALL)
    assert await those.look("ssh.service") is None
    assert [file.name for file in other.parent.iterdir()] == [other.name]


@pytest.mark.trio
async def test_one_that_rests_keeps_what_was_set_and_counts(systemd: Systemd) -> None:
    """It starts again on what is set: to forget it would leave it there for good."""
    those = units(systemd)
    those.all()
    await those.confine("cron.service", CPUSet.parse("0,2"))
    for file in (systemd.root / "system.slice/cron.service").iterdir():
        file.unlink()
    (systemd.root / "system.slice/cron.service").rmdir()
    assert await those.look("cron.service") == UnitLook("", "0,2", runs=False)
    assert "cron.service" in units(systemd).all()
    born(systemd, "system.slice/cron.service")
    assert await those.look("cron.service") == UnitLook("/system.slice/cron.service", "0,2", runs=True)


@pytest.mark.trio
async def test_one_that_was_told_of_is_looked_at_before_it_runs(
    systemd: Systemd, autojump_clock: trio.testing.MockClock
) -> None:
    """For a while; what names a container, a user's manager or something without processes is not."""
    those = units(systemd)
    those.all()
    assert those.tell("new.service")
    assert not [
        name
        for name in (f"docker-{ID}.scope", "user@1000.service", "x.mount", "ssh.service", "session-1.scope")
        if those.tell(name)
    ]
    assert await those.look("new.service") == UnitLook("", "", runs=False)
    await those.confine("new.service", CPUSet.parse("0"))
    born(systemd, "system.slice/new.service")
    assert await those.look("new.service") == UnitLook("/system.slice/new.service", "0", runs=True)
    assert those.tell("never.service")
    await trio.sleep(SOON_SECONDS + 1)
    assert await those.look("never.service") is None
    assert "never.service" not in those.all()


@pytest.mark.trio
async def test_one_with_a_container_below_it_is_let_go(systemd: Systemd) -> None:
    """A user starts a rootless container: it must not be confined with the session."""
    those = units(systemd)
    those.all()
    await those.confine("user.slice", CPUSet.parse("0-2"))
    born(systemd, f"user.slice/user-1000.slice/user@1000.service/libpod-{ID}.scope")
    assert await those.look("user.slice") is None
    assert systemd.calls[-2:] == [("user.slice", "0-3"), ("user.slice", "")]
    assert "user.slice" not in those.all()
    assert "user-0.slice" in those.all()


@pytest.mark.trio
async def test_a_container_that_is_pinned_by_hand_is_no_unit_wherever_it_is(systemd: Systemd) -> None:
    """systemd keeps CPUs that were set for its scope, and for the slice above. These would seem to be units that
    are pinned there by hand, and its owner would never be alone.
    """
    scope = f"docker-{ID}.scope"
    born(systemd, f"my.slice/{scope}")
    for name in (scope, "my.slice", f"libpod-{ID}.scope", f"machine-libpod_pod_{ID}.slice"):
        await systemd.allow_cpus(name, CPUSet.of(3))
    those = units(systemd)
    assert sorted(those.all()) == ["cron.service", "init.scope", "ssh.service", "user.slice"]
    calls = list(systemd.calls)
    assert await those.look("my.slice") is None
    assert await those.look(scope) is None
    assert systemd.calls == calls, "what people set for a slice with containers stays"


@pytest.mark.trio
async def test_a_unit_within_another_with_cpus_of_its_own_is_one_more(systemd: Systemd) -> None:
    """It runs where it is, and does not rest; also one that was told of, and came there since the last look at all."""
    born(systemd, "apps.slice/web.service")
    await systemd.allow_cpus("web.service", CPUSet.of(3))
    those = units(systemd)
    assert {"apps.slice", "web.service"} <= set(those.all())
    assert await those.look("web.service") == UnitLook("/apps.slice/web.service", "3", runs=True)
    those.tell("late.service")
    await those.confine("late.service", CPUSet.of(0))
    born(systemd, "apps.slice/late.service")
    assert await those.look("late.service") == UnitLook("/apps.slice/late.service", "0", runs=True)
    await those.confine("late.service", CPUSet.parse("0-1"))
    assert await those.look("late.service") == UnitLook("/apps.slice/late.service", "0-1", runs=True)


@pytest.mark.trio
async def test_what_is_left_alone_is_a_hole_and_so_is_what_has_containers(systemd: Systemd) -> None:
    """Each with its reason; also one that comes, and one that rests with CPUs set."""
    born(systemd, f"user.slice/user-1000.slice/user@1000.service/libpod-{ID}.scope")
    before = units(systemd)
    before.all()
    await before.confine("cron.service", CPUSet.parse("0,2"))
    those = units(systemd, leave=("cron*", "irq*"))
    assert sorted(those.all()) == ["init.scope", "ssh.service", "user-0.slice"]
    assert those.holes() == {
        "cron.service": "left alone, as configured",
        "user@1000.service": "has containers below it",
    }
    assert not those.tell("irqbalance.service")
    for file in (systemd.root / "system.slice/cron.service").iterdir():
        file.unlink()
    (systemd.root / "system.slice/cron.service").rmdir()
    assert "cron.service" not in those.all()


@pytest.mark.trio
async def test_what_the_kernel_does_not_have_is_no_success(
    systemd: Systemd, autojump_clock: trio.testing.MockClock
) -> None:
    those = units(systemd)
    those.all()
    systemd.obeys = False
    began = trio.current_time()
    with pytest.raises(EngineFailed, match=r"ssh\.service, but its cgroup still has no CPUs"):
        await those.confine("ssh.service", CPUSet.parse("0"))
    assert trio.current_time() - began >= IN_FORCE_SECONDS
    assert CPUSet() == EMPTY


@pytest.mark.trio
async def test_where_sessions_begin_is_confined_before_there_is_one(systemd: Systemd) -> None:
    """Its cgroup comes with the first session. What comes in it is confined with it, and is no unit of its own."""
    ended(systemd, "user.slice/user-0.slice", "user.slice")
    those = units(systemd)
    assert "user.slice" in those.all()
    assert await those.look("user.slice") == UnitLook("", "", runs=False)
    await those.confine("user.slice", CPUSet.parse("0-2"))
    for path in ("user.slice", "user.slice/user-0.slice", "user.slice/user-0.slice/session-1.scope"):
        born(systemd, path)
    assert those.changed("user.slice", is_up=True)
    assert not those.changed("user-0.slice", is_up=True)
    assert not those.changed("session-1.scope", is_up=True)
    assert await those.look("user.slice") == UnitLook("/user.slice", "0-2", runs=True)


@pytest.mark.trio
async def test_where_sessions_begin_is_no_unit_with_an_owner_in_it(systemd: Systemd) -> None:
    """It has a cgroup, so the tree tells what it is: it is not listed again as what has none yet."""
    those = units(systemd, ruled=("user-0.slice",))
    await those.meet()
    assert "user.slice" not in those.all()
    assert "user-0.slice" in those.all()


@pytest.mark.trio
async def test_what_is_up_is_met_where_it_is(systemd: Systemd) -> None:
    """Nothing tells of a scope before it runs, nor where it will be: a session beside a rootless container's, a machine
    of libvirt, another slice.
    """
    born(systemd, f"user.slice/user-1000.slice/user@1000.service/libpod-{ID}.scope")
    those = units(systemd)
    those.all()
    for path in ("user.slice/user-1001.slice", "machine.slice/machine-a.scope", "apps.slice"):
        name = path.rpartition("/")[2]
        assert not those.changed(name, is_up=False)
        born(systemd, path)
        assert those.changed(name, is_up=True)
        assert await those.look(name) == UnitLook(f"/{path}", "", runs=True)
        await those.confine(name, CPUSet.parse("0-2"))
        assert name in those.all()
    born(systemd, "user.slice/user-1000.slice/session-2.scope")
    assert those.changed("session-2.scope", is_up=True), "its slice holds the container, and is no unit"
    assert not those.changed("machine.slice", is_up=True), "an engine makes containers there"


@pytest.mark.trio
async def test_what_is_left_alone_is_left_with_all_that_comes_in_it(systemd: Systemd) -> None:
    """A pattern for a slice means what is in it, too."""
    those = units(systemd, leave=("user.slice", "own-*"))
    those.all()
    born(systemd, "user.slice/user-1001.slice")
    born(systemd, "own-1.scope")
    assert not those.changed("user-1001.slice", is_up=True)
    assert not those.changed("own-1.scope", is_up=True)
