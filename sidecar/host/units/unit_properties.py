"""Properties of systemd's units, over D-Bus: the CPUs that a unit may use, its files, and its state
(org.freedesktop.systemd1(5)).

One connection per call: calls are seconds or more apart, and the bus may restart in between. The
library builds and reads the messages, and is imported with the first call; the socket is trio's, so that every wait
can be bounded.

systemd takes CPUs as bytes, the lowest CPU in the lowest bit of the first.
"""

from __future__ import annotations

import signal as signals
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import trio

from sidecar.failures import EngineFailed, EngineLacks, EngineRefused, EngineUnavailable
from state import files
from state.cpuset import EMPTY, CPUSet

if TYPE_CHECKING:
    from jeepney import Message
    from jeepney.low_level import Parser

SYSTEM_BUS: Final = "/run/dbus/system_bus_socket"
"""Where the bus listens unless DBUS_SYSTEM_BUS_ADDRESS is set (D-Bus specification)."""

ANSWER_SECONDS: Final = 10.0
"""How long the bus and systemd may take, each: a daemon-reload on a busy host takes a second or two."""

PATIENT_SECONDS: Final = 60.0
"""The same where nothing waits for the answer. A systemd that gets no CPU would do the same work twice for a call that
is repeated earlier (seen with ten services that spin, on an emulated machine).
"""

_NAME: Final = "org.freedesktop.systemd1"
_OBJECT: Final = "/org/freedesktop/systemd1"
_LACKING: Final = ("org.freedesktop.DBus.Error.PropertyReadOnly", "org.freedesktop.DBus.Error.UnknownProperty")
_DENIED: Final = (
    "org.freedesktop.DBus.Error.AccessDenied",
    "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired",
)
_WRONG: Final = ("org.freedesktop.DBus.Error.InvalidArgs", "org.freedesktop.systemd1.BadUnitSetting")
_ABSENT: Final = ("org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner")


_UNIT: Final = f"{_NAME}.Unit"
_UNCOMING: Final = ("inactive", "failed", "deactivating")
_AT_ONCE: Final = 32
"""Questions that are sent before the first of their answers is read: each answer has some ten KiB."""


class UnitDescription(NamedTuple):
    """What systemd says of a unit: its files in the order in which it reads them; when its present run, or its last
    one, began, in microseconds since 1970, 0 if it has not run since it was loaded; and whether it runs or is about to.
    """

    files: tuple[str, ...] = ()
    started: int = 0
    is_coming: bool = False


class UnitProperties:
    """systemd, by its bus."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        key: str = "shared_slice",
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        """Make it; `key` is that of the configuration for which it is asked."""
        self._key = key
        self._answer_seconds = answer_seconds
        told = (environ or {}).get("DBUS_SYSTEM_BUS_ADDRESS", "")
        self._address = told or f"unix:path={SYSTEM_BUS}"

    async def allowed_cpus(self, unit: str) -> CPUSet:
        """Return the AllowedCPUs of a slice, which need not run; the empty set if it has none."""
        arguments = (f"{_NAME}.Slice", "AllowedCPUs")
        body = await self._ask(unit, Call(object_path(unit), "org.freedesktop.DBus.Properties", "Get", "ss", arguments))
        return _set_of(body)

    async def allow_cpus(self, unit: str, cpus: CPUSet) -> None:
        """Set the AllowedCPUs of a unit until the next reboot."""
        arguments = (unit, True, [("AllowedCPUs", ("ay", bytes_of(cpus)))])
        await self._ask(unit, Call(_OBJECT, f"{_NAME}.Manager", "SetUnitProperties", "sba(sv)", arguments))

    async def stop(self, unit: str) -> None:
        """Stop a unit, as `systemctl stop` does."""
        await self._ask(unit, Call(_OBJECT, f"{_NAME}.Manager", "StopUnit", "ss", (unit, "replace")), "stop")

    async def kill(self, unit: str, signal: int) -> None:
        """Send a signal to the main process of a unit."""
        arguments = (unit, "main", signal)
        await self._ask(unit, Call(_OBJECT, f"{_NAME}.Manager", "KillUnit", "ssi", arguments), "signal")

    async def described(self, units: Sequence[str]) -> dict[str, UnitDescription]:
        """Return what systemd says of each unit: nothing of one that it cannot load. It loads those that are not."""
        found: dict[str, UnitDescription] = {}
        for first in range(0, len(units), _AT_ONCE):
            some = units[first : first + _AT_ONCE]
            calls = [
                Call(object_path(each), "org.freedesktop.DBus.Properties", "GetAll", "s", (_UNIT,)) for each in some
            ]
            answers = await self._answers_to(calls)
            found |= {each: _description_of(answer) for each, answer in zip(some, answers, strict=True)}
        return found

    async def _ask(self, unit: str, call: Call, act: str = "set the CPUs of") -> tuple[Any, ...]:
        return body_of((await self._answers_to([call]))[0], unit, self._key, act)

    async def _answers_to(self, calls: Sequence[Call]) -> list[Message]:
        try:
            with trio.fail_after(self._answer_seconds):
                return await _answers(socket_of(self._address), calls)
        except (FileNotFoundError, ConnectionRefusedError, PermissionError) as error:
            raise EngineLacks(
                f"systemd cannot be reached at {self._address}: {files.reason(error)}: mount {SYSTEM_BUS} into the "
                f"sidecar's container and run as root there, or leave {self._key} out"
            ) from error
        except trio.TooSlowError as error:
            raise EngineUnavailable(f"systemd did not answer within {self._answer_seconds:g} s") from error
        except (OSError, trio.BrokenResourceError, EOFError) as error:
            raise EngineUnavailable(f"the connection to systemd at {self._address} broke: {error!r:.200}") from error
        except (ValueError, TypeError, struct.error) as error:
            raise EngineFailed(f"what answers at {self._address} is not a D-Bus daemon: {error!r:.200}") from error


class Call(NamedTuple):
    """A method call: its object, interface and method, and its arguments with their D-Bus signature."""

    path: str
    interface: str
    method: str
    signature: str
    arguments: tuple[Any, ...]


def bytes_of(cpus: CPUSet) -> bytes:
    """Return the set as systemd takes it."""
    return cpus.mask.to_bytes((cpus.mask.bit_length() + 7) // 8, "little")


def signal_number(name: str) -> int:
    """Return the number of a signal (`HUP`, `RTMIN+3`). Raise EngineRefused if this machine has none of this name."""
    head, sign, offset = name.replace("-", "+-").partition("+")
    number = getattr(signals, f"SIG{head}", None)
    if number is None:
        raise EngineRefused(f"there is no signal {name}")
    return int(number) + (int(offset) if sign else 0)


def object_path(unit: str) -> str:
    """Return the object of a unit: every character but letters and digits becomes _ and two hexadecimal digits."""
    escaped = "".join(each if each.isascii() and each.isalnum() else f"_{ord(each):02x}" for each in unit)
    return f"{_OBJECT}/unit/{escaped}"


def _set_of(body: tuple[Any, ...]) -> CPUSet:
    try:
        ((_, content),) = body
        return CPUSet.from_mask(int.from_bytes(bytes(content), "little")) if content else EMPTY
    except (TypeError, ValueError) as error:
        raise EngineFailed("the answer of systemd about AllowedCPUs cannot be understood") from error


def _description_of(answer: Message) -> UnitDescription:
    from jeepney import MessageType

    if answer.header.message_type is MessageType.error:
        return UnitDescription()
    try:
        (properties,) = answer.body
        told = {name: value for name, (_, value) in properties.items()}
        paths = (str(told.get("FragmentPath", "")), *map(str, told.get("DropInPaths", ())))
        has_job = bool(told.get("Job", (0, ""))[0])
        return UnitDescription(
            files=tuple(filter(None, paths)),
            started=int(told.get("InactiveExitTimestamp", 0)),
            is_coming=has_job or told.get("ActiveState", "inactive") not in _UNCOMING,
        )
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise EngineFailed("the answer of systemd about a unit cannot be understood") from error


def socket_of(address: str) -> str:
    """Return the path of the first Unix socket in a D-Bus address. Raise EngineLacks if there is none."""
    from jeepney.bus import get_connectable_addresses

    try:
        return str(next(get_connectable_addresses(address)))
    except (RuntimeError, ValueError) as error:
        raise EngineLacks(
            f"DBUS_SYSTEM_BUS_ADDRESS is {address!r:.100}: write unix:path=/path/to/the/socket"
        ) from error


async def _answers(path: str, calls: Sequence[Call]) -> list[Message]:
    """Make calls on a connection of their own: 1. authenticate, 2. say hello, as the bus demands, 3. ask. Return the
    replies in the order of the calls.
    """
    from jeepney import DBusAddress, message_bus, new_method_call
    from jeepney.auth import BEGIN, Authenticator
    from jeepney.low_level import Parser

    async with await trio.open_unix_socket(path) as stream:
        await stream.send_all(b"\0")  # (1)
        authenticator = Authenticator(enable_fds=False, inc_null_byte=False)
        for line in authenticator:
            await stream.send_all(line)
            authenticator.feed(await some_bytes(stream))
        await stream.send_all(BEGIN)
        parser = Parser()
        await _replies(stream, parser, [message_bus.Hello()], first=1)  # (2)
        messages = [
            new_method_call(
                DBusAddress(call.path, bus_name=_NAME, interface=call.interface),
                call.method,
                call.signature,
                call.arguments,
            )
            for call in calls
        ]
        return await _replies(stream, parser, messages, first=2)  # (3)


async def _replies(
    stream: trio.SocketStream, parser: Parser, messages: Sequence[Message], *, first: int
) -> list[Message]:
    """Return the answers to messages, which have serial numbers from `first` on; other messages from the bus are
    ignored.
    """
    from jeepney import HeaderFields

    await stream.send_all(b"".join(each.serialise(serial=first + number) for number, each in enumerate(messages)))
    found: dict[int, Message] = {}
    while len(found) < len(messages):
        while (answer := parser.get_next_message()) is not None:
            serial = int(answer.header.fields.get(HeaderFields.reply_serial, 0))
            if first <= serial < first + len(messages):
                found[serial] = answer
        if len(found) < len(messages):
            parser.add_data(await some_bytes(stream), fds=[])
    return [found[serial] for serial in sorted(found)]


async def some_bytes(stream: trio.SocketStream) -> bytes:
    """Return the next bytes. Raise EOFError at the end."""
    received = bytes(await stream.receive_some(4096))
    if not received:
        raise EOFError("it was closed")
    return received


def body_of(reply: Message, unit: str, key: str = "shared_slice", act: str = "set the CPUs of") -> tuple[Any, ...]:
    """Return the content of a reply; raise our error for its error, by what can be done about it. `key` is that of the
    configuration for which it was asked, and `act` what was to be done to the unit.
    """
    from jeepney import HeaderFields, MessageType

    if reply.header.message_type is not MessageType.error:
        return tuple(reply.body)
    name = str(reply.header.fields.get(HeaderFields.error_name, ""))
    words = str(reply.body[0])[:200] if reply.body else name
    if name in _DENIED:
        raise EngineLacks(f"systemd denies setting the CPUs of {unit} ({words}): run the sidecar as root")
    if name in _LACKING:
        raise EngineLacks(f"this systemd has no AllowedCPUs, which came with 244 ({words}): leave {key} out")
    if name in _ABSENT:
        raise EngineLacks(f"there is no systemd on this bus ({words}): leave {key} out")
    if name in _WRONG:
        raise EngineRefused(f"systemd refuses the CPUs of {unit}: {words}")
    raise EngineFailed(f"systemd did not {act} {unit}: {words}")
