"""`events`: what changed, a sentence each; with `--follow` also what changes from now on."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from sidecar.cli.arguments import typed
from sidecar.cli.flags import add_config, add_format, check_format, config_of
from sidecar.cli.machine_drawing import Paint
from sidecar.cli.printout import printout, wrapped
from sidecar.cli.row_template import Fields, RowTemplate, filled
from sidecar.failures import Misuse
from sidecar.log import LogLevel, now
from sidecar.readers import duration
from sidecar.status.event_file import Event, event_file, event_of
from sidecar.status.status_file import read_status
from sidecar.status.status_lease import is_vouched, why_unvouched
from sidecar.words.event_text import event_text
from state import codec
from state.errors import StateError

LOOK_SECONDS: Final = 0.2
"""How often a follower looks for more."""

_LONGEST_SECONDS: Final = 366 * 86400.0

_RED: Final = "#"
"""A mark of the palette: warnings are red, as strangers are."""

_EXAMPLES: Final = """examples:
  cpuset-sidecar events                       all that is recorded
  cpuset-sidecar events --since 10m           of the last ten minutes
  cpuset-sidecar events --follow --since 0    only what happens from now on
  cpuset-sidecar events --format '{{.Time}} {{.Name}} {{.Message}} {{.CPUs}}'
  cpuset-sidecar events --json | jq 'select(.level == "warning")'
"""

_FIELDS: Final[Fields[Event]] = Fields(
    {
        ".ID": lambda event: str(event["id"]),
        ".Time": lambda event: str(event["time"]),
        ".Level": lambda event: str(event["level"]),
        ".Name": lambda event: str(event.get("container", event.get("unit", ""))),
        ".Message": lambda event: str(event["message"]),
        ".CPUs": lambda event: str(event.get("cpus", event.get("to", ""))),
        ".Reason": lambda event: str(event.get("reason", "")),
        ".Text": event_text,
    },
    lambda event: codec.printable(codec.encode(event, keeps_order=True)).decode(),
)
"""What a template may name of an event."""

_DESCRIPTION: Final = """Print what changed, oldest first: which containers were granted CPUs, lost them, were refused,
and why; and when the daemon began and ended. The last events are recorded, some thousands, also of
daemons before."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "events",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--follow", action="store_true", help="go on with what happens, until Ctrl-C")
    parser.add_argument(
        "--since",
        type=typed("--since", duration(0.0, _LONGEST_SECONDS)),
        metavar="SECONDS",
        help="only what is not older than this: 10m, 1h, 0 (default: everything that is recorded)",
    )
    add_format(parser, _FIELDS, "{{.Time}}\\t{{.Text}}")
    parser.add_argument("--json", action="store_true", help="print each event as a JSON object, one per line")
    add_config(parser)
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print the events. Return 1 if no daemon runs, or vouches for them: the last may be missing."""
    check_format(args, "json")
    if args.format and args.format.is_table and args.follow:
        raise Misuse("a table is as wide as its rows, and --follow has not seen them all: leave one of them out")
    template = RowTemplate((), is_json=True) if args.json else args.format
    state_dir = config_of(args).state_dir
    since = None if args.since is None else now() - timedelta(seconds=args.since)
    reader = EventReader(state_dir)
    outdated = outdated_because(state_dir)
    _print(reader.more(since), template)
    if not args.follow:
        if outdated:
            sys.stderr.write(f"cpuset-sidecar: {outdated}\n")
        return 1 if outdated else 0
    if outdated:
        _print([_seen(outdated)], template)
    # Ctrl-C is a normal way to leave, so it is not a failure.
    with contextlib.suppress(KeyboardInterrupt):
        for events in following(reader, state_dir, outdated):
            _print(events, template)
    return 0


class EventReader:
    """Reads the recorded events of a state directory, each once."""

    def __init__(self, state_dir: str) -> None:
        self._file = event_file(state_dir)
        self._last: tuple[str, datetime] | None = None
        """The id and the time of the last event that was read."""

    def more(self, since: datetime | None = None) -> list[Event]:
        """Return the events that were not returned before, of those that are not older than `since`. Raise StateError.

        The file may have been replaced meanwhile by its last part: what comes after the last event is known by its id,
        and if that is gone, by its time.
        """
        events = [event for line in self._file.read() if (event := event_of(line))]
        if self._last is not None:
            id, at = self._last
            places = [place for place, event in enumerate(events) if event["id"] == id]
            events = events[places[-1] + 1 :] if places else [each for each in events if time_of(each) > at]
        if events:
            self._last = events[-1]["id"], time_of(events[-1])
        return [each for each in events if since is None or time_of(each) >= since]


def following(reader: EventReader, state_dir: str, outdated: str) -> Iterator[list[Event]]:
    """Yield what happens, without end; also that the daemon is gone, or does not vouch, and that it is back."""
    while True:
        time.sleep(LOOK_SECONDS)
        # Asked first: what a daemon wrote before it went comes before the word that it is gone.
        before, outdated = outdated, outdated_because(state_dir)
        with contextlib.suppress(StateError):
            if more := reader.more():
                yield more
        if outdated and not before:
            yield [_seen(outdated)]
        elif before and not outdated:
            yield [_seen("a daemon runs again, and vouches for what it tells", LogLevel.INFO)]


def outdated_because(state_dir: str) -> str:
    """Return why events may be missing, "" if none is."""
    if is_vouched(state_dir, time.time()):
        return ""
    is_ready = True
    with contextlib.suppress(StateError):
        is_ready = read_status(state_dir).is_ready
    return why_unvouched(state_dir, is_ready=is_ready)


def time_of(event: Event) -> datetime:
    """Return when an event happened; the beginning of time if it does not say so."""
    try:
        found = datetime.fromisoformat(event["time"])
    except ValueError:
        found = datetime.min.replace(tzinfo=UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def lines_of(event: Event, paint: Paint, width: int | None) -> list[str]:
    """Return an event for people: the time of this place, and what happened."""
    at = time_of(event)
    shown = "(no time)" if at.year == 1 else at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    lines = wrapped(f"{shown}  {event_text(event)}", width)
    return [paint(line, _RED) for line in lines] if event["level"] in ("warning", "error") else lines


def _seen(what: str, level: LogLevel = LogLevel.WARNING) -> Event:
    """Return what this command saw by itself, as an event."""
    at = now().isoformat(timespec="milliseconds")
    return {"id": "", "time": at, "level": level.name.lower(), "message": what}


def _print(events: list[Event], template: RowTemplate | None) -> None:
    paint, width = printout()
    if template:
        lines = filled(template, _FIELDS, events)
    else:
        lines = [line for event in events for line in lines_of(event, paint, width)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
