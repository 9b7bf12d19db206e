"""What the judge saw: a program of its own reads the kernel (`exposure_judge.c`), and its notes become figures here.

It knows nothing of the sidecar and asks no engine: it sees groups, their threads and the CPUs of these. A stay is a
time in which some thread of a group was allowed on the owner's CPU, from the pass that saw it first to the pass that no
longer did.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.live.waiting import eventually

PROGRAM: Final = Path(__file__).with_name("exposure_judge.c")
"""The judge's source."""
_MOUNT: Final = Path("/sys/fs/cgroup")
ENGINES_WORK: Final = r"(^|/)((docker|libpod)-)?[0-9a-f]{64}([./].*)?$|[:/-][0-9a-z]{25}(\.scope)?$"
"""Groups of containers and of steps of a build; not those of a container's monitor."""

OFF: Final = 0
"""No thread of the group may run on the CPU."""
ON: Final = 1
"""A thread of its own may run on the CPU."""
ONLY: Final = 2
"""All its threads may run on the CPU, and nowhere else."""
RUNTIME: Final = 3
"""Only threads of the runtime may, which sets the group up."""


class Note(NamedTuple):
    """One change that the judge saw; nanoseconds of the monotonic clock."""

    at: int
    state: int
    group: str


class Notes(NamedTuple):
    """All that one judge saw, in order. `longest` is its longest pass in nanoseconds: it may miss what is shorter."""

    began: int
    ended: int
    passes: int
    longest: int
    notes: tuple[Note, ...]

    def stays(self, but: Collection[str] = (), since: int = 0) -> tuple[Note, ...]:
        """Return a note for each stay, with its length as the state; `but` are ids in names of groups to leave out."""
        since = max(since, self.began)
        open_: dict[str, int] = {}
        found = []
        for each in (
            *self.notes,
            *(Note(self.ended, OFF, name) for name in dict.fromkeys(n.group for n in self.notes)),
        ):
            if any(id in each.group for id in but):
                continue
            if each.state > OFF:
                open_.setdefault(each.group, max(each.at, since))
            elif (began := open_.pop(each.group, None)) is not None and each.at > since:
                found.append(Note(began, each.at - began, each.group))
        return tuple(found)

    def contradictions(self, but: Collection[str] = ()) -> frozenset[str]:
        """Return the groups that had a thread of their own on the CPU; `but` as above."""
        found = (each.group for each in self.notes if each.state in (ON, ONLY))
        return frozenset(name for name in found if not any(id in name for id in but))

    def groups(self, but: Collection[str] = ()) -> frozenset[str]:
        """Return the groups that had a thread."""
        return frozenset(each.group for each in self.notes if not any(id in each.group for id in but))

    def returned(self, but: Collection[str] = ()) -> frozenset[str]:
        """Return the groups that had a thread again after they had gone."""
        gone, found = set[str](), set[str]()
        for each in self.notes:
            if each.state < OFF:
                gone.add(each.group)
            elif each.group in gone and not any(id in each.group for id in but):
                found.add(each.group)
        return frozenset(found)

    def alone_at(self, id: str) -> int | None:
        """Return since when that container and no other has been on the CPU, and it nowhere else; None: never yet."""
        state, since = OFF, 0
        for each in self.notes:
            if id in each.group and each.state != state:
                state, since = each.state, each.at
        if state != ONLY:
            return None
        last = max((each.at + each.state for each in self.stays((id,))), default=0)
        return None if last >= self.ended else max(since, last)


class Exposure(NamedTuple):
    """How newcomers were allowed on the owner's CPU. `percent` is above 100 where several were at once."""

    percent: float
    any_percent: float
    """The share of the time in which at least one was."""
    ever: int
    newcomers: int
    longest_ms: float


def exposure_of(notes: Notes, but: Collection[str] = (), since: int = 0) -> Exposure:
    """Return the figures since that instant; `but` are ids of containers that are no newcomers: the owner's."""
    stays = notes.stays(but, since)
    seconds = notes.ended - max(since, notes.began)
    return Exposure(
        percent=100 * sum(each.state for each in stays) / seconds,
        any_percent=100 * _union(stays) / seconds,
        ever=len({each.group for each in stays}),
        newcomers=len(notes.groups(but)),
        longest_ms=max((each.state for each in stays), default=0) / 1e6,
    )


def added(found: Sequence[tuple[float, Exposure]]) -> Exposure:
    """Return one figure for several times, each with its length in seconds."""
    whole = sum(seconds for seconds, _ in found)
    return Exposure(
        percent=sum(seconds * each.percent for seconds, each in found) / whole,
        any_percent=sum(seconds * each.any_percent for seconds, each in found) / whole,
        ever=sum(each.ever for _, each in found),
        newcomers=sum(each.newcomers for _, each in found),
        longest_ms=max(each.longest_ms for _, each in found),
    )


def read_notes(lines: Iterable[str]) -> Notes:
    """Return what a judge printed. ValueError if its last line is missing: it was killed."""
    notes: list[Note] = []
    began = 0
    for line in lines:
        at, state, name, *more = line.split()
        if name == "begin":
            began = int(at)
        elif name == "end":
            return Notes(began, int(at), int(state), int(more[0]), tuple(notes))
        else:
            notes.append(Note(int(at), int(state), name))
    raise ValueError("the judge did not finish")


class Judge:
    """A running judge. Its notes are there when it has been ended."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path) -> None:
        self._process = process
        self._out = out

    @property
    def is_running(self) -> bool:
        """Whether it still looks. It ends by itself where it cannot read a group."""
        return self._process.poll() is None

    def states_of(self, id: str) -> list[int]:
        """Return the states that it has seen of a group so far, the newest last."""
        lines = self._out.read_text().splitlines(keepends=True)
        words = [line.split() for line in lines if line.endswith("\n")]
        return [int(state) for _, state, name, *_ in words if id in name]

    def end(self) -> Notes:
        """End it, and return its notes."""
        self._process.terminate()
        if code := self._process.wait(30):
            raise RuntimeError(f"the judge ended with {code}: {_complaint_of(self._out).read_text().strip()}")
        return read_notes(self._out.read_text().splitlines())


@contextmanager
def judge(folder: Path, cpu: int, parent: Path, pattern: str = ENGINES_WORK) -> Iterator[Judge]:
    """Run a judge of that CPU for the block; it watches the groups below this cgroup whose names match."""
    program, out = _program(folder), folder / f"judged-{time.monotonic_ns()}"
    with open(out, "wb") as file, open(_complaint_of(out), "wb") as complaint:
        process = subprocess.Popen([str(program), str(parent), str(cpu), pattern], stdout=file, stderr=complaint)
    try:
        eventually(lambda: out.stat().st_size, "the judge looks")
        yield Judge(process, out)
    finally:
        process.kill()
        process.wait()


def _program(folder: Path) -> Path:
    """Return the compiled judge: the one beside its source, as on a machine without a compiler, or one made there."""
    beside, made = PROGRAM.with_suffix(""), folder / "exposure_judge"
    if beside.exists():
        return beside
    if not made.exists():
        subprocess.run(["gcc", "-O2", "-o", str(made), str(PROGRAM)], check=True)
    return made


def _complaint_of(out: Path) -> Path:
    """Return where a judge says what it could not read; its notes are in `out`."""
    return out.with_suffix(".complaint")


def _union(stays: Iterable[Note]) -> int:
    """Return the nanoseconds in which at least one stay went on."""
    covered, until = 0, 0
    for began, length, _ in sorted(stays):
        covered += max(0, began + length - max(began, until))
        until = max(until, began + length)
    return covered
