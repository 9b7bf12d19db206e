"""The sieve keeps what is wanted of any JSON, however it comes in pieces, and bounds the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from sidecar.engines.json_sieve import LONGEST, OF_A_CONTAINER, Bounds, Sieve
from sidecar.failures import EngineFailed

Picks = Callable[[tuple[str, ...]], bool]


def everything(path: tuple[str, ...]) -> bool:
    return True


def sifted(text: bytes, picks: Picks = everything, piece: int = 1 << 16, bounds: Bounds = OF_A_CONTAINER) -> Sieve:
    sieve = Sieve(picks, bounds)
    for at in range(0, len(text), piece):
        sieve.feed(text[at : at + piece])
    return sieve


def any_text(rng: Random) -> str:
    return "".join(rng.choice('ab"\\{}[],: \né😀\x00') for _ in range(rng.randrange(12)))


def any_value(rng: Random, depth: int = 0) -> Any:
    kind = rng.randrange(6)
    if kind < 2 and depth < 5:
        return {rng.choice(("a", "b", "c", any_text(rng))): any_value(rng, depth + 1) for _ in range(rng.randrange(5))}
    if kind == 2 and depth < 5:
        return [any_value(rng, depth + 1) for _ in range(rng.randrange(5))]
    return rng.choice((1, -2.5e3, True, None, "", any_text(rng)))


def pruned(value: Any, picks: Picks, path: tuple[str, ...] = ()) -> Any:
    """Return a value with the picked members alone: what the sieve must keep, said in another way."""
    if isinstance(value, dict):
        return {key: pruned(each, picks, (*path, key)) for key, each in value.items() if picks((*path, key))}
    return [pruned(each, picks, path) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(4))
def test_the_wanted_members_are_kept_whatever_the_pieces(seed: int) -> None:
    """Of random JSON in pieces of any size, in any spelling, with any choice of members."""
    rng = Random(seed)
    for _ in range(1000):
        value = {key: any_value(rng) for key in "abc"}
        unwanted = {rng.choice("abc") for _ in range(rng.randrange(3))}

        def picks(path: tuple[str, ...], unwanted: set[str] = unwanted) -> bool:
            return path[-1] not in unwanted

        text = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 1))).encode()
        kept = sifted(text, picks, rng.choice((1, 2, 5, 1000))).text
        assert json.loads(kept) == pruned(value, picks), text


def test_a_long_text_is_cut_between_two_letters() -> None:
    """Its beginning is kept, without half an escape, and the cut is marked."""
    rng = Random(0)
    for _ in range(300):
        text = "x" * (LONGEST - 40) + "".join(rng.choice('a\\"é😀\n') for _ in range(60))
        raw = json.dumps({"a": text}, ensure_ascii=rng.random() < 0.5).encode()
        kept = msgspec.json.decode(sifted(raw, piece=rng.choice((7, 1000, 1 << 17))).text)["a"]
        assert kept == text or (kept.endswith("…") and text.startswith(kept[:-1]) and len(kept) > LONGEST // 2)


def test_a_text_of_any_length_costs_a_few_steps() -> None:
    """What is wanted beside it is kept, before and after it."""
    sieve = sifted(b'{"Id":"x","Label":"%s","Name":"y"}' % (b"a\\\\" * 10_000_000))
    assert json.loads(sieve.text)["Name"] == "y"
    assert len(sieve.text) < 2 * LONGEST


def test_what_is_not_wanted_costs_nothing_to_speak_of() -> None:
    """Millions of texts are passed over with fewer steps than a container may have."""
    text = b'{"Args":[' + b",".join([b'"x"'] * 3_000_000) + b'],"Id":"x"}'
    assert json.loads(sifted(text, lambda path: path[0] == "Id").text) == {"Id": "x"}


def test_only_the_first_members_of_a_crowd_are_read() -> None:
    """And it is known that there were more."""
    labels = {f"l{number:07}": "v" for number in range(100_000)}
    sieve = sifted(json.dumps({"Labels": labels, "Name": "y"}).encode())
    kept = json.loads(sieve.text)
    assert kept["Labels"] == dict(list(labels.items())[: OF_A_CONTAINER.members])
    assert kept["Name"] == "y"
    assert sieve.is_cut
    assert not sifted(b'{"Labels":{"a":"b"}}').is_cut


@pytest.mark.parametrize("bounds", [Bounds(members=9, steps=50, kept=10**9), Bounds(members=9, steps=10**9, kept=50)])
def test_more_than_any_container_has_is_refused(bounds: Bounds) -> None:
    """Neither memory nor time without bounds."""
    with pytest.raises(EngineFailed, match="more parts than any container needs"):
        sifted(json.dumps([[[{"a": [1, 2]}] * 8] * 8] * 8).encode(), bounds=bounds)


def test_junk_raises_nothing_else() -> None:
    """Whatever it is: the reader of what is kept says that it is no JSON."""
    rng = Random(3)
    for _ in range(3000):
        junk = bytes(rng.choice(b'{}[]",:\\ax1\xff ') for _ in range(rng.randrange(60)))
        sifted(junk, piece=rng.choice((1, 3, 100)))
