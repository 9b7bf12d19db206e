"""`state` and `explain` with changing grants: ranges, what is leaving, the last changes with their reasons."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sidecar.__main__ import main
from sidecar.cli.cmd_state import rendered
from sidecar.commit.state_lock import hold_lock
from sidecar.decide.settings import PolicyName
from sidecar.status.describe import status_of
from sidecar.status.status_file import write_status
from sidecar.status.status_lease import renew_status_lease
from sidecar.words.causes import why
from state.checkpoint import CheckpointFile
from tests.support.decide.stories import Story
from tests.support.decide.workloads import acknowledge


@pytest.fixture
def story() -> Story:
    """Return a story where `batch` had 6 CPUs, and some are being taken for `web`."""
    made = Story(policy=PolicyName.DYNAMIC)
    made.arrive("batch", 2, labels={"cpuset.max": "6", "cpuset.weight": "20"})
    made.settle()
    made.arrive("web", 3)
    made.settle()
    return made


def test_the_books_are_printed_with_what_changes_in_them(story: Story) -> None:
    """Containers whose size may change in a table, each change with its reason; without changes, neither is printed."""
    [take] = [each.leaving for each in story.world.state.assignments.values() if each.leaving]
    lines = rendered(story.world.state)
    assert "changes    2 so far; takes acknowledged 0, forced 0" in lines
    place = next(number for number, line in enumerate(lines) if line.startswith("ELASTIC"))
    assert lines[place].split() == ["ELASTIC", "RANGE", "SCALE", "WEIGHT", "ORDERED", "FORCED", "LEAVING"]
    assert lines[place + 1].split() == ["batch", "2-6", "fill", "20", "-", "0", str(take.cpus), "(take", "1)"]
    place = next(number for number, line in enumerate(lines) if line.startswith("CHANGED"))
    assert lines[place + 1].split()[:3] == ["batch", "3-6", "-"]
    assert lines[place + 2].split()[:3] == ["batch", "-", str(take.cpus)]
    acknowledge(story, 0)
    assert any(f"{take.cpus} (take 1, due)" in line for line in rendered(story.world.state))
    still = Story()
    still.arrive("web", 2)
    still.settle()
    assert not any("changes" in line or "ELASTIC" in line for line in rendered(still.world.state))


def test_explain_says_why_cpus_moved(story: Story, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in the status document, one sentence per line."""
    write_status(tmp_path, status_of(story.world))
    with CheckpointFile(tmp_path) as checkpoint:
        checkpoint.save(story.world.state)
    [take] = [each.leaving for each in story.world.state.assignments.values() if each.leaving]
    with hold_lock(str(tmp_path)):
        renew_status_lease(tmp_path, time.time())
        assert main(["explain", "batch", "--state-dir", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"  It gave up CPUs {take.cpus}: {why(take.cause)}." in lines
    assert any(line.startswith(f"  It keeps CPUs {take.cpus} (take 1) until it acknowledges") for line in lines)
    assert "  It may have 2 to 6 CPUs: it gets a share of the spare CPUs, by its weight of 20." in lines
