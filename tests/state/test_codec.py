"""Structs to bytes and back, unchanged; equal values as equal bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state import codec
from state.checkpoint import decode_checkpoint, encode_checkpoint
from state.cpuset import CPUSet
from state.model import State
from tests.state.strategies import cpu_sets, states


class Holder(msgspec.Struct, frozen=True):
    """CPU sets in all the places where they occur."""

    cpus: CPUSet
    perhaps: CPUSet | None = None
    many: tuple[CPUSet, ...] = ()
    named: Mapping[str, CPUSet] = {}


@given(cpu_sets, cpu_sets)
def test_cpu_sets_are_list_text_wherever_they_stand(a: CPUSet, b: CPUSet) -> None:
    held = Holder(a, b, (a, b), {"x": b})
    assert json.loads(codec.encode(held)) == {
        "cpus": str(a),
        "perhaps": str(b),
        "many": [str(a), str(b)],
        "named": {"x": str(b)},
    }
    assert codec.decode(codec.encode(held), Holder) == held
    assert codec.convert(codec.to_builtins(held), Holder) == held


@given(states())
def test_books_there_and_back(state: State) -> None:
    assert codec.decode(codec.encode(state), State) == state
    assert codec.convert(codec.to_builtins(state), State) == state
    assert decode_checkpoint(encode_checkpoint(state)) == state


@given(states())
def test_equal_books_are_equal_bytes_in_whatever_order_they_were_entered(state: State) -> None:
    turned = msgspec.structs.replace(
        state,
        assignments=dict(reversed(list(state.assignments.items()))),
        refusals=dict(reversed(list(state.refusals.items()))),
        originals=dict(reversed(list(state.originals.items()))),
    )
    assert turned == state
    assert codec.encode(turned) == codec.encode(state)


@given(states())
def test_a_replay_goes_through_books_in_the_order_in_which_they_stand(state: State) -> None:
    """A World that is written for replay keeps the order of its dicts, since decisions depend on it."""
    turned = msgspec.structs.replace(state, assignments=dict(reversed(list(state.assignments.items()))))
    found = codec.decode(codec.encode(turned, keeps_order=True), State)
    assert list(found.assignments) == list(turned.assignments)
    assert found == state


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"cpus":"3-1"}', r"runs backwards.* - at `\$\.cpus`"),
        ('{"cpus":"0","many":["0","x"]}', r"not a CPU number.* - at `\$\.many\[1\]`"),
        ('{"cpus":7}', r"expected CPUSet, got int.* - at `\$\.cpus`"),
        ("{}", "missing required field `cpus`"),
    ],
)
def test_an_error_names_the_place(text: str, words: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=words):
        codec.decode(text.encode(), Holder)


def test_what_files_may_not_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="complex is not a type that files may hold"):
        codec.encode([1j])


@given(st.text())
def test_all_text_is_printable_json_with_the_same_meaning(text: str) -> None:
    """A terminal that shows it is not driven by it: what JSON need not escape is escaped as well."""
    content = codec.encode({text: [text]})
    assert content.decode().isprintable()
    assert json.loads(content) == {text: [text]}


@pytest.mark.parametrize(
    "mark", ["\x7f", "\x9b31m", "\u202egnol", "\u2066", "\U000e0001", "\U0001f600\u200b", "\u3164", "\ufe0f"]
)
def test_marks_that_drive_a_terminal_are_escaped(mark: str) -> None:
    content = codec.encode([mark])
    assert codec.is_printable(content.decode())
    assert json.loads(content) == [mark]
