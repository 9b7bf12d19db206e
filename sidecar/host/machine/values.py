"""The values in a machine's files: CPU lists, masks and numbers, with a note for each that is nonsense.

And the one rule by which sets of CPUs become groups: the lowest CPU of a group determines its members. The other
members are not read, which is most of the speed of reading a large machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from sidecar.host.machine.sources import Files
from sidecar.words.counts import agree, counted, named
from state.cpuset import CPUSet, union
from state.errors import CPUSetError

_MAX_NONSENSE: Final = 20
"""Notes about single files; the others are only counted, since ten thousand are of no use."""

_MAX_DIGITS: Final = 10
"""Digits of an id: the kernel's are 32 bits wide."""


class MachineFiles:
    """The files of a machine, and the notes from reading them."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._notes: list[str] = []
        self._nonsense: dict[str, str] = {}
        self._parsed: dict[str, CPUSet] = {}

    def note(self, text: str) -> None:
        """Note what was missing or contradictory, and what was assumed instead."""
        self._notes.append(text)

    def note_ignored(self, path: str, why: str) -> None:
        """Note one file that is not used, and why."""
        self._nonsense.setdefault(path, why)

    @property
    def notes(self) -> tuple[str, ...]:
        """All notes: first the single files, then the levels."""
        ignored = {**self.files.passed_over, **self._nonsense}
        shown = [f"{path} is ignored: {why}" for path, why in ignored.items()]
        if more := shown[_MAX_NONSENSE:]:
            shown[_MAX_NONSENSE:] = [f"{counted(len(more), 'more file')} {agree(len(more), 'is', 'are')} ignored"]
        return (*shown, *self._notes)

    def number(self, path: str) -> int | None:
        """Return a number that is not negative; None if there is none, with a note if something else is there.

        -1 is the kernel's value for "unknown".
        """
        text = self.files.value(path)
        if text is None or text == "-1":
            return None
        if text.isdigit() and len(text) <= _MAX_DIGITS:
            return int(text)
        self.note_ignored(path, f"{text[:40]!r} is not a number")
        return None

    def cpus(self, path: str) -> CPUSet | None:
        """Return a list of CPUs, or of nodes, which have the same syntax; None if there is none."""
        text = self.files.value(path)
        return None if text is None else self.parsed(path, text)

    def parsed(self, path: str, text: str) -> CPUSet | None:
        """Return the list that `path` holds; None, with a note, if it is not one."""
        # Some kernels print "(null)" for a missing list (isolated, nohz_full).
        if text == "(null)":
            return None
        # A core's caches, cluster and siblings are one text, read from five files.
        if (known := self._parsed.get(text)) is not None:
            return known
        try:
            found = self._parsed[text] = CPUSet.parse(text)
        except CPUSetError as error:
            self.note_ignored(path, str(error))
            return None
        return found

    def mask(self, path: str) -> CPUSet | None:
        """Return a mask as the kernel prints it: hexadecimal words of 32 bits, highest first, with commas."""
        text = self.files.value(path)
        if text is None:
            return None
        try:
            return CPUSet.from_mask(int(text.replace(",", ""), 16))
        except (ValueError, CPUSetError):
            self.note_ignored(path, f"{text[:40]!r} is not a CPU mask")
            return None

    def naming(self, cpu: int, at: str, lists: tuple[str, ...], masks: tuple[str, ...]) -> CPUSet | None:
        """Return the first of several files in `at` about a CPU's fellows that names the CPU itself; None if none does.

        A file that does not name the CPU is not about it.
        """
        for name in lists:
            found = self.cpus(f"{at}/{name}")
            if found and cpu in found:
                return found
        for name in masks:
            found = self.mask(f"{at}/{name}")
            if found and cpu in found:
                return found
        return None


class Grouped(NamedTuple):
    """Groups by ascending lowest CPU. `alone`: CPUs that reported no fellows, and that no lower CPU named. `disputed`:
    CPUs that a second group names too.
    """

    groups: list[CPUSet]
    alone: CPUSet
    disputed: CPUSet


def grouped(cpus: CPUSet, fellows: Callable[[int], CPUSet | None]) -> Grouped:
    """Return groups that hold each of `cpus` once; a group's lowest CPU determines its members, or is alone."""
    groups: list[CPUSet] = []
    left, alone, disputed = cpus.mask, 0, 0
    while left:
        lowest = left & -left
        named = fellows(lowest.bit_length() - 1)
        if named is None:
            alone |= lowest
            mask = lowest
        else:
            mask = (named.mask | lowest) & cpus.mask
            disputed |= mask & ~left
            mask &= left
        groups.append(CPUSet.from_mask(mask))
        left &= ~mask
    return Grouped(groups, CPUSet.from_mask(alone), CPUSet.from_mask(disputed))


def say_disputed(told: MachineFiles, level: str, disputed: CPUSet) -> None:
    """Note the CPUs that two groups name."""
    if disputed:
        told.note(
            f"{named(disputed)} {agree(len(disputed), 'is', 'are')} named in more than one {level}: the lowest counts"
        )


def completed(
    told: MachineFiles, found: dict[int, CPUSet], online: CPUSet, level: str, missing: str
) -> dict[int, CPUSet] | None:
    """Return the groups, with CPUs that no group names put into the lowest; None, with the note `missing`, if there are
    none.
    """
    if not found:
        told.note(missing)
        return None
    if untold := online - union(found.values()):
        lowest = min(found)
        told.note(f"{named(untold)} {agree(len(untold), 'is', 'are')} in no {level}: counted in {level} {lowest}")
        found[lowest] |= untold
    return found
