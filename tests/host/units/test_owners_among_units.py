"""Units of systemd that ask for CPUs of their own, on a tree of files and with a systemd that describes them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import trio.testing

from sidecar.failures import EngineUnavailable
from sidecar.host.units.unit_groups import SOON_SECONDS
from sidecar.host.units.unit_properties import UnitDescription
from state.cpuset import CPUSet
from tests.host.units.test_unit_groups import Systemd, born, systemd, units

__all__ = ["systemd"]

BEGAN = 1_700_000_000_000_000
STAMP = "2023-11-14T22:13:20.000000Z"


def asks(systemd: Systemd, name: str, text: str = "X-CpusetExclusive=2") -> None:
    """Let the files of a unit ask, in a drop-in after its fragment."""
    fragment, drop_in = (systemd.root.parent / f"{name}.{kind}" for kind in ("fragment", "conf"))
    fragment.write_text("[Service]\nExecStart=/bin/true\n")
    drop_in.write_text(f"[Service]\n{text}\n")
    systemd.said[name] = UnitDescription((str(fragment), str(drop_in), "/none"), BEGAN, is_coming=True)


@pytest.mark.trio
async def test_one_whose_files_ask_shows_labels_and_its_run(systemd: Systemd) -> None:
    """The others show none; the files of each are read once, and again when systemd has read them anew."""
    asks(systemd, "ssh.service", "X-CpusetExclusive=2\nX-CpusetOnShortage=wait")
    those = units(systemd)
    await those.meet()
    those.all()
    look = await those.look("ssh.service")
    assert look is not None
    assert look.labels == {"cpuset.exclusive": "2", "cpuset.on-shortage": "wait"}
    assert (look.asks, look.runs, look.started, look.cpus) == (True, True, STAMP, "")
    plain = await those.look("cron.service")
    assert plain is not None
    assert (plain.asks, plain.labels, plain.started) == (False, {}, "")
    await those.meet()
    assert systemd.asked.count("cron.service") == 1
    asks(systemd, "cron.service", "X-CpusetExclusive=1")
    assert await those.look("cron.service") == plain, "systemd has not read the file yet"
    those.reread()
    await those.meet()
    look = await those.look("cron.service")
    assert look is not None
    assert look.labels == {"cpuset.exclusive": "1"}


@pytest.mark.trio
async def test_a_slice_with_an_owner_below_is_no_unit_and_its_other_units_are(systemd: Systemd) -> None:
    """What confines the slice would confine the owner. It is let go if it was confined before the owner came."""
    born(systemd, "apps.slice/web.service")
    those = units(systemd)
    await those.meet()
    assert "apps.slice" in those.all()
    await those.confine("apps.slice", CPUSet.parse("0-1"))
    born(systemd, "apps.slice/apps-db.slice/db.service")
    asks(systemd, "db.service")
    await those.meet()
    found = set(those.all())
    assert {"web.service", "db.service"} <= found
    assert "apps-db.slice" not in found
    assert await those.look("apps.slice") is None
    assert (systemd.root / "apps.slice/cpuset.cpus").read_text() == "0-3\n"


@pytest.mark.trio
async def test_the_configuration_asks_for_a_unit_as_its_files_do(systemd: Systemd) -> None:
    born(systemd, "apps.slice/db@1.service")
    those = units(systemd, ruled=("db@*.service",))
    await those.meet()
    assert "db@1.service" in those.all()
    look = await those.look("db@1.service")
    assert look is not None
    assert (look.asks, look.labels) == (True, {})
    assert those.rule(()) is True
    assert those.rule(()) is False
    assert "apps.slice" in those.all()


@pytest.mark.trio
async def test_an_owner_rests_comes_and_runs_again(systemd: Systemd, autojump_clock: trio.testing.MockClock) -> None:
    """It keeps what was set for it while it rests, and is about to run only where systemd says so after a hint."""
    asks(systemd, "ssh.service")
    those = units(systemd)
    await those.meet()
    those.all()
    await those.confine("ssh.service", CPUSet.parse("2-3"))
    shutil.rmtree(systemd.root / "system.slice/ssh.service")
    systemd.said["ssh.service"] = systemd.said["ssh.service"]._replace(started=0, is_coming=False)
    assert those.changed("ssh.service", is_up=False)
    look = await those.look("ssh.service")
    assert look is not None
    assert (look.runs, look.is_coming, look.started, look.cpus) == (False, False, STAMP, "2-3")
    assert not those.tell("ssh.service"), "to ask about it loads it, which is told as well"
    systemd.said["ssh.service"] = systemd.said["ssh.service"]._replace(is_coming=True)
    assert those.changed("ssh.service", is_up=True)
    look = await those.look("ssh.service")
    assert look is not None
    assert (look.runs, look.is_coming) == (False, True)
    await trio.sleep(SOON_SECONDS + 1)
    look = await those.look("ssh.service")
    assert look is not None
    assert not look.is_coming
    born(systemd, "system.slice/ssh.service")
    look = await those.look("ssh.service")
    assert look is not None
    assert (look.runs, look.cpus) == (True, "2-3")


@pytest.mark.trio
async def test_one_that_comes_asks_before_it_runs_and_one_that_is_only_shown_does_not_exist(systemd: Systemd) -> None:
    """`systemctl status` of a stopped service loads it, too."""
    asks(systemd, "new.service")
    those = units(systemd)
    await those.meet()
    those.all()
    assert those.tell("new.service")
    look = await those.look("new.service")
    assert look is not None
    assert (look.runs, look.is_coming, look.labels) == (False, True, {"cpuset.exclusive": "2"})
    systemd.said["new.service"] = systemd.said["new.service"]._replace(is_coming=False)
    assert await those.look("new.service") is None


@pytest.mark.trio
async def test_while_systemd_is_silent_what_it_said_last_counts(systemd: Systemd) -> None:
    """Of a host that it never described it is not known which units ask."""
    asks(systemd, "ssh.service")
    those = units(systemd)
    systemd.is_silent = True
    with pytest.raises(EngineUnavailable):
        await those.meet()
    systemd.is_silent = False
    await those.meet()
    those.all()
    before = await those.look("ssh.service")
    systemd.is_silent = True
    those.reread()
    assert await those.look("ssh.service") == before


@pytest.mark.trio
async def test_changes_of_others_ask_for_no_look(systemd: Systemd) -> None:
    """But for a service that runs and was not met; scopes have no files, and what is left alone is left alone."""
    asks(systemd, "ssh.service")
    those = units(systemd, leave=("left*",))
    await those.meet()
    those.all()
    names = ("ssh.service", "cron.service", "new.service", "run-1.scope", "left.service", "user@0.service")
    assert [name for name in names if those.changed(name, is_up=True)] == ["ssh.service", "new.service"]
    assert [name for name in names if those.changed(name, is_up=False)] == ["ssh.service"]


def test_no_service_is_kept_in_mind_for_ever(systemd: Systemd, tmp_path: Path) -> None:
    """A host makes thousands of transient ones a day."""

    async def play() -> int:
        those = units(systemd)
        for number in range(5):
            born(systemd, f"system.slice/run-{number}.service")
            await those.meet()
            shutil.rmtree(systemd.root / f"system.slice/run-{number}.service")
        await those.meet()
        return len(systemd.asked) - len(set(systemd.asked)) + len(those._asking._labels)

    known = trio.run(play)
    assert known == len(("cron.service", "ssh.service", "system.slice", "user.slice", "user-0.slice"))


@pytest.mark.trio
async def test_a_slice_that_came_before_its_owner_is_let_go_with_the_owners_look(systemd: Systemd) -> None:
    """The slice is up a moment before its first service: nothing told yet that an owner would be in it."""
    those = units(systemd)
    those.all()
    born(systemd, "apps.slice")
    assert those.changed("apps.slice", is_up=True)
    await those.look("apps.slice")
    await those.confine("apps.slice", CPUSet.parse("0-2"))
    asks(systemd, "db.service")
    assert those.tell("db.service")
    await those.confine("db.service", CPUSet.of(3))
    born(systemd, "apps.slice/db.service")
    look = await those.look("db.service")
    assert look is not None
    assert (look.cgroup, look.cpus, look.runs) == ("/apps.slice/db.service", "3", True)
    assert systemd.calls[-2:] == [("apps.slice", "0-3"), ("apps.slice", "")]
