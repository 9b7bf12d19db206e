"""The D-Bus side: requests to systemd, byte by byte, and the handling of its errors and of a bus in trouble."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from jeepney import HeaderFields, Message, new_error, new_method_return
from jeepney.low_level import Parser
from trio.testing import MockClock

from sidecar.decide.container.labels import SIGNALS
from sidecar.failures import EngineError, EngineFailed, EngineLacks, EngineRefused, EngineUnavailable
from sidecar.host.units.unit_properties import (
    ANSWER_SECONDS,
    UnitDescription,
    UnitProperties,
    bytes_of,
    object_path,
    signal_number,
)
from state.cpuset import EMPTY, CPUSet

Answer = Callable[[Message], Message | None]


@asynccontextmanager
async def bus(path: Path, answer: Answer) -> AsyncIterator[UnitProperties]:
    """Provide a bus on a socket of its own, whose server side uses the same library; None for no answer."""

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await _authenticated(stream)
            parser, serial = Parser(), 0
            while received := await stream.receive_some(4096):
                parser.add_data(bytes(received), fds=[])
                while (message := parser.get_next_message()) is not None:
                    serial += 1
                    is_hello = message.header.fields[HeaderFields.member] == "Hello"
                    reply = new_method_return(message, "s", (":1.7",)) if is_hello else answer(message)
                    if reply is not None:
                        reply.header.fields[HeaderFields.sender] = "org.freedesktop.DBus"
                        await stream.send_all(reply.serialise(serial=serial))

    listener = trio.socket.socket(trio.socket.AF_UNIX)
    await listener.bind(str(path))
    listener.listen(5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, [trio.SocketListener(listener)])
        yield UnitProperties({"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={path}"})
        nursery.cancel_scope.cancel()


async def _authenticated(stream: trio.SocketStream) -> None:
    """Play the server's part of D-Bus authentication: read up to BEGIN."""
    heard = b""
    while not heard.endswith(b"BEGIN\r\n"):
        heard += bytes(await stream.receive_some(1))
        if heard.endswith(b"\r\n") and b"AUTH" in heard.split(b"\r\n")[-2]:
            await stream.send_all(b"OK 0123456789abcdef0123456789abcdef\r\n")


def test_the_bytes_are_what_systemd_shows_for_the_same_cpus() -> None:
    """CPUs 0 and 2 are `ay 1 5`, by busctl against systemd 257."""
    assert bytes_of(CPUSet.of(0, 2)) == b"\x05"
    assert bytes_of(CPUSet.of(8, 15)) == b"\x00\x81"
    assert object_path("sidecar-shared.slice") == "/org/freedesktop/systemd1/unit/sidecar_2dshared_2eslice"


@given(st.sets(st.integers(0, 8191), min_size=1, max_size=40))
def test_a_set_is_the_same_number_in_bytes(cpus: set[int]) -> None:
    """Little-endian, as many bytes as the highest CPU needs."""
    wanted = CPUSet(cpus)
    assert CPUSet.from_mask(int.from_bytes(bytes_of(wanted), "little")) == wanted
    assert len(bytes_of(wanted)) == max(cpus) // 8 + 1


@pytest.mark.trio
async def test_a_slices_cpus_are_set_at_run_time_and_read(tmp_path: Path) -> None:
    """One call each, on the objects and with the signatures of systemd's documentation."""
    calls: list[tuple[str, str, tuple[Any, ...]]] = []

    def answer(message: Message) -> Message:
        fields = message.header.fields
        calls.append((fields[HeaderFields.path], fields[HeaderFields.member], message.body))
        if fields[HeaderFields.member] == "Get":
            return new_method_return(message, "v", (("ay", b"\x05\x00"),))
        return new_method_return(message)

    async with bus(tmp_path / "bus", answer) as units:
        await units.allow_cpus("pool.slice", CPUSet.of(1, 9))
        assert await units.allowed_cpus("pool.slice") == CPUSet.of(0, 2)
    properties = [("AllowedCPUs", ("ay", b"\x02\x02"))]
    assert calls == [
        ("/org/freedesktop/systemd1", "SetUnitProperties", ("pool.slice", True, properties)),
        (object_path("pool.slice"), "Get", ("org.freedesktop.systemd1.Slice", "AllowedCPUs")),
    ]


@pytest.mark.trio
async def test_a_slice_without_cpus_of_its_own_has_the_empty_set(tmp_path: Path) -> None:
    """An empty array of bytes."""
    async with bus(tmp_path / "bus", lambda message: new_method_return(message, "v", (("ay", b""),))) as units:
        assert await units.allowed_cpus("pool.slice") == EMPTY


@pytest.mark.trio
@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("org.freedesktop.DBus.Error.AccessDenied", EngineLacks, "run the sidecar as root"),
        ("org.freedesktop.DBus.Error.PropertyReadOnly", EngineLacks, "which came with 244"),
        ("org.freedesktop.DBus.Error.ServiceUnknown", EngineLacks, "no systemd on this bus"),
        ("org.freedesktop.DBus.Error.InvalidArgs", EngineRefused, "systemd refuses the CPUs of pool.slice"),
        ("org.freedesktop.systemd1.Odd", EngineFailed, "did not set the CPUs"),
    ],
)
async def test_an_error_of_systemd_says_what_may_be_done(
    tmp_path: Path, name: str, error: type[EngineError], words: str
) -> None:
    """It contains systemd's own message."""
    async with bus(tmp_path / "bus", lambda message: new_error(message, name, "s", ("because",))) as units:
        with pytest.raises(error, match=words) as raised:
            await units.allow_cpus("pool.slice", CPUSet.of(1))
    assert "because" in str(raised.value)


@pytest.mark.trio
async def test_a_bus_that_is_not_there_says_what_to_mount(tmp_path: Path) -> None:
    """Inside a container there is none unless it is mounted."""
    with pytest.raises(EngineLacks, match="mount /run/dbus/system_bus_socket"):
        await UnitProperties({"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={tmp_path}/none"}).allowed_cpus("a.slice")


@pytest.mark.trio
async def test_an_address_that_is_none_says_what_would_be_one() -> None:
    """Only Unix sockets are supported."""
    with pytest.raises(EngineLacks, match="write unix:path="):
        await UnitProperties({"DBUS_SYSTEM_BUS_ADDRESS": "tcp:host=a,port=1"}).allowed_cpus("a.slice")


@pytest.mark.trio
async def test_a_bus_that_never_answers_is_waited_for_in_bounded_time(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """It counts as unavailable: the order may yet take effect."""
    async with bus(tmp_path / "bus", lambda _: None) as units:
        began = trio.current_time()
        with pytest.raises(EngineUnavailable, match="did not answer"):
            await units.allow_cpus("a.slice", CPUSet.of(1))
        assert trio.current_time() - began == pytest.approx(ANSWER_SECONDS)


@pytest.mark.trio
async def test_something_else_on_the_socket_is_no_bus(tmp_path: Path) -> None:
    """Whatever it sends, it becomes an error of ours."""

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n")

    listener = trio.socket.socket(trio.socket.AF_UNIX)
    await listener.bind(str(tmp_path / "http"))
    listener.listen(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, [trio.SocketListener(listener)])
        with pytest.raises((EngineFailed, EngineUnavailable), match=r"not a D-Bus daemon|broke"):
            await UnitProperties({"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={tmp_path}/http"}).allowed_cpus("a.slice")
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_a_unit_is_described_stopped_and_signalled(tmp_path: Path) -> None:
    """Many descriptions by one connection, in any order of the answers; of one that cannot be loaded there is none."""
    calls: list[tuple[str, tuple[Any, ...]]] = []

    def answer(message: Message) -> Message:
        fields = message.header.fields
        calls.append((fields[HeaderFields.member], message.body))
        if fields[HeaderFields.member] != "GetAll":
            return new_method_return(message, "o", ("/job",))
        if "bad" in fields[HeaderFields.path]:
            return new_error(message, "org.freedesktop.DBus.Error.UnknownObject")
        properties = {
            "FragmentPath": ("s", "/etc/a.service"),
            "DropInPaths": ("as", ["/etc/a.service.d/1.conf"]),
            "InactiveExitTimestamp": ("t", 17),
            "ActiveState": ("s", "inactive"),
            "Job": ("(uo)", (7 if "coming" in fields[HeaderFields.path] else 0, "/")),
        }
        return new_method_return(message, "a{sv}", (properties,))

    files = ("/etc/a.service", "/etc/a.service.d/1.conf")
    names = ["bad.service", "coming.service", *(f"u{number}.service" for number in range(40))]
    async with bus(tmp_path / "bus", answer) as units:
        found = await units.described(names)
        await units.stop("a.service")
        await units.kill("a.service", signal_number("USR1"))
    assert list(found) == names
    assert found["bad.service"] == UnitDescription()
    assert found["coming.service"] == UnitDescription(files, 17, is_coming=True)
    assert found["u39.service"] == UnitDescription(files, 17)
    assert calls[0] == ("GetAll", ("org.freedesktop.systemd1.Unit",))
    assert calls[-2:] == [("StopUnit", ("a.service", "replace")), ("KillUnit", ("a.service", "main", 10))]


def test_each_signal_of_the_labels_has_a_number() -> None:
    assert all(1 <= signal_number(name) <= 64 for name in SIGNALS)
    assert (signal_number("RTMIN+3"), signal_number("RTMAX-2")) == (37, 62)
    with pytest.raises(EngineRefused, match="no signal NONE"):
        signal_number("NONE")
