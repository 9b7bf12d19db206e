"""Hears CPUs come online and go offline: the kernel's uevents on a netlink socket.

The kernel tells of devices to every program that asks (linux/netlink.h, NETLINK_KOBJECT_UEVENT), by a text that begins
with what happened: `online@/devices/system/cpu/cpu3`. A filter in the kernel lets through what begins so: the network
interfaces of each container that starts wake no program.

Since Linux 4.18 only network namespaces of the first user namespace are told (`kobject_uevent.c`): a program in another
one hears nothing. So it is asked first whose this one is (ioctl_ns(2)).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
from typing import Final

_NETLINK_KOBJECT_UEVENT: Final = 15
_KERNELS_GROUP: Final = 1
_SO_ATTACH_FILTER: Final = 26
_NS_GET_USERNS: Final = 0xB701
_FIRST_USER_NAMESPACE: Final = 0xEFFFFFFD
"""Its inode, fixed (linux/proc_ns.h: PROC_USER_INIT_INO)."""

_LOAD_FIRST_WORD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
"""Instructions of a socket filter (linux/filter.h)."""

_TAKEN_BYTES: Final = 64
"""Of a text. Nothing of it is read: which CPUs are online is looked up."""

_FILTER: Final = b"".join(
    struct.pack("HBBI", *each)
    for each in (
        (_LOAD_FIRST_WORD, 0, 0, 0),
        (_IF_EQUAL, 1, 0, int.from_bytes(b"onli", "big")),
        (_IF_EQUAL, 0, 1, int.from_bytes(b"offl", "big")),
        (_RETURN, 0, 0, _TAKEN_BYTES),
        (_RETURN, 0, 0, 0),
    )
)
"""Each with how many further ones are passed over if the comparison is true, and if it is not."""


class CpuUevents:
    """Ears of this host. Satisfies the port `CpuEars`."""

    def __init__(self) -> None:
        """Raise OSError if the kernel has no such socket, or denies it."""
        program = ctypes.create_string_buffer(_FILTER)
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, _NETLINK_KOBJECT_UEVENT
        )
        try:
            described = struct.pack("@HP", len(_FILTER) // 8, ctypes.addressof(program))
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)
            self._socket.bind((0, _KERNELS_GROUP))
        except OSError:
            self._socket.close()
            raise

    @property
    def fd(self) -> int:
        """Readable when there is something to hear."""
        return self._socket.fileno()

    def drain(self) -> None:
        """Take all that is there. Raise OSError if nothing can be heard any more."""
        while True:
            try:
                self._socket.recv(_TAKEN_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                # Some was lost: that is told once, and is as good as what was lost.
                if error.errno != errno.ENOBUFS:
                    raise

    def close(self) -> None:
        """Hear nothing any more. May be called twice."""
        self._socket.close()


def hear_cpus() -> CpuUevents | None:
    """Return ears of this host's CPUs; None where the kernel would tell them nothing."""
    try:
        return CpuUevents() if _is_told() else None
    except OSError:
        return None


def _is_told() -> bool:
    """Return whether this process's network namespace belongs to the first user namespace. Raise OSError."""
    network = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        owner = fcntl.ioctl(network, _NS_GET_USERNS)
    finally:
        os.close(network)
    try:
        return os.fstat(owner).st_ino == _FIRST_USER_NAMESPACE
    finally:
        os.close(owner)
