"""What the exit codes of all commands mean: the help, the manual page and the reference have these words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXIT_CODES: Final[Mapping[int, str]] = {
    0: "done",
    1: "not done, or no daemon vouches for what was printed: the reason is on stderr",
    2: "wrong usage: every mistake is on stderr, and nothing was done",
    3: "there are problems: status --problems alone",
}
"""A command that starts another program (`exec`) has that program's code; one that a signal ended has 128 and the
signal's number, as a shell tells it.
"""
