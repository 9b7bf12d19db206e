"""Log lines are one line each, for people or machines, whatever they contain."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.log import Log, LogLevel, printable
from state import codec
from state.cpuset import CPUSet

TIME = datetime(2026, 3, 4, 5, 6, 7, 89_000, tzinfo=UTC)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(
    *, is_json: bool = False, level: LogLevel = LogLevel.INFO, stream: io.StringIO | None = None
) -> tuple[Log, io.StringIO]:
    stream = stream or io.StringIO()
    return Log(stream, level=level, is_json=is_json, clock=lambda: TIME), stream


def test_a_line_for_people() -> None:
    """Time, level, sentence, fields; a value with spaces stands in quotes."""
    log, out = lines()
    log.info("a grant", container="web", cpus=CPUSet.of(2, 3), reason='it "asked"', empty="")
    assert out.getvalue() == (
        '2026-03-04T05:06:07.089Z info    a grant container=web cpus=2-3 reason="it \\"asked\\"" empty=""\n'
    )


def test_a_line_for_machines() -> None:
    """One JSON object a line; numbers stay numbers, and no field replaces the message."""
    log, out = lines(is_json=True)
    log.error("lost", count=2, ratio=0.5, done=False, cpus=CPUSet.of(1), nobody=None, time="later")
    assert json.loads(out.getvalue()) == {
        "time": "2026-03-04T05:06:07.089Z",
        "level": "error",
        "message": "lost",
        "count": 2,
        "ratio": 0.5,
        "done": False,
        "cpus": "1",
        "nobody": None,
        "time_": "later",
    }


def test_what_is_below_the_level_is_not_written() -> None:
    """Debug lines cost nothing if they are not enabled."""
    log, out = lines(level=LogLevel.WARNING)
    log.debug("no")
    log.info("no")
    log.warning("yes")
    assert out.getvalue().count("\n") == 1
    assert LogLevel.named("debug") is LogLevel.DEBUG


def test_colours_are_for_terminals_only() -> None:
    """A file or a pipe gets plain text, and JSON is never coloured."""
    log, out = lines(stream=Terminal())
    log.warning("hot")
    assert out.getvalue().startswith("\x1b[33m")
    assert out.getvalue().endswith("\x1b[0m\n")
    log, out = lines(is_json=True, stream=Terminal())
    log.warning("hot")
    assert "\x1b" not in out.getvalue()


@pytest.mark.parametrize("hostile", ["a\n2026 error forged", "\x1b[2Jgone", "\u202egnol", "\udc80", "\r", "\x9b31m"])
def test_hostile_names_cannot_forge_a_line(hostile: str) -> None:
    """Line ends, escape codes, reversed text and broken text come out escaped."""
    for is_json in (False, True):
        log, out = lines(is_json=is_json)
        log.info(f"seen {hostile}", name=hostile)
        assert out.getvalue().count("\n") == 1
        if not is_json:
            assert out.getvalue()[:-1].isprintable()
        else:
            assert json.loads(out.getvalue())["level"] == "info"
            assert out.getvalue()[:-1].isprintable()


FIELD = re.compile(r'([a-z]+)=("(?:[^"\\]|\\.)*"|[^" ]*)')


@pytest.mark.parametrize(
    "hostile", ['bad \\" level=error x="', "\\", '\\" a=b', 'b=" ', '"', "level=error", 'a"b level=error x="']
)
def test_hostile_texts_cannot_forge_a_field(hostile: str) -> None:
    """Neither in a field nor in the message, for a reader that knows quotes and backslashes (logfmt)."""
    log, out = lines()
    log.info(f"seen {hostile}", reason=hostile, cpus="1")
    rest = re.sub(r'^\S+ info    "(?:[^"\\]|\\.)*"', "", out.getvalue())
    found = FIELD.findall(rest)
    assert [name for name, _ in found] == ["reason", "cpus"]
    value = found[0][1]
    assert (json.loads(value) if value.startswith('"') else value) == hostile


def test_long_texts_are_cut() -> None:
    """A label of 40 MB does not become a log line."""
    log, out = lines()
    log.info("big", label="x" * 1_000_000)
    assert len(out.getvalue()) < 5000
    assert "(1000000 characters)" in out.getvalue()


def test_a_closed_stream_is_no_error() -> None:
    """The daemon goes on when nothing reads its log."""
    stream = io.StringIO()
    log, _ = lines(stream=stream)
    stream.close()
    with pytest.raises(ValueError):
        stream.isatty()
    log.info("into the void")


@given(st.text())
def test_printable_text_is_printable_and_kept_where_it_was(text: str) -> None:
    """Nothing that is printable is changed."""
    assert codec.is_printable(printable(text))
    if codec.is_printable(text):
        assert printable(text) == text


BLANK = ("\u3164", "\u115f", "\uffa0", "\u034f", "\u2800", "\ufe0f", "\U000e0100")
"""What Python calls printable and nothing shows."""


@pytest.mark.parametrize("blank", BLANK)
def test_two_names_that_look_the_same_are_told_apart(blank: str) -> None:
    """One of them with a letter that shows nothing, in a line of the log and in a document."""
    assert blank.isprintable()
    assert printable(f"db{blank}") == "db" + blank.encode("unicode_escape").decode()
    for is_json in (False, True):
        log, out = lines(is_json=is_json)
        log.info("granted", container=f"db{blank}")
        assert blank not in out.getvalue()
        assert out.getvalue().isascii()
