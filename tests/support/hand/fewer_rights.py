"""A thread without CAP_DAC_OVERRIDE: root as it is in a container that was not given it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_VERSION_3: Final = 0x20080522
_MODES: Final = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH."""

_Sets = ctypes.c_uint32 * 6
"""Effective, permitted and inheritable of the first 32 capabilities, and of the others."""


@contextmanager
def without_modes() -> Iterator[None]:
    """Let the modes of files count for the calling thread, and for those that it begins meanwhile."""
    if os.geteuid() != 0:
        pytest.skip("needs root, for which modes count only where that is said")
    header, sets = (ctypes.c_uint32 * 2)(_VERSION_3, 0), _Sets()
    _done(_LIBC.capget(header, sets))
    before = sets[0]
    sets[0] = before & ~_MODES
    _done(_LIBC.capset(header, sets))
    try:
        yield
    finally:
        sets[0] = before
        _done(_LIBC.capset(header, sets))


def _done(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
