"""Lines: cut anywhere, the same lines; and a bound on what is kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.engines.byte_lines import HEAD, TAIL, Lines, Torn

LONGEST = HEAD + TAIL


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b".").replace(b"\r", b"."))), st.randoms())
def test_the_lines_do_not_depend_on_the_pieces(lines: list[bytes], chance: object) -> None:
    """However the bytes are cut, the same lines come out, without the empty ones."""
    text = b"".join(line + b"\n" for line in lines)
    cutter, cut, at = Lines(LONGEST), [], 0
    while at < len(text):
        size = chance.randint(1, 9)  # type: ignore[attr-defined]
        cut += cutter.feed(text[at : at + size])
        at += size
    assert cut == [line for line in lines if line]


def test_a_carriage_return_belongs_to_the_line_end() -> None:
    """Some proxies write both."""
    assert Lines(LONGEST).feed(b"one\r\ntwo\r\n\r\n") == [b"one", b"two"]


def test_a_line_that_is_too_long_keeps_its_ends() -> None:
    """And the next line is complete again; in between, memory stays small."""
    lines = Lines(LONGEST)
    head, tail = b"h" * HEAD, b"t" * TAIL
    assert lines.feed(head) == []
    for _ in range(100):
        assert lines.feed(b"m" * 100_000) == []
        assert len(lines._line) <= LONGEST
    assert lines.feed(tail + b"\nnext\n") == [Torn(head, tail), b"next"]


def test_a_line_of_just_the_bound_is_whole() -> None:
    """The bound itself is not too long."""
    assert Lines(LONGEST).feed(b"x" * LONGEST + b"\n") == [b"x" * LONGEST]
    assert isinstance(Lines(LONGEST).feed(b"x" * (LONGEST + 1) + b"\n")[0], Torn)
