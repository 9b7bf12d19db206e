"""A virtual machine, as a value, and the program that runs one: `vmrun`, which is not part of this project."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[2]

_VARIABLE: Final = "VMRUN"


_PACKAGES: Final = (
    "docker-buildx",
    "docker-compose",
    "uidmap",
    "dbus-user-session",
    "libpam-systemd",
    "passt",
    "catatonit",
)
"""Besides engines: for builds, for Compose, for pods, and for a user's own Podman."""


class NoMachines(Exception):
    """The reason why no virtual machine can run here, as a sentence with its cure."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The emulated machine. `order` is how its kernel numbers the CPUs; `init` decides the engines' cgroup driver."""

    sockets: int = 2
    cores: int = 2
    threads: int = 2
    nodes: int = 2
    order: str = "split"
    init: str = "systemd"
    append: str = ""
    memory: int = 3072

    @property
    def driver(self) -> str:
        """The cgroup driver that engines choose under this init."""
        return "systemd" if self.init == "systemd" else "cgroupfs"

    @property
    def words(self) -> str:
        """Describe the machine in a few words."""
        shape = f"{self.sockets} sockets x {self.cores} cores x {self.threads} threads, {self.nodes} nodes"
        return f"{shape}, {self.init}{', ' + self.append if self.append else ''}"

    def arguments(self) -> list[str]:
        """Return `vmrun`'s arguments for it. A snapshot of the booted machine is kept for the next run."""
        return [
            *("--smp", f"sockets={self.sockets},cores={self.cores},threads={self.threads}"),
            *("--numa", str(self.nodes), "--order", self.order, "--init", self.init),
            *("--memory", str(self.memory), "--packages", " " + " ".join(_PACKAGES), "--warm"),
            *(("--append", self.append) if self.append else ()),
        ]


def find_vmrun() -> str:
    """Return the path of `vmrun`. Raises NoMachines."""
    asked = os.environ.get(_VARIABLE)
    beside = ROOT.parent / "shared" / "vm" / "vmrun"
    path = Path(asked) if asked else beside
    if not os.access(path, os.X_OK):
        where = f"{_VARIABLE} says {asked}, which" if asked else f"{beside}"
        raise NoMachines(
            f"{where} is no program: virtual machines are made by vmrun; say where it is: {_VARIABLE}=/path/to/vmrun"
        )
    if os.geteuid() != 0:
        raise NoMachines("vmrun builds its image as root: run this as root")
    return str(path)


def command_line(
    vmrun: str, machine: Machine, *, share: Path, out: Path, seconds: float, inside: Sequence[str]
) -> list[str]:
    """Return the whole command that boots the machine, runs a command in it, and brings its /out back."""
    return [
        vmrun,
        *machine.arguments(),
        *("--share", f"{share}:/share", "--out", str(out), "--timeout", f"{seconds:g}"),
        "--",
        shlex.join(inside),
    ]
