"""The daemon and its settings: what it records for other commands, and that no second one manages its engine."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar.cli.cmd_status import headline
from sidecar.config.config import load
from sidecar.config.running_settings import read_settings
from sidecar.decide.facts import EngineInfo
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import replace
from sidecar.failures import AlreadyRunning
from sidecar.status.sight import WORKS
from sidecar.status.status_file import read_status
from sidecar.words.settings_text import NOT_LOOKED_AT
from tests.support.daemon.host import Host

pytestmark = pytest.mark.trio

RULE = '[[rule]]\nmatch = { name = "db-*" }\nexclusive = 2\n'


async def test_the_daemon_records_its_settings_and_what_a_reload_changes(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule that a reload adds is granted at once; a new engine waits for a restart, and is not recorded."""
    host = Host(tmp_path, monkeypatch)
    file = tmp_path / "c.toml"
    keys = f'policy = "static"\nreserved = "0"\nstate_dir = "{tmp_path}/state"\nprojections = "{tmp_path}/cpus"\n'
    file.write_text(keys)
    host.config = load(str(file), {}, {})
    async with host.running():
        db = await host.docker.run("db-1")
        await trio.sleep(5)
        assert read_settings(tmp_path / "state") == host.config
        assert host.where(db) == "0-7"
        file.write_text(f'{keys}engine = "/run/other.sock"\n{RULE}')
        os.kill(os.getpid(), signal.SIGHUP)
        await host.settled(db)
        assert host.where(db) == "1-2"
        recorded = read_settings(tmp_path / "state")
        assert recorded is not None
        assert (recorded.engine, len(recorded.rules)) == ("auto", 1)


async def test_a_second_daemon_on_the_engine_ends_at_its_start(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its directories: it has ordered nothing by then, and made no file."""
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup" / "cgroup.controllers").write_text("cpuset\n")
    hosts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        host = Host(tmp_path / name, monkeypatch, cgroup=str(tmp_path / "cgroup"))
        host.engine.info = identified(host)  # type: ignore[method-assign]
        hosts.append(host)
    one, two = hosts
    async with one.running():
        await trio.sleep(5)
        await two.docker.run("web", labels={"cpuset.exclusive": "1"})
        with pytest.raises(AlreadyRunning, match="manages this engine"):
            await two.serve()
    assert two.engine.updates == []
    assert list((tmp_path / "two").rglob("*")) == []
    async with two.running():
        await trio.sleep(5)


async def test_a_daemon_without_a_policy_says_so_at_its_start(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, as a warning before it is ready, and in its status; one with a policy says nothing of the kind."""
    host = Host(tmp_path, monkeypatch, policy=PolicyName.NONE)
    async with host.running():
        ex = await host.docker.run("ex", labels={"cpuset.exclusive": "1"})
        await trio.sleep(60)
        assert host.where(ex) == "0-7"
        status = read_status(tmp_path / "state")
    warned = host.lines.getvalue().split("ready", maxsplit=1)[0]
    assert (warned.count(NOT_LOOKED_AT), host.lines.getvalue().count(NOT_LOOKED_AT)) == (1, 1)
    assert "labels are not looked at" in " ".join(headline(status, WORKS, None))


async def test_a_wrong_label_is_logged_once_and_one_that_has_no_effect_once(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever looks, starts and reloads come after it: a refusal names its cause, and no warning repeats it."""
    host = Host(tmp_path, monkeypatch)
    async with host.running():
        await host.docker.run("bad", labels={"cpuset.exclusive": "two"})
        await host.docker.run("typo", labels={"cpuset.exclusiv": "1"})
        await trio.sleep(60)
    lines = host.lines.getvalue().splitlines()
    assert sum("container=bad" in line and "two" in line for line in lines) == 1
    assert sum("container=typo" in line and "did you mean" in line for line in lines) == 1


def identified(host: Host) -> Any:
    """Return the question to an engine that tells its identity, the same for both hosts."""
    ask = host.engine.info

    async def info() -> EngineInfo:
        return replace(await ask(), home="/var/lib/docker (id 1)")

    return info
