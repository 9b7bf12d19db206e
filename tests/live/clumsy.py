"""`cpuset-sidecar` with a planted fault: one of its edges raises what the design does not know, while a file is there.

FAILS=PLACE FAILS_IF=FILE python -m tests.live.clumsy run --config FILE
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sidecar.__main__ import main
from sidecar.commit.fallback_books import SparedCheckpoint
from sidecar.commit.journal import Journal
from sidecar.hand.cgroup_hand import CgroupHand
from sidecar.hand.enforcing import Enforcer
from sidecar.observe import looks

PLACES: Final[dict[str, tuple[Any, str]]] = {
    "the hand takes answers": (CgroupHand, "hold"),
    "the hand settles a group": (Enforcer, "settle"),
    "the state is saved": (SparedCheckpoint, "save"),
    "the journal is written": (Journal, "append"),
    "a look is told": (looks, "is_foreign"),
}


def failing(was: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, which raises while the file is there."""

    def planted(*args: Any, **named: Any) -> Any:
        if Path(os.environ["FAILS_IF"]).exists():
            raise KeyError("planted")
        return was(*args, **named)

    return planted


if __name__ == "__main__":
    where, name = PLACES[os.environ["FAILS"]]
    setattr(where, name, failing(getattr(where, name)))
    sys.exit(main())
