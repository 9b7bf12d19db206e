"""Bytes of a terminal as keys and the mouse: sequences in pieces, and whatever else comes in."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.cli.top.input_events import LONGEST, Event, KeyPress, Mouse, read_events

SEQUENCES = (
    b"\x1b[A", b"\x1bOB", b"\x1b[5~", b"\x1b[1;5C", b"\x1b[<0;10;5M", b"\x1b[<64;1;1M", b"\x1b[M !!", b"\x1b]0;x\x07",
    b"\x1bx", b"\x1b", b"q", "é".encode(), "日".encode(), "🦀".encode(), b"\xff", b"\r", b"\x7f", b"\x1b[", b"\x1b[<",
)  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "events"),
    [
        (b"jk", [KeyPress("j"), KeyPress("k")]),
        (b"\x1b[A\x1b[B\x1bOA\x1bOB", [KeyPress("up"), KeyPress("down"), KeyPress("up"), KeyPress("down")]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[F\x1b[1~\x1b[4~", [KeyPress(name) for name in
            ("page-up", "page-down", "home", "end", "home", "end")]),
        (b"\x1b[1;5B", [KeyPress("down")]),
        (b"\r\n\x7f\x08\t\x0c\x15", [KeyPress(name) for name in
            ("enter", "enter", "backspace", "backspace", "tab", "redraw", "erase")]),
        ("é日🦀".encode(), [KeyPress("é"), KeyPress("日"), KeyPress("🦀")]),
        (b"\x1b[<0;10;5M\x1b[<0;10;5m", [Mouse("press", 9, 4)]),
        (b"\x1b[<64;3;4M\x1b[<65;3;4M\x1b[<69;3;4M", [Mouse("up", 2, 3), Mouse("down", 2, 3), Mouse("down", 2, 3)]),
        (b"\x1b[<2;3;4M\x1b[<35;3;4M\x1b[<0;0;0M", []),
        (b"\x1b[M !!j", [KeyPress("j")]),
        (b"\x1bq\x1b[200~j", [KeyPress("j")]),
        (b"\x1b]52;c;cXVpdA==\x07j\x1bPq\x1b\\k", [KeyPress("j"), KeyPress("k")]),
        (b"\xff\xfe\xc3(j", [KeyPress("("), KeyPress("j")]),
        (b"\x00\x01\x02", []),
    ],
)  # fmt: skip
def test_what_is_sent_makes_these_events(sent: bytes, events: list[Event]) -> None:
    """Keys in both modes of a terminal, with modifiers, the mouse, the wheel; a key with Alt is none of ours, so that
    nothing that comes behind an escape ends the program.
    """
    assert read_events(sent) == (events, b"")


def test_an_escape_alone_is_a_key_once_no_more_comes() -> None:
    """It may be the beginning of another key."""
    assert read_events(b"\x1b") == ([], b"\x1b")
    assert read_events(b"\x1b", is_all=True) == ([KeyPress("escape")], b"")
    assert read_events(b"\x1b\x1b[A") == ([KeyPress("escape"), KeyPress("up")], b"")


def test_a_sequence_without_an_end_is_given_up() -> None:
    """What is kept of it is bounded, however much of it comes."""
    events, rest = read_events(b"\x1b[" + b"1;" * 5000)
    assert rest == b""
    assert set(events) == {KeyPress("["), KeyPress("1"), KeyPress(";")}


sent_bytes = st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(SEQUENCES), max_size=20).map(b"".join))


@given(sent=sent_bytes, cuts=st.lists(st.integers(0, 200), max_size=6))
@example(sent=b"\x1b[<0;10;5M", cuts=[1, 2, 3, 5, 9])
@example(sent=b"\x1b" * 70, cuts=[64, 65])
@example(sent=b"\x1b]" + b"a" * 62 + b"q", cuts=[63, 64])
def test_pieces_make_the_events_of_the_whole(sent: bytes, cuts: list[int]) -> None:
    """Wherever they are cut; and little is kept between them."""
    whole, left = read_events(sent)
    events, rest = [], b""
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(sent)], strict=True):
        more, rest = read_events(rest + sent[start:end])
        assert len(rest) < LONGEST
        events += more
    assert (events, rest) == (whole, left)


@given(sent=sent_bytes)
def test_whatever_comes_is_read_to_its_end(sent: bytes) -> None:
    """Each event is a printable character, a name, or a place on a screen."""
    events, rest = read_events(sent, is_all=True)
    assert rest == b""
    for event in events:
        if isinstance(event, KeyPress):
            assert len(event.name) > 1 or event.name.isprintable()
        else:
            assert min(event.column, event.row) >= 0
