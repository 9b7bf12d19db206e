"""What the demo shows: headlines, and the sidecar's own status below them, live in a terminal and plain elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from compose.demo.evidence import Figures
from compose.host.commands import HostLacks
from sidecar.words.counts import agree, counted

LOOK_SECONDS = 0.2
REDRAW_SECONDS = 1.0  # each look at the status is a process in the sidecar's container

News = tuple[int, str, str]


def others_note(count: int) -> str:
    """Return the note on the containers that were here before the demo."""
    run, they = agree(count, "runs", "run"), agree(count, "it joins", "they join")
    return f"{counted(count, 'other container')} {run} here: {they} the shared pool until the end of the demo."


class Screen:
    """`status` asks the sidecar for its status, as text with or without colours. `news` returns what workloads reported
    since the last call: a time (CLOCK_MONOTONIC nanoseconds), a workload, and a sentence.
    """

    def __init__(self, status: Callable[[bool], str], news: Callable[[], Iterable[News]] | None = None) -> None:
        # A log has no width of its own: the tables need this much.
        self._console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
        self._status = status
        self._news = news
        self._began = time.monotonic()

    def headline(self, text: str) -> None:
        """Print what happens now, with the seconds since the demo began."""
        self._console.print(f"\n[bold]{time.monotonic() - self._began:5.1f} s  {text}[/bold]", soft_wrap=True)

    def note(self, text: str) -> None:
        """Print a line of explanation."""
        self._console.print(f"         {text}", markup=False, soft_wrap=True)

    def line(self, text: str) -> None:
        """Print a line of another program, unchanged."""
        self._console.print(text, markup=False, soft_wrap=True)

    def show(self) -> None:
        """Print the current status."""
        self._console.print(self._picture(), soft_wrap=True)

    def until(self, is_done: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait for something to become true, with the status live in a terminal. Raise HostLacks if it never does."""
        deadline = time.monotonic() + seconds
        if not self._console.is_terminal:
            while not is_done():
                self._pause(deadline, what)
                self._tell()
            self._tell_the_rest()
            self.show()
            return
        with Live(self._picture(), console=self._console, auto_refresh=False) as live:
            drawn = time.monotonic()
            while not is_done():
                self._pause(deadline, what)
                self._tell()
                if time.monotonic() - drawn > REDRAW_SECONDS:
                    live.update(self._picture(), refresh=True)
                    drawn = time.monotonic()
            self._tell_the_rest()
            live.update(self._picture(), refresh=True)

    def figures(self, rows: dict[str, Figures | None]) -> None:
        """Print the counters of the steady workloads, side by side."""
        table = Table(
            "",
            "CPUs",
            "time on CPU",
            "stalls > 1 ms",
            "longest",
            "waited",
            "preempted",
        )
        for name, row in rows.items():
            if row is not None:
                cells = (
                    f"{row.share:.1%}",
                    f"{row.stalls:.0f}/s",
                    f"{row.longest_ms:.0f} ms",
                    f"{row.waited_ms:.0f} ms/s",
                    f"{row.preempted:.0f}/s",
                )
                table.add_row(name, " ".join(row.allowed), *cells)
        self._console.print(table)

    def verdict(self, is_true: bool, text: str) -> None:
        """Print one finding, with a mark."""
        self._console.print(
            Text("  yes  " if is_true else "  NO   ", style="bold green" if is_true else "bold red") + Text(text),
            soft_wrap=True,
        )

    def _tell(self) -> None:
        """Print the time line, above a live status."""
        for at, who, text in self._news() if self._news else ():
            seconds = at / 1e9 - self._began
            self._console.print(Text.assemble(f"{seconds:9.3f} s  ", (f"{who:<9}", "cyan"), text), soft_wrap=True)

    def _tell_the_rest(self) -> None:
        if self._news:
            time.sleep(LOOK_SECONDS)
            self._tell()

    def _picture(self) -> Text:
        return Text.from_ansi(self._status(self._console.is_terminal))

    def _pause(self, deadline: float, what: str) -> None:
        if time.monotonic() > deadline:
            raise HostLacks(f"this did not happen in time: {what}")
        time.sleep(LOOK_SECONDS)
