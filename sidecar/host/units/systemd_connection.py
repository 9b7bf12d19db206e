"""One connection to systemd that is kept: calls side by side, and hints of units that come or change (decision 0068).

The daemon takes the hints from it, and sets CPUs by calls of their own (`unit_properties`). Where the connection
breaks, each waiting call fails and the hints end. Units may have come meanwhile, so its user connects again and looks
at all of them, as after a hint that found no room: it is dropped, and `has_missed` says so until it is asked.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import trio

from sidecar.failures import EngineError, EngineLacks, EngineUnavailable
from sidecar.host.units.unit_properties import (
    ANSWER_SECONDS,
    SYSTEM_BUS,
    Call,
    body_of,
    socket_of,
    some_bytes,
)
from state import files

if TYPE_CHECKING:
    from jeepney import Message

_NAME: Final = "org.freedesktop.systemd1"
_OBJECT: Final = "/org/freedesktop/systemd1"
_MANAGER: Final = f"{_NAME}.Manager"
_PROPERTIES: Final = "org.freedesktop.DBus.Properties"
_OF_MANAGER: Final = f"type='signal',sender='{_NAME}',interface='{_MANAGER}',member="
_RULES: Final = (
    f"{_OF_MANAGER}'UnitNew'",
    f"{_OF_MANAGER}'Reloading'",
    f"type='signal',sender='{_NAME}',interface='{_PROPERTIES}',member='PropertiesChanged',arg0='{_NAME}.Unit'",
)
_UNITS: Final = f"{_OBJECT}/unit/"
_ESCAPED: Final = re.compile(rb"_([0-9a-f]{2})")
_UP: Final = ("active", "activating", "reloading")
_HINTS: Final = 1024


class UnitHint(NamedTuple):
    """What systemd told of a unit, by its name: that it is loaded (`is_new`), or that it changed, and runs now or is
    about to if it `is_up`. A hint without a name is none, but for what goes with it (`has_reread`).
    """

    name: str
    is_new: bool = False
    is_up: bool = False


class SystemdConnection:
    """systemd, by one connection. Made by `connected`."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._serials = itertools.count(1)
        self._waiting: dict[int, tuple[trio.Event, list[Message]]] = {}
        self._sending = trio.Lock()
        self._broken = ""
        self._has_missed = False
        self._has_reread = False
        self._hint, self.hints = trio.open_memory_channel[UnitHint](_HINTS)

    async def subscribe(self) -> None:
        """Have the bus and systemd tell of units that come or change from now on."""
        bus = "org.freedesktop.DBus"
        for rule in _RULES:
            await self.ask("new units", Call("/org/freedesktop/DBus", bus, "AddMatch", "s", (rule,)), to=bus)
        await self.ask("new units", Call(_OBJECT, _MANAGER, "Subscribe", "", ()))

    def has_missed(self) -> bool:
        """Return whether hints were dropped since the last time this was asked."""
        missed, self._has_missed = self._has_missed, False
        return missed

    def has_reread(self) -> bool:
        """Return whether systemd read files of units again since the last time this was asked."""
        reread, self._has_reread = self._has_reread, False
        return reread

    async def ask(self, about: str, call: Call, *, to: str = _NAME) -> tuple[Any, ...]:
        """Return the answer to a call. Raise our errors for systemd's, and EngineUnavailable without an answer."""
        from jeepney import DBusAddress, new_method_call

        message = new_method_call(
            DBusAddress(call.path, bus_name=to, interface=call.interface),
            call.method,
            call.signature or None,
            call.arguments,
        )
        answer: list[Message] = []
        serial, arrived = next(self._serials), trio.Event()
        self._waiting[serial] = (arrived, answer)
        try:
            with trio.fail_after(ANSWER_SECONDS):
                await self._send(message, serial)
                await arrived.wait()
        except trio.TooSlowError as error:
            raise EngineUnavailable(f"systemd did not answer within {ANSWER_SECONDS:g} s") from error
        finally:
            del self._waiting[serial]
        if not answer:
            raise EngineUnavailable(f"the connection to systemd broke: {self._broken}")
        return body_of(answer[0], about)

    async def _send(self, message: Message, serial: int) -> None:
        """Send a whole message: one that is cut short would garble all that follow, so the connection ends with it."""
        async with self._sending:
            if self._broken:
                raise EngineUnavailable(f"the connection to systemd broke: {self._broken}")
            is_whole = False
            try:
                await self._stream.send_all(message.serialise(serial=serial))
                is_whole = True
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise EngineUnavailable(f"the connection to systemd broke: {error!r:.200}") from error
            finally:
                if not is_whole:
                    self._end("a message was cut short")
                    await trio.aclose_forcefully(self._stream)

    async def read(self) -> None:
        """Hand out what arrives, until the connection ends."""
        from jeepney.low_level import Parser

        parser = Parser()
        try:
            while True:
                parser.add_data(await some_bytes(self._stream), fds=[])
                while (message := parser.get_next_message()) is not None:
                    self._take(message)
        except (OSError, EOFError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._end(f"{error!r:.200}")
        except (ValueError, TypeError, struct.error) as error:
            self._end(f"what answers is not a D-Bus daemon: {error!r:.200}")

    def _take(self, message: Message) -> None:
        from jeepney import HeaderFields, MessageType

        fields = message.header.fields
        if found := self._waiting.get(int(fields.get(HeaderFields.reply_serial, 0))):
            found[1].append(message)
            found[0].set()
        elif message.header.message_type is MessageType.signal:
            member, path = fields.get(HeaderFields.member), str(fields.get(HeaderFields.path, ""))
            if member == "UnitNew":
                self._send_hint(UnitHint(str(message.body[0]), is_new=True))
            elif member == "PropertiesChanged" and path.startswith(_UNITS):
                state = message.body[1].get("ActiveState", ("s", ""))[1]
                self._send_hint(UnitHint(_unit_at(path), is_up=state in _UP))
            elif member == "Reloading" and not message.body[0]:
                self._has_reread = True
                self._send_hint(UnitHint(""))

    def _send_hint(self, hint: UnitHint) -> None:
        try:
            self._hint.send_nowait(hint)
        except (trio.WouldBlock, trio.BrokenResourceError):
            self._has_missed = True

    def _end(self, why: str) -> None:
        self._broken = self._broken or why
        for arrived, _ in self._waiting.values():
            arrived.set()
        self._hint.close()


def _unit_at(path: str) -> str:
    """Return the unit of an object (`object_path`)."""
    escaped = path.removeprefix(_UNITS).encode("ascii", "replace")
    parts = _ESCAPED.split(escaped)
    whole = b"".join(bytes([int(part, 16)]) if odd % 2 else part for odd, part in enumerate(parts))
    return whole.decode("utf-8", "replace")


@asynccontextmanager
async def connected(environ: Mapping[str, str] | None = None) -> AsyncIterator[SystemdConnection]:
    """Provide a connection to the system's bus. Raise EngineLacks if there is none, EngineUnavailable if silent."""
    address = (environ or {}).get("DBUS_SYSTEM_BUS_ADDRESS", "") or f"unix:path={SYSTEM_BUS}"
    try:
        with trio.fail_after(ANSWER_SECONDS):
            stream = await trio.open_unix_socket(socket_of(address))
            await _authenticated(stream)
    except (FileNotFoundError, ConnectionRefusedError, PermissionError) as error:
        raise EngineLacks(f"systemd cannot be reached at {address}: {files.reason(error)}") from error
    except trio.TooSlowError as error:
        raise EngineUnavailable(f"the bus did not answer within {ANSWER_SECONDS:g} s") from error
    except (OSError, EOFError, trio.BrokenResourceError) as error:
        raise EngineUnavailable(f"the connection to systemd at {address} broke: {error!r:.200}") from error
    connection = SystemdConnection(stream)
    failed: EngineError | None = None
    hello = Call("/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello", "", ())
    async with stream, trio.open_nursery() as nursery:
        nursery.start_soon(connection.read)
        try:
            await connection.ask("the bus", hello, to="org.freedesktop.DBus")
            yield connection
        except EngineError as error:
            # Raised here it would be in a group, and no caller expects that.
            failed = error
        nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed


async def _authenticated(stream: trio.SocketStream) -> None:
    from jeepney.auth import BEGIN, Authenticator

    await stream.send_all(b"\0")
    authenticator = Authenticator(enable_fds=False, inc_null_byte=False)
    for line in authenticator:
        await stream.send_all(line)
        authenticator.feed(await some_bytes(stream))
    await stream.send_all(BEGIN)
