"""CPU sets as the kernel's bitmaps: words of 32 bits in hexadecimal digits, the highest first."""

from __future__ import annotations

from typing import Final

from state.cpuset import CPUSet
from state.errors import StateError

_WORD: Final = 32


def bitmap(cpus: CPUSet) -> str:
    """Return the CPUs as a bitmap: `3`, or `1,00000000` for CPU 32."""
    first, *more = reversed([cpus.mask >> at & 0xFFFFFFFF for at in range(0, max(1, cpus.mask.bit_length()), _WORD)])
    return ",".join([f"{first:x}", *(f"{word:08x}" for word in more)])


def read_bitmap(text: str) -> CPUSet | None:
    """Return the CPUs of a bitmap; None if the text is none."""
    try:
        return CPUSet.from_mask(int(text.replace(",", ""), 16))
    except (ValueError, StateError):
        return None
