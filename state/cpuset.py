"""CPUSet: an immutable set of CPU numbers, as one integer mask; the kernel's list syntax in and out.

Bit n of the mask is CPU n (a logical CPU, as the kernel numbers it). Algebra is integer algebra, so a set of a
thousand CPUs costs what a set of eight costs. Walking the members one by one is the slow way: prefer masks.

The list syntax is that of cpuset(7) "List format": decimal numbers and ranges joined by commas, `0-3,8`. White
space around the whole text is ignored, since the kernel's files end in a newline; inside it is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from state.errors import CPUSetError

MAX_CPU: Final = 8191
"""The highest CPU number: CONFIG_NR_CPUS goes up to 8192 on x86-64, and engines refuse more."""

_MAX_TEXT: Final = 64 * 1024
"""Characters. All of 8192 CPUs written one by one, with commas, need 40 KiB."""

_TEXTS: Final = 256
"""Texts that are kept: more than there are different sets in most decisions, and 10 MiB of the longest ones."""


class CPUSet:
    """A set of CPU numbers, 0 to 8191. Immutable, hashable, ordered by its members for sorting."""

    __slots__ = ("mask",)

    mask: int

    def __init__(self, cpus: Iterable[int] = ()) -> None:
        mask = 0
        for cpu in cpus:
            mask |= 1 << _checked(cpu)
        object.__setattr__(self, "mask", mask)

    @classmethod
    def of(cls, *cpus: int) -> CPUSet:
        """Return the set of the given CPU numbers: `CPUSet.of(0, 2)`."""
        return cls(cpus)

    @classmethod
    def from_mask(cls, mask: int) -> CPUSet:
        """Return the set whose members are the set bits of `mask`. Raise CPUSetError if it is negative or beyond CPU
        8191.
        """
        if mask < 0 or mask >> (MAX_CPU + 1):
            raise CPUSetError(f"a CPU mask holds CPUs 0 to {MAX_CPU}; this one does not fit")
        return _made(mask)

    @classmethod
    def parse(cls, text: str) -> CPUSet:
        """Read the kernel's list syntax, `"0-3,8"`. The empty text is the empty set. Raise CPUSetError for anything
        else.
        """
        text = text.strip()
        if len(text) > _MAX_TEXT:
            raise CPUSetError(f"a CPU list of {len(text)} characters is too long to be one")
        mask = 0
        if text:
            for part in text.split(","):
                mask |= _parse_part(part, text)
        return cls.from_mask(mask)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a CPUSet does not change; make a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a CPUSet does not change; make a new one")

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return (CPUSet.from_mask, (self.mask,))

    def __str__(self) -> str:
        return _text(self.mask)

    def __repr__(self) -> str:
        shown = str(self)
        return f"CPUSet({shown!r})" if len(shown) <= 80 else f"CPUSet({shown[:76]!r}...)"

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield the first and last CPU of each unbroken run, ascending: `0-3,8` gives (0, 3) and (8, 8)."""
        return _runs(self.mask)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.runs():
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __bool__(self) -> bool:
        return self.mask != 0

    def __contains__(self, cpu: object) -> bool:
        return isinstance(cpu, int) and 0 <= cpu <= MAX_CPU and self.mask >> cpu & 1 == 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CPUSet) and self.mask == other.mask

    def __hash__(self) -> int:
        return hash(("CPUSet", self.mask))

    def __or__(self, other: CPUSet) -> CPUSet:
        return _made(self.mask | other.mask)

    def __and__(self, other: CPUSet) -> CPUSet:
        return _made(self.mask & other.mask)

    def __sub__(self, other: CPUSet) -> CPUSet:
        return _made(self.mask & ~other.mask)

    def __le__(self, other: CPUSet) -> bool:
        """Return whether every member is in `other`."""
        return self.mask & ~other.mask == 0

    def __ge__(self, other: CPUSet) -> bool:
        """Return whether this set has every member of `other`."""
        return other.mask & ~self.mask == 0

    def isdisjoint(self, other: CPUSet) -> bool:
        """Return whether the two have no CPU in common."""
        return self.mask & other.mask == 0

    def lowest(self) -> int:
        """Return the lowest CPU number. Raise CPUSetError for the empty set."""
        if not self.mask:
            raise CPUSetError("the empty CPU set has no lowest CPU")
        return (self.mask & -self.mask).bit_length() - 1


def union(sets: Iterable[CPUSet]) -> CPUSet:
    """Return all CPUs that are in any of the sets."""
    mask = 0
    for each in sets:
        mask |= each.mask
    return _made(mask)


_new = object.__new__
_write_mask = CPUSet.__dict__["mask"].__set__
"""The slot itself: `object.__setattr__` would look it up again for each set, and sets are made by the thousand."""


def _made(mask: int) -> CPUSet:
    """Make the set of a mask without checks: the mask was checked, or is made from other sets."""
    made = _new(CPUSet)
    _write_mask(made, mask)
    return made


def _runs(mask: int) -> Iterator[tuple[int, int]]:
    offset = 0
    while mask:
        start = (mask & -mask).bit_length() - 1
        mask >>= start
        length = (~mask & (mask + 1)).bit_length() - 1
        yield offset + start, offset + start + length - 1
        mask >>= length
        offset += start + length


@lru_cache(maxsize=_TEXTS)
def _text(mask: int) -> str:
    """Return the list text of a mask. The same few sets are written for each container, several times each."""
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in _runs(mask))


def _checked(cpu: int) -> int:
    if not 0 <= cpu <= MAX_CPU:
        raise CPUSetError(f"CPU {cpu} is out of range: CPUs are numbered 0 to {MAX_CPU}")
    return cpu


def _parse_part(part: str, text: str) -> int:
    """Return the mask of one element, `7` or `2-5`."""
    first, dash, last = part.partition("-")
    low = _parse_number(first, text)
    high = _parse_number(last, text) if dash else low
    if low > high:
        raise CPUSetError(f"bad CPU list {_shown(text)}: the range {part!r} runs backwards")
    return (1 << (high + 1)) - (1 << low)


def _parse_number(digits: str, text: str) -> int:
    if not (digits.isascii() and digits.isdigit()):
        raise CPUSetError(f"bad CPU list {_shown(text)}: {_shown(digits)} is not a CPU number; write it like 0-3,8")
    if len(digits.lstrip("0")) > len(str(MAX_CPU)):
        raise CPUSetError(f"bad CPU list {_shown(text)}: CPUs are numbered 0 to {MAX_CPU}")
    return _checked(int(digits))


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 60 else repr(text[:57]) + "..."


EMPTY: Final = CPUSet()
"""The set of no CPUs."""
