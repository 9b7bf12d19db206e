"""The words that an argument may have, for completion. They are those that its own reader names when it refuses one."""

from __future__ import annotations

import argparse
from typing import Final

from sidecar.config.keys import KEYS
from sidecar.misreadings import Misreading, Unknown
from state.mistakes import AllOf, OneOf

_NONSENSE: Final = "\x00"
"""A text that no reader takes."""

_OF_KEY: Final = "config_"
"""How the field of a flag begins that is a key of the configuration, which is read later."""


def expected_words(action: argparse.Action) -> tuple[str, ...]:
    """Return the only words that it may have; none if others are as good, such as numbers and files."""
    is_key = action.dest.startswith(_OF_KEY)
    read = KEYS[action.dest.removeprefix(_OF_KEY)].read if is_key else action.type
    found = read(_NONSENSE) if callable(read) else None
    flaw = found.flaw if isinstance(found, Misreading) else found
    if isinstance(flaw, Unknown):
        return flaw.known
    return flaw.words if isinstance(flaw, OneOf | AllOf) else ()


def takes_container(action: argparse.Action) -> bool:
    """Return whether it is the name of a container, or may be."""
    return action.dest in ("container", "workload") or action.metavar == "CONTAINER"
