"""Events in words: a sentence for every message that the daemon may tell."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sidecar.words import changes, event_text
from sidecar.words.event_text import event_text as told
from tests.support.sources import ROOT

BASE = {"id": "1-1", "time": "2026-11-26T13:02:03.000+00:00", "level": "info"}


def event(message: str, **fields: Any) -> dict[str, Any]:
    return {**BASE, "message": message, **fields}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (event("granted", container="voice", cpus="2-3"), "voice was granted CPUs 2-3"),
        (event("granted", container="a", cpus="2", ahead_of="b, c"), "a was granted CPU 2, ahead of b, c"),
        (event("released", container="a", cpus="2"), "a has no CPUs of its own any more; it had CPU 2"),
        (event("refused", container="a", reason="asked for 9 CPUs"), "a was refused: asked for 9 CPUs"),
        (event("grew", container="a", cpus="2", reason="spare"), "a gained CPU 2: spare"),
        (
            event("exchanged", container="a", **{"from": "6", "to": "1", "reason": "closer"}),
            "a exchanges CPU 6 for CPU 1: closer",
        ),
        (event("take started", container="a", cpus="4", notice_seconds=5.0), "a is to leave CPU 4 within 5 s"),
        (event("take started", container="a", cpus="4", notice_seconds=0.0), "a is to leave CPU 4"),
        (
            event("take forced: the workload did not acknowledge in time", container="a", cpus="4", number=3),
            "a did not leave CPU 4 in time: forced",
        ),
        (event("engine limitation", note="no events"), "engine limitation: note no events"),
        (event("unknown label", container="a"), "a: unknown label"),
        (event("the daemon began"), "the daemon began"),
        (event("granted", container="a", cpus="nonsense"), "a was granted nonsense"),
        (event("granted", container="a"), "a was granted no CPU"),
    ],
)
def test_an_event_is_a_sentence(given: dict[str, Any], sentence: str) -> None:
    assert told(given) == sentence


def test_every_message_about_a_container_has_a_sentence() -> None:
    """Each word of a change has one of its own; messages that are sentences already need none."""
    code = (ROOT / "sidecar" / "words" / "changes.py").read_text()
    messages = set(re.findall(r'Line\(LogLevel\.\w+, "([^"]+)"', code)) | set(re.findall(r'message = "([^"]+)"', code))
    own = {message for message in messages if len(message.split()) <= 3} | {
        message for message in messages if message.startswith("take ")
    }
    assert own - {"engine limitation"} == set(event_text._SENTENCES)
    assert changes.__doc__
