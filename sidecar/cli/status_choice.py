"""Which containers and units `status` and `top` show, and what a wide table has more of each."""

from __future__ import annotations

import argparse
import contextlib
from fnmatch import fnmatchcase
from typing import Final, TypeVar

import msgspec

from sidecar.cli.arguments import typed
from sidecar.failures import Misuse
from sidecar.readers import cpu_list
from sidecar.status.document import ContainerStatus, SharingStatus, Status
from sidecar.status.status_file import read_status
from sidecar.words.machine_text import no_cpu
from state.cpuset import CPUSet
from state.errors import StateError

S = TypeVar("S", bound=Status)


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A choice: only owners and what asks to be one, only what may run on one of some CPUs, only one project's; and all
    of these together. A project may have `*` and `?`, as in rules.
    """

    is_owner_only: bool = False
    cpus: CPUSet | None = None
    project: str = ""

    def of(self, status: S) -> S:
        """Return the document with what is chosen; the machine and the daemon's own problems stay."""
        return msgspec.structs.replace(
            status,
            containers=tuple(each for each in status.containers if self.has(each)),
            units=tuple(each for each in status.units if self.has(each)),
        )

    def has(self, each: ContainerStatus) -> bool:
        """Return whether a container or unit is chosen."""
        is_there = self.cpus is None or not self.cpus.isdisjoint(each.cpus | each.granted | each.pinned)
        is_of_it = not self.project or fnmatchcase(each.project, self.project)
        return is_there and is_of_it and (is_owner(each) or not self.is_owner_only)

    @property
    def words(self) -> tuple[str, ...]:
        """What is true of each that is chosen, as the end of "only what"."""
        told = ["has or asks for CPUs of its own"] if self.is_owner_only else []
        told += [f"may run on CPU {self.cpus}"] if self.cpus is not None else []
        return (*told, *([f"is of the project {self.project!r}"] if self.project else []))


ALL: Final = Choice()


def is_owner(each: ContainerStatus) -> bool:
    """Return whether it has CPUs of its own, or asks for some."""
    return bool(each.asked or each.granted) or each.sharing is SharingStatus.EXCLUSIVE


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a choice."""
    parser.add_argument(
        "--exclusive", action="store_true", help="only containers and units that have or ask for CPUs of their own"
    )
    parser.add_argument(
        "--cpu", type=typed("--cpu", cpu_list), metavar="CPUS", help="only those that may run on one of these CPUs"
    )
    parser.add_argument(
        "--project", metavar="NAME", default="", help="only those of this project of compose, or stack; with * and ?"
    )


def choice_of(args: argparse.Namespace, state_dir: str) -> Choice:
    """Return what these flags choose. Misuse for a CPU that the daemon's machine does not have: nothing runs there."""
    if args.cpu is not None:
        with contextlib.suppress(StateError):
            machine = read_status(state_dir).machine
            known = machine.online | machine.offline
            if unknown := args.cpu - known:
                raise Misuse(f"--cpu is {args.cpu}, and {no_cpu(str(unknown), known)}")
    return Choice(is_owner_only=args.exclusive, cpus=args.cpu, project=args.project)


def wide_cells(each: ContainerStatus) -> tuple[str, str, str, str]:
    """Return project, size, range and use."""
    size = str(len(each.granted)) if each.granted else f"0 of {each.asked}" if each.asked else "-"
    use = f"{each.load.use:.1f}" if each.load else "-"
    return each.project or "-", size, f"{each.floor}-{each.ceiling}" if each.ceiling else "-", use
