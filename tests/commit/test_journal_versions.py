"""A journal has a version: another release's is neither replayed as if it were this one's, nor added to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sidecar.commit.journal import NAME, PREVIOUS, VERSION, Journal, read_journal, world_line
from sidecar.decide.facts import EngineDisconnected
from state.errors import StateError

FORMATS = Path(__file__).parents[1] / "data" / "journals"
OLD = sorted(path for path in FORMATS.glob("v*.jsonl") if path.stem != f"v{VERSION}")


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_a_journal_of_another_release_says_who_can_replay_it(path: Path) -> None:
    """It would be decoded with defaults for missing fields, and silently lead to another World."""
    said = f"{path}, line 1: the journal has version {path.stem[1:]}, but this release reads version {VERSION}"
    with pytest.raises(StateError, match=re.escape(said) + ": replay it with the release that wrote it"):
        list(read_journal(path))


def test_a_journal_of_a_later_release_is_not_read_either(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b'{"version":99,"world":{}}\n')
    with pytest.raises(StateError, match="version 99"):
        list(read_journal(tmp_path / NAME))


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_a_file_of_another_release_is_set_aside_and_not_added_to(path: Path, tmp_path: Path) -> None:
    """So every file is of one version."""
    content = path.read_bytes()
    (tmp_path / NAME).write_bytes(content)
    with Journal(tmp_path) as journal:
        journal.start_with(lambda: b"{}")
        journal.append([EngineDisconnected("gone")])
        journal.append([EngineDisconnected("gone again")])
    assert (tmp_path / PREVIOUS).read_bytes() == content
    assert (tmp_path / NAME).read_bytes().startswith(world_line(b"{}"))
    assert len(list(read_journal(tmp_path / NAME))) == 3
