"""The kept connection, against a real dbus-daemon of the test's own, on which the test plays systemd."""

from __future__ import annotations

import io
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from jeepney import DBusAddress, HeaderFields, MessageType, message_bus, new_error, new_method_return, new_signal
from jeepney.io.blocking import DBusConnection, open_dbus_connection

from sidecar.failures import EngineLacks, EngineRefused, EngineUnavailable
from sidecar.host.units import systemd_connection
from sidecar.host.units.systemd_connection import SystemdConnection, UnitHint, connected
from sidecar.host.units.unit_properties import Call, bytes_of, object_path
from sidecar.log import Log
from sidecar.observe.unit_hints import follow_units
from state.cpuset import EMPTY, CPUSet

pytestmark = pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="needs dbus-daemon (Debian: dbus)")

CONFIG = """<busconfig><type>session</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/>
<allow own="*"/></policy></busconfig>"""


async def allow(systemd: SystemdConnection, unit: str, cpus: CPUSet) -> None:
    """Make a call of which an answer is expected."""
    path, manager = "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"
    arguments = (unit, True, [("AllowedCPUs", ("ay", bytes_of(cpus)))])
    await systemd.ask(unit, Call(path, manager, "SetUnitProperties", "sba(sv)", arguments))


class PlayedSystemd:
    """Keeps the property of each unit, refuses one, and does not answer about another."""

    def __init__(self, address: str) -> None:
        self.allowed: dict[str, bytes] = {}
        self.answers_subscriptions = True
        self._bus: DBusConnection = open_dbus_connection(address)
        self._bus.send_and_get_reply(message_bus.RequestName("org.freedesktop.systemd1"))
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()

    def tell_of(self, unit: str) -> None:
        manager = DBusAddress("/org/freedesktop/systemd1", interface="org.freedesktop.systemd1.Manager")
        self._bus.send(new_signal(manager, "UnitNew", "so", (unit, "/org/freedesktop/systemd1/unit/x")))

    def tell_change(self, unit: str, state: str) -> None:
        """As systemd does of each unit that changes, with all that may have."""
        at = DBusAddress(object_path(unit), interface="org.freedesktop.DBus.Properties")
        changed = {"ActiveState": ("s", state), "SubState": ("s", "x")}
        body = ("org.freedesktop.systemd1.Unit", changed, ["Conditions"])
        self._bus.send(new_signal(at, "PropertiesChanged", "sa{sv}as", body))

    def tell_reloading(self, *, begins: bool) -> None:
        manager = DBusAddress("/org/freedesktop/systemd1", interface="org.freedesktop.systemd1.Manager")
        self._bus.send(new_signal(manager, "Reloading", "b", (begins,)))

    def close(self) -> None:
        """After the end of the bus."""
        self._serving.join(10)
        self._bus.close()

    def _serve(self) -> None:
        while True:
            try:
                message = self._bus.receive()
            except Exception:  # The test has ended the bus.
                return
            if message.header.message_type is not MessageType.method_call:
                continue
            body: tuple[Any, ...] = message.body
            if message.header.fields[HeaderFields.member] == "Subscribe":
                if self.answers_subscriptions:
                    self._bus.send(new_method_return(message))
            elif body[0] == "wrong.service":
                self._bus.send(new_error(message, "org.freedesktop.systemd1.BadUnitSetting", "s", ("no",)))
            elif body[0] != "silent.service":
                self.allowed[body[0]] = bytes(body[2][0][1][1])
                self._bus.send(new_method_return(message))


class Ears:
    """Units of which nothing is to be looked at."""

    def tell(self, name: str) -> bool:
        return False

    def changed(self, name: str, *, is_up: bool) -> bool:
        return False

    def reread(self) -> None:
        pass


class Bus:
    """A dbus-daemon, which can be ended and started again."""

    def __init__(self, directory: Path) -> None:
        self.address = f"unix:path={directory}/bus"
        self.environ = {"DBUS_SYSTEM_BUS_ADDRESS": self.address}
        (directory / "bus.conf").write_text(CONFIG.format(path=directory / "bus"))
        self._command = ["dbus-daemon", f"--config-file={directory}/bus.conf", "--nofork", "--print-address=1"]
        self.start()

    def start(self) -> None:
        self._daemon = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._daemon.stdout is not None
        assert self._daemon.stdout.readline()
        self.systemd = PlayedSystemd(self.address)

    def end(self) -> None:
        self._daemon.kill()
        self._daemon.wait()
        assert self._daemon.stdout is not None
        self._daemon.stdout.close()
        self.systemd.close()


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Bus]:
    made = Bus(tmp_path)
    yield made
    made.end()


@pytest.mark.trio
async def test_many_units_are_set_side_by_side_and_given_back(bus: Bus) -> None:
    """The empty set is the property taken away."""
    units = [f"u{number}.service" for number in range(40)]
    async with connected(bus.environ) as systemd, trio.open_nursery() as nursery:
        for unit in units:
            nursery.start_soon(allow, systemd, unit, CPUSet.of(0, 9))
    assert bus.systemd.allowed == dict.fromkeys(units, b"\x01\x02")
    async with connected(bus.environ) as systemd:
        await allow(systemd, "u0.service", EMPTY)
    assert bus.systemd.allowed["u0.service"] == b""


@pytest.mark.trio
async def test_new_units_are_told(bus: Bus) -> None:
    """By name, in order, from the subscription on."""
    async with connected(bus.environ) as systemd:
        await systemd.subscribe()
        for unit in ("a.service", "run-1.scope"):
            bus.systemd.tell_of(unit)
        with trio.fail_after(10):
            assert [await systemd.hints.receive() for _ in range(2)] == [
                UnitHint("a.service", is_new=True),
                UnitHint("run-1.scope", is_new=True),
            ]
        assert not systemd.has_missed()


@pytest.mark.trio
async def test_changes_of_units_and_a_reload_are_told(bus: Bus) -> None:
    """By the unit's name, whatever characters that has, and whether it runs; a reload once it is over."""
    unit = "postgresql@14-main.service"
    async with connected(bus.environ) as systemd:
        await systemd.subscribe()
        bus.systemd.tell_change(unit, "activating")
        bus.systemd.tell_change(r"odd\x2dname_1.service", "failed")
        with trio.fail_after(10):
            assert await systemd.hints.receive() == UnitHint(unit, is_up=True)
            assert await systemd.hints.receive() == UnitHint(r"odd\x2dname_1.service")
            bus.systemd.tell_reloading(begins=True)
            bus.systemd.tell_reloading(begins=False)
            assert await systemd.hints.receive() == UnitHint("")
        assert systemd.has_reread()
        assert not systemd.has_reread()


@pytest.mark.trio
async def test_a_refusal_and_a_silence_hold_up_no_other(bus: Bus) -> None:
    """While one call waits, another is answered."""
    async with connected(bus.environ) as systemd, trio.open_nursery() as nursery:
        nursery.start_soon(allow, systemd, "silent.service", CPUSet.of(0))
        with trio.fail_after(5):
            with pytest.raises(EngineRefused, match=r"wrong\.service"):
                await allow(systemd, "wrong.service", CPUSet.of(0))
            await allow(systemd, "good.service", CPUSet.of(0))
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_a_bus_that_is_gone_fails_each_call_and_ends_the_hints(bus: Bus) -> None:
    """Then a new connection to its successor works."""
    async with connected(bus.environ) as systemd:
        await systemd.subscribe()
        bus.end()
        with trio.fail_after(5):
            assert [hint async for hint in systemd.hints] == []
            with pytest.raises(EngineUnavailable):
                await allow(systemd, "a.service", CPUSet.of(0))
    bus.start()
    async with connected(bus.environ) as systemd:
        await allow(systemd, "a.service", CPUSet.of(0))


@pytest.mark.trio
async def test_a_call_that_waits_fails_with_the_bus(bus: Bus) -> None:
    """At once, and not after the time limit of an answer."""
    async with connected(bus.environ) as systemd, trio.open_nursery() as nursery:

        async def wait() -> None:
            with trio.fail_after(5), pytest.raises(EngineUnavailable, match="broke"):
                await allow(systemd, "silent.service", CPUSet.of(0))

        nursery.start_soon(wait)
        await allow(systemd, "good.service", CPUSet.of(0))
        bus.end()


@pytest.mark.trio
async def test_a_systemd_that_does_not_answer_is_not_reached(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """To whoever connects that is the one error, and no group of it: hints of units are waited for then."""
    monkeypatch.setattr(systemd_connection, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(bus.systemd, "answers_subscriptions", False)
    with pytest.raises(EngineUnavailable, match="did not answer"):
        async with connected(bus.environ) as systemd:
            await systemd.subscribe()
    lines, looked = io.StringIO(), list[str]()
    with trio.move_on_after(1):
        await follow_units(lambda: connected(bus.environ), Ears(), looked.append, lambda: None, Log(lines))
    assert "systemd reports no new units now" in lines.getvalue()


@pytest.mark.trio
async def test_no_bus_is_lacking(tmp_path: Path) -> None:
    """As in a container without the socket."""
    with pytest.raises(EngineLacks, match="cannot be reached"):
        async with connected({"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={tmp_path}/none"}):
            pass
