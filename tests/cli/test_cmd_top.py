"""`top`: sizes within their ranges, what is being taken counting down, and the document for programs."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sidecar.__main__ import main
from sidecar.cli.cmd_status import rendered as status_page
from sidecar.cli.cmd_top import rendered
from sidecar.cli.status_choice import Choice
from sidecar.decide.facts import Load, LoadMeasured, Purpose, ResizeRequested
from sidecar.decide.settings import PolicyName
from sidecar.status.deadlines import Deadlines
from sidecar.status.describe import status_of
from sidecar.status.document import Status
from sidecar.status.sight import WORKS
from sidecar.status.status_file import write_status
from sidecar.status.status_lease import renew_status_lease
from sidecar.words.causes import why
from state.cpuset import CPUSet
from state.topology import uniform
from tests.cli.test_status_on_a_terminal import Terminal, hear_interrupts
from tests.cli.worlds import container, world
from tests.support.decide.stories import Story
from tests.support.decide.workloads import acknowledge

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


class Elastic(Story):
    """`batch` fills 2 to 4 CPUs, `busy` follows its load, `man` is resized by order, `fixed` stays."""

    def __init__(self) -> None:
        super().__init__(policy=PolicyName.DYNAMIC)
        self.fixed = self.arrive("fixed", 1)
        self.batch = self.arrive("batch", 2, labels={"cpuset.max": "4", "cpuset.weight": "20"})
        self.busy = self.arrive("busy", 1, labels={"cpuset.max": "2", "cpuset.scale": "load"})
        self.arrive("log")
        self.settle()
        for place in reversed(range(len(self.timers))):
            if self.timers[place].purpose is Purpose.COOLDOWN:
                self.time_out(place)
        self.settle()

    def take(self) -> None:
        """Let a container arrive for which `batch` must give up CPUs."""
        self.arrive("late", 2)
        self.settle()

    def told(self, at: datetime = NOW) -> Status:
        deadlines = Deadlines(lambda: at).of(self.world)
        return status_of(self.world, updated_at=at.isoformat(), deadlines=deadlines)


def test_top_shows_sizes_within_their_ranges() -> None:
    """Size, range, rule, weight; use where it is known; the others as their number."""
    story = Elastic()
    story.feed(LoadMeasured((Load(container=story.busy.key, cpus=1, use=0.9, peak=0.9, pressure=1.0),)))
    story.settle()
    lines = rendered(story.told(), NOW + timedelta(seconds=1), WORKS, width=120)
    rows = {line[3:9].strip(): line.split() for line in lines[4:8]}
    assert rows["NAME"] == ["NAME", "NOW", "SIZE", "RANGE", "SCALE", "WEIGHT", "USE", "STATE"]
    assert rows["batch"][3:8] == ["4", "2-4", "fill", "20", "-"]
    assert rows["busy"][3:8] == ["2", "1-2", "load", "10", "0.9"]
    assert rows["fixed"][3:8] == ["1", "1-1", "-", "-", "-"]
    assert "containers with no known request for exclusive CPUs: 1" in lines
    assert "takes so far: 0 acknowledged, 0 forced" in lines
    assert max(map(len, lines)) <= 120


def test_a_container_with_a_wrong_label_is_shown_as_a_problem() -> None:
    """It wishes for exclusive CPUs: it is none of those that ask for none. Columns that are empty are left out."""
    views = [container("web", exclusive=2), container("odd", exclusive="two"), container("log")]
    lines = rendered(status_of(world(uniform(cores=4), *views)), NOW, WORKS, width=100)
    assert lines[3].split() == ["NAME", "NOW", "SIZE", "STATE"]
    assert any(line.startswith("problem: odd: refused: cpuset.exclusive is 'two'") for line in lines)
    assert "containers with no known request for exclusive CPUs: 1" in lines
    assert not any("takes so far" in line for line in lines)


def test_top_shows_what_is_chosen() -> None:
    """Problems and the number of the others are of the choice too; the map shows all."""
    shop = {"com.docker.compose.project": "shop"}
    views = [
        container("web", exclusive=1, labels=shop),
        container("odd", exclusive="two"),
        container("log", labels=shop),
        container("stack", exclusive=1, labels={"com.docker.stack.namespace": "shop"}),
    ]
    status = status_of(world(uniform(cores=4), *views))
    lines = rendered(status, NOW, WORKS, width=100, choice=Choice(project="shop"))
    assert [line.split()[1] for line in lines[4:6]] == ["stack", "web"]
    assert not any("odd" in line for line in lines)
    assert "containers with no known request for exclusive CPUs: 1" in lines
    one = rendered(status, NOW, WORKS, width=100, choice=Choice(project="shop", cpus=CPUSet.of(1)))
    assert [len(line.split()) > 1 and line.split()[1] in ("web", "stack") for line in one[4:6]] == [True, False]
    assert one[-3:] == lines[-3:]


def test_a_take_counts_down_with_its_reason() -> None:
    """In the table, and as a line that names the recipient; the same in `status`."""
    story = Elastic()
    story.take()
    [leaving] = [each.leaving for each in story.world.state.assignments.values() if each.leaving]
    later = NOW + timedelta(seconds=0.5)
    lines = rendered(story.told(), later, WORKS, width=160)
    assert any(f"leaving {leaving.cpus}: 1.5 s left" in line for line in lines if " batch " in line[:9])
    assert f"batch must leave {leaving.cpus} (take {leaving.number}), 1.5 s left: {why(leaving.cause)}" in lines
    assert any(line.startswith("late waits for batch to leave") for line in lines)
    page = status_page(story.told(), later, WORKS, width=160)
    assert any(f"leaving {leaving.cpus}: 1.5 s left" in line for line in page if " batch " in line[:9])
    assert any("0.0 s left" in line for line in rendered(story.told(), NOW + timedelta(seconds=9), WORKS))
    unknown = status_of(story.world, updated_at="")
    assert any("2 s of notice" in line for line in rendered(unknown, NOW, WORKS))
    acknowledge(story, 0)
    due = rendered(story.told(), later, WORKS, width=160)
    assert any(f"leaving {leaving.cpus}: notice over" in line for line in due)
    assert "takes so far: 1 acknowledged, 0 forced" in due


def test_a_deadline_stays_what_it_was_first_told() -> None:
    """It counts from the first sight of the take; a new take has a new one; a due take has none."""
    story, at = Elastic(), [NOW]
    deadlines = Deadlines(lambda: at[0])
    assert deadlines.of(story.world) == {}
    story.take()
    [(key, until)] = deadlines.of(story.world).items()
    assert (key[0], until) == (story.batch.key, "2026-03-04T05:06:09.000+00:00")
    at[0] += timedelta(seconds=1)
    assert deadlines.of(story.world) == {key: until}
    acknowledge(story, 0)
    assert deadlines.of(story.world) == {}


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a state directory with a status and a lock that is held."""
    monkeypatch.setenv("CPUSET_SIDECAR_STATE_DIR", str(tmp_path))
    write_status(tmp_path, Elastic().told())
    held = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    renew_status_lease(tmp_path, time.time())
    yield tmp_path
    os.close(held)


def test_once_is_a_page_or_the_document(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Plain, and exit code 1 without a daemon."""
    assert main(["top", "--once"]) == 0
    assert "RANGE  SCALE" in capsys.readouterr().out
    assert main(["top", "--once", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        **json.loads((state_dir / "status.json").read_bytes()),
        "vouched": True,
    }
    (state_dir / "lock").unlink()
    assert main(["top", "--once"]) == 1
    assert capsys.readouterr().err == f"cpuset-sidecar: no daemon is running on {state_dir}\n"


def test_json_is_a_line_a_change(state_dir: Path) -> None:
    """Until Ctrl-C."""
    command = [sys.executable, "-m", "sidecar", "top", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=hear_interrupts) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["policy"] == "dynamic"
        story = Elastic()
        story.take()
        write_status(state_dir, story.told())
        later = json.loads(process.stdout.readline())
        assert [each["name"] for each in later["containers"] if each["leaving"]] == ["batch"]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


@pytest.mark.parametrize("kind", ["pipe", "dumb terminal"])
def test_where_nothing_can_be_drawn_it_prints_a_page_at_each_change(state_dir: Path, kind: str) -> None:
    """Plain lines, with an empty one between two pages, until Ctrl-C: no escape is written."""
    if kind == "pipe":
        reading, writing = os.pipe()
    else:
        reading, writing = pty.openpty()
    environ = {**os.environ, "TERM": "dumb"}
    command = [sys.executable, "-m", "sidecar", "top"]
    with subprocess.Popen(command, stdout=writing, env=environ, preexec_fn=hear_interrupts) as process:
        os.close(writing)
        written = _read_until(reading, "settled, alone")
        story = Elastic()
        story.take()
        write_status(state_dir, story.told())
        written += _read_until(reading, "batch must leave")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    os.close(reading)
    assert written.replace("\r", "").count("\n\npolicy dynamic") == 1
    assert "\x1b[?" not in written


def _read_until(descriptor: int, wanted: str) -> str:
    written = ""
    while wanted not in written:
        assert select.select([descriptor], [], [], 20)[0], written
        written += os.read(descriptor, 65536).decode()
    return written


def test_on_a_terminal_it_follows(state_dir: Path) -> None:
    """A take appears without asking again; Ctrl-C ends it cleanly."""
    terminal = Terminal("top", "--state-dir", str(state_dir))
    try:
        terminal.wait_until(lambda text: "RANGE" in text and "settled, alone" in text)
        story = Elastic()
        story.take()
        write_status(state_dir, story.told(datetime.now(UTC)))
        terminal.wait_until(lambda text: "leaving" in text and "s left" in text)
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_until(lambda text: "\x1b[?1049l" in text)
        assert terminal.process.wait(20) == 0
    finally:
        terminal.close()


def test_a_resize_that_was_ordered_is_in_the_books_and_the_status() -> None:
    """`ordered`, the moves with their reasons, and the sentences of `explain`."""
    story = Elastic()
    man = story.arrive("man", 1, labels={"cpuset.max": "2", "cpuset.scale": "manual"})
    story.settle()
    story.feed(ResizeRequested(man.key, 2))
    [told] = [each for each in story.told().containers if each.name == "man"]
    assert (told.ordered, told.floor, told.ceiling, told.scale, told.weight) == (2, 1, 2, "manual", 10)
    assert "It may have 1 to 2 CPUs: `cpuset-sidecar resize` decides; the last order was 2 CPUs." in told.explanation
