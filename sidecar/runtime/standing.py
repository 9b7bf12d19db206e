"""The standing order: where a container starts that asks for nothing, known before it comes. Read by fronts.

The daemon keeps it in a file that only root reads, and replaces that by one rename. A front takes it without asking:

1. It opens the file, and takes a shared lock on it. If the file's place has another file by then, it begins again. So
   the daemon, which replaces the file and then finds no lock on the older one, knows that no start by it is to come.
2. It holds the lock until the real runtime has created the container. `runc create` inherits it, and hands it on to no
   container (measured with 1.1.5: neither the waiting init nor the container's process has it). Before any other
   runtime the front stays, as its parent.
3. An order counts only as a whole, if no other user can write it, and as far as its CPUs are online. One from an
   earlier boot counts too, on the same machine: until the daemon speaks, it is the last word.

It runs under any Python from 3.9 on, and imports no more of the standard library than costs nothing.
"""

from __future__ import annotations

import binascii
import fcntl
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

FOLDER = "starts"
"""Below the directory of the sidecar's socket."""

ORDER = "order"
COPY = "order.kept"
"""The same, synced to the disk every now and then: for when a crash of the machine tore the order."""
BEGUN = "begun"
"""The folder with a file for each start by the order: what began with which."""
OWNERS = "owners"
"""What is answered to the starts of owners, while nothing answers (`owner_start`)."""
EXEC = "exec"
"""The folder with a file for each container in which a process begins on some CPUs only (`exec_place`)."""

ASK_ALL, ASK_LABELLED = "all", "labelled"
"""Whether each container is asked for while there is a daemon, or those that labels or limits may mean."""

HEAD = "cpuset-sidecar order 1"
MOST_BYTES = 64 * 1024
HIGH = 200
"""The descriptor of the lock from here on: below are those that an engine hands to a container."""

MOST_CPUS = 65536
"""CPUs of a list have smaller numbers: no list that is written into a bundle makes a set that fills the memory."""

TRIES = 50
BOOT_ID = "/proc/sys/kernel/random/boot_id"
ONLINE = "/sys/devices/system/cpu/online"
CPUSETS = "/sys/fs/cgroup/cpuset"
"""The hierarchy on cgroup v1. There no group can have a CPU that the one above has not: such a start would fail."""

_MACHINE = ("/sys/devices/system/cpu/possible", "/sys/class/dmi/id/product_uuid")


class Order:
    """One order: its number, the CPUs as a list of the kernel's, and of which boot and machine it is."""

    def __init__(self, epoch: int, cpus: str, asks: str, boot: str, machine: str) -> None:
        self.epoch = epoch
        self.cpus = cpus
        self.asks = asks
        self.boot = boot
        self.machine = machine


def encoded(order: Order) -> bytes:
    """Return an order as a file has it: its sum is that of the lines after it."""
    lines = f"epoch {order.epoch}\ncpus {order.cpus}\nasks {order.asks}\nboot {order.boot}\nmachine {order.machine}\n"
    return sealed(HEAD, lines)


def sealed(head: str, lines: str) -> bytes:
    """Return the content of a file with this head, and the sum of these lines before them."""
    return f"{head}\nsum {binascii.crc32(lines.encode()):08x}\n{lines}".encode()


def unsealed(head: str, content: bytes) -> str:
    """Return the lines of a file with this head. Raise ValueError if it is torn, or something else."""
    found, total, rest = content.decode("ascii").split("\n", 2)
    if found != head or total != f"sum {binascii.crc32(rest.encode()):08x}":
        raise ValueError("it is torn, or something else")
    return rest


def decoded(content: bytes) -> Order | None:
    """Return the order in a file; None if it is torn, or something else."""
    try:
        pairs = dict(line.split(" ", 1) for line in unsealed(HEAD, content).splitlines())
        cpus_of(pairs["cpus"])
        return Order(int(pairs["epoch"]), pairs["cpus"], pairs["asks"], pairs["boot"], pairs["machine"])
    except (ValueError, KeyError):
        return None


def boot_of() -> str:
    """Return the id of this boot; "" if it cannot be read."""
    return read(BOOT_ID)


def machine_of() -> str:
    """Return what tells this machine from others: its CPUs, and its own id if that can be read."""
    return " ".join(read(path) for path in _MACHINE).strip()


def taken(folder: str) -> tuple[Order, int] | None:
    """Return the order in force in this folder, with the descriptor that locks it; None if there is none that counts.

    Its CPUs are those that are online. The caller closes the descriptor when the container is created.
    """
    found = locked(f"{folder}/{ORDER}", MOST_BYTES, decoded)
    if found is None:
        return None
    order, opened = found
    cpus = _usable(order)
    if cpus:
        return Order(order.epoch, cpus, order.asks, order.boot, order.machine), opened
    os.close(opened)
    return None


def kept(folder: str) -> Order | None:
    """Return the order that was kept for a crash; None if it does not count. No daemon runs."""
    found = locked(f"{folder}/{COPY}", MOST_BYTES, decoded)
    if found is None:
        return None
    order, opened = found
    os.close(opened)
    cpus = _usable(order)
    return Order(order.epoch, cpus, order.asks, order.boot, order.machine) if cpus else None


def is_private(found: os.stat_result) -> bool:
    """Return whether only this user and root can write something."""
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022


def note(folder: str, container: str, order: Order) -> None:
    """Write down that a container begins by this order, before its runtime runs. Best effort: the lock counts."""
    path = f"{folder}/{BEGUN}/{container}"
    if len(container) != 64 or container.strip("0123456789abcdef"):
        return
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(opened, f"{order.epoch} {os.getpid()} {order.cpus}\n".encode())
        finally:
            os.close(opened)
    except OSError:
        pass


def locked(path: str, most: int, decode: Callable[[bytes], T | None]) -> tuple[T, int] | None:
    """Return what is in a file, of so many bytes at most, with the descriptor that locks it (1)."""
    for _ in range(TRIES):
        try:
            if not is_private(os.stat(os.path.dirname(path))):
                return None
            opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            found = os.fstat(opened)
            if not stat.S_ISREG(found.st_mode) or not is_private(found):
                break
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
            now = os.stat(path, follow_symlinks=False)
            if (now.st_dev, now.st_ino) == (found.st_dev, found.st_ino):
                said = decode(os.read(opened, most))
                if said is None:
                    break
                return said, opened
        except OSError:
            # Its place is empty, or whoever replaced it is just looking for holders.
            pass
        os.close(opened)
    else:
        return None
    os.close(opened)
    return None


def _usable(order: Order) -> str:
    """Return the CPUs of an order that are online, as a list; "" if it does not count here (3)."""
    if order.boot != boot_of() and order.machine != machine_of():
        return ""
    try:
        online = cpus_of(read(ONLINE))
    except ValueError:
        return ""
    return listed(cpus_of(order.cpus) & online)


def within(cpus: str, order: Order) -> str:
    """Return those of a bundle's CPUs that are the order's; all of the order's, if that is none or they are unclear."""
    try:
        return listed(cpus_of(cpus) & cpus_of(order.cpus)) or order.cpus
    except ValueError:
        return order.cpus


def within_above(cpus: str, cgroup: str) -> str:
    """Return those of these CPUs that the nearest group above a container's has that exists; "" for none. On cgroup v2
    the kernel sees to that by itself.
    """
    path, found = group_above(cgroup), ""
    if "\0" in path:
        # No group, and no start.
        return cpus
    while not (found := read(f"{CPUSETS}{path}/cpuset.cpus")) and path:
        path = path.rpartition("/")[0]
    try:
        return listed(cpus_of(cpus) & cpus_of(found)) if found else cpus
    except ValueError:
        return ""


def group_above(cgroup: str) -> str:
    """Return the path of the group above a container's, as runtimes read a `cgroupsPath`: a path, or systemd's slice,
    prefix and name; "" for the root.
    """
    parts = cgroup.split(":")
    if len(parts) == 3:
        name = parts[0].removesuffix(".slice")
        words = name.split("-")
        return "".join(f"/{'-'.join(words[: count + 1])}.slice" for count in range(len(words)))
    found: list[str] = []
    for word in cgroup.split("/"):
        if word == "..":
            found = found[:-1]
        elif word not in ("", "."):
            found.append(word)
    return "".join(f"/{word}" for word in found[:-1])


def cpus_of(text: str) -> set[int]:
    """Return the CPUs of a list of the kernel's. Raise ValueError if it is none."""
    found: set[int] = set()
    text = text.strip(" \t\n\r")
    for part in text.split(",") if text else ():
        first, is_range, last = part.partition("-")
        if not part.isascii() or not first.isdecimal() or (is_range and not last.isdecimal()) or len(part) > 11:
            raise ValueError(f"{text!r} is not a list of CPUs")
        if max(int(first), int(last or first)) >= MOST_CPUS:
            raise ValueError(f"{text!r} has a CPU that no machine has")
        found.update(range(int(first), int(last or first) + 1))
    return found


def listed(cpus: set[int]) -> str:
    """Return CPUs as the kernel lists them."""
    parts: list[str] = []
    ordered = sorted(cpus)
    first = 0
    for place, cpu in enumerate(ordered):
        if place + 1 < len(ordered) and ordered[place + 1] == cpu + 1:
            continue
        begin, first = ordered[first], place + 1
        parts.append(str(begin) if begin == cpu else f"{begin}-{cpu}")
    return ",".join(parts)


def read(path: str) -> str:
    """Return what an attribute of the kernel's says, without blank space around it; "" if it cannot be read."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(opened, MOST_BYTES).decode("ascii", "replace").strip()
        finally:
            os.close(opened)
    except (OSError, ValueError):
        return ""
