"""A page on a terminal that follows the status document, until Ctrl-C."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from sidecar.status.document import Status
from sidecar.status.status_file import is_daemon_running, read_status

REFRESH_SECONDS: Final = 0.5
"""Fast enough to follow a container's start by eye; reading the document takes a millisecond."""

Page = Callable[[Status, datetime, bool | None, int], list[str]]
"""The lines for a document, the time, whether a daemon runs, and the width of the screen."""


def follow(what: str, state_dir: str, page: Page) -> int:
    """Show the page at each change. Return 2 without a terminal, which `what` needs. StateError without a status."""
    # Only here: it is a large import, and a slow one.
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    read_status(state_dir)
    console = Console(highlight=False)
    if not console.is_terminal:
        sys.stderr.write(f"cpuset-sidecar: {what} needs a terminal\n")
        return 2
    # Ctrl-C is the normal way to leave, so it is not a failure.
    with contextlib.suppress(KeyboardInterrupt), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            is_running = is_daemon_running(state_dir)
            lines = page(read_status(state_dir), datetime.now(UTC), is_running, console.width)
            live.update(Text.from_ansi("\n".join(lines)), refresh=True)
            time.sleep(REFRESH_SECONDS)
    return 0
