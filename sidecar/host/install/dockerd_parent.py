"""The default cgroup parent of a Docker engine, as its daemon was given it: the API does not tell it.

A daemon on the same host is found by its socket: it is the `dockerd` that has that socket open to accept connections.
So none is taken for another one. From inside a container no process of the host is to be seen, and nothing is found.

`proc` is laid out as proc(5) says: a process's `net/unix` has a line for each socket of its network namespace, with its
flags, inode and path, and `root` leads to the files that the process sees.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from sidecar.failures import ConfigError
from sidecar.host.install.daemon_json import DAEMON_JSON, decode_settings

_ACCEPTS: Final = 0x10000
"""The flag of a socket that accepts connections (`__SO_ACCEPTCON` of the kernel)."""

_LIMIT: Final = 1024 * 1024
_KEY: Final = "cgroup-parent"


def flag_of(words: Sequence[str], name: str) -> str | None:
    """Return the value of a flag of dockerd in the words of its command line; None where it is not given."""
    for place, word in enumerate(words):
        if word.startswith(f"--{name}="):
            return word.partition("=")[2]
        if word == f"--{name}" and place + 1 < len(words):
            return words[place + 1]
    return None


def parents_given(addresses: Iterable[str], proc: str = "/proc") -> tuple[str, ...]:
    """Return the default cgroup parents, paths or slices, of those of these engines whose dockerd runs here and was
    given one. `addresses` are like `unix:///run/docker.sock`.
    """
    paths = [address.removeprefix("unix://") for address in addresses if address.startswith("unix://")]
    pids = (pid for pid in _daemons(proc) if any(_accepts_at(pid, path, proc) for path in paths))
    return tuple(dict.fromkeys(parent for pid in pids if (parent := _given(pid, proc))))


def _accepts_at(pid: str, path: str, proc: str) -> bool:
    """Return whether a process accepts connections at this path, which may be another one where the process is."""
    return any(_is_same(f"{proc}/{pid}/root{place}", path) for place in _accepting(pid, proc))


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _accepting(pid: str, proc: str) -> Iterator[str]:
    """Yield the paths, as the process sees them, at which it has a socket open that accepts connections."""
    is_open = _sockets_of(pid, proc)
    with suppress(OSError), open(f"{proc}/{pid}/net/unix", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            fields = line.rstrip("\n").split(maxsplit=7)
            if len(fields) == 8 and _is_accepting(fields[3]) and fields[6] in is_open:
                yield os.path.abspath(fields[7])


def _is_accepting(flags: str) -> bool:
    try:
        return bool(int(flags, 16) & _ACCEPTS)
    except ValueError:
        return False


def _daemons(proc: str) -> Iterator[str]:
    """Yield the ids of the processes that are called dockerd."""
    with suppress(OSError):
        for pid in filter(str.isdecimal, os.listdir(proc)):
            with suppress(OSError), open(f"{proc}/{pid}/comm", encoding="utf-8", errors="replace") as file:
                if file.read(32).strip() == "dockerd":
                    yield pid


def _sockets_of(pid: str, proc: str) -> frozenset[str]:
    """Return the inodes of the sockets that a process has open; none if that may not be read."""
    found = set[str]()
    with suppress(OSError):
        for name in os.listdir(f"{proc}/{pid}/fd"):
            with suppress(OSError):
                target = os.readlink(f"{proc}/{pid}/fd/{name}")
                if target.startswith("socket:["):
                    found.add(target[len("socket:[") : -1])
    return frozenset(found)


def _given(pid: str, proc: str) -> str:
    """Return what its command line or its file gives a dockerd; "" for nothing that can be read."""
    try:
        with open(f"{proc}/{pid}/cmdline", "rb") as file:
            words = file.read(_LIMIT).decode(errors="replace").split("\0")
        if parent := flag_of(words, _KEY):
            return parent
        path = flag_of(words, "config-file") or DAEMON_JSON
        with open(f"{proc}/{pid}/root{os.path.abspath(path)}", "rb") as file:
            set_there = decode_settings(file.read(_LIMIT), path).get(_KEY)
    except (OSError, ConfigError):
        return ""
    return set_there if isinstance(set_there, str) else ""
