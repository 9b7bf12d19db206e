"""JSON that is nested without end, wherever an engine or a file may say something: an error in words, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.engines.answer_errors import error_of
from sidecar.engines.docker import docker_wire
from sidecar.engines.podman import libpod_wire
from sidecar.failures import EngineFailed
from sidecar.status.status_file import decode_status
from state.errors import StateError
from state.projection import STATUS, read

DEEP = b'{"unasked": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    "read_answer",
    [
        docker_wire.check_updated,
        docker_wire.ids_of,
        lambda body: docker_wire.decoded(body, dict[str, str]),
    ],
)
def test_a_nested_answer_cannot_be_understood(read_answer: Callable[[bytes], object]) -> None:
    """It is that order's failure, as any other answer that is no JSON."""
    with pytest.raises(EngineFailed, match="cannot be understood"):
        read_answer(DEEP)


def test_a_nested_event_is_junk() -> None:
    """Neither engine's stream ends by it."""
    assert docker_wire.event_of(DEEP) is None
    assert libpod_wire.attributes_of(DEEP, frozenset()) == ("", {})


def test_a_nested_refusal_has_no_reason() -> None:
    """The status decides, and the text is shown as it is, cut."""
    error = error_of(500, DEEP)
    assert isinstance(error, EngineFailed)
    assert str(error).startswith('{"unasked": [[')
    assert len(str(error)) < 600


def test_a_nested_file_is_unreadable(tmp_path: Path) -> None:
    """A projection, and the daemon's status: the error of a file that is none."""
    (tmp_path / STATUS).write_bytes(DEEP)
    with pytest.raises(StateError):
        read(tmp_path)
    with pytest.raises(StateError):
        decode_status(DEEP)
