"""A container's key: its engine's name and its id, convertible to text and back, but not itself a text."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state import codec
from state.key import ContainerKey

ids = st.text(st.characters(codec="utf-8", exclude_characters=":"), max_size=64)
engines = st.text(st.characters(exclude_characters=":", categories=["Ll", "Nd"]), max_size=8)
keys = st.builds(ContainerKey, engines, ids)


class Held(msgspec.Struct, frozen=True):
    """Keys in all the places where they occur."""

    one: ContainerKey
    many: tuple[ContainerKey, ...] = ()
    by_key: Mapping[ContainerKey, int] = {}


@given(keys)
def test_a_key_is_the_same_after_it_was_text(key: ContainerKey) -> None:
    assert ContainerKey.parse(str(key)) == key
    assert hash(ContainerKey.parse(str(key))) == hash(key)
    assert pickle.loads(pickle.dumps(key)) == key


@given(keys, keys)
def test_keys_stand_in_files_by_their_text(a: ContainerKey, b: ContainerKey) -> None:
    """As values and as keys of mappings, in the order of their text."""
    held = Held(a, (b, a), {a: 1, b: 2})
    assert codec.decode(codec.encode(held), Held) == held
    assert codec.convert(codec.to_builtins(held), Held) == held


@given(keys, keys)
def test_two_keys_are_one_only_with_engine_and_id(a: ContainerKey, b: ContainerKey) -> None:
    assert (a == b) == ((a.engine, a.id) == (b.engine, b.id))
    assert (hash(a) == hash(b)) or a != b


def test_a_key_reads_as_people_would_say_it() -> None:
    """The engine, then the id in full; an id alone is from a State that names no engine."""
    assert str(ContainerKey("docker", "6f0c")) == "docker:6f0c"
    assert ContainerKey.parse("6f0c") == ContainerKey("", "6f0c")
    assert str(ContainerKey("", "6f0c")) == "6f0c"
    assert ContainerKey("podman", "0123456789abcdef").short == "0123456789ab"


@pytest.mark.parametrize(
    ("text", "engine", "id"),
    [
        ("podman:1000:6f0c", "podman:1000", "6f0c"),
        ("systemd:ssh.service", "systemd", "ssh.service"),
        ("systemd:odd:name@1:2.service", "systemd", "odd:name@1:2.service"),
    ],
)
def test_a_name_may_have_the_mark(text: str, engine: str, id: str) -> None:
    """That of a user's own engine, and that of a unit; an id never has."""
    key = ContainerKey.parse(text)
    assert (key.engine, key.id, str(key)) == (engine, id, text)
    assert ContainerKey.parse(str(ContainerKey(engine, id))) == key


def test_a_key_is_no_id() -> None:
    """The engine's own id of a container is not its key in the State."""
    assert ContainerKey("docker", "6f0c") not in {"6f0c", ContainerKey("podman", "6f0c")}
