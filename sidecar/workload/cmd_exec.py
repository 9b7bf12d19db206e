"""`exec`: run a program that need not follow its CPUs itself: its threads are moved, and it can be signalled."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import math
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from sidecar.cli.arguments import typed
from sidecar.log import printable
from sidecar.readers import choice, duration
from sidecar.workload.child_process import TAKEN, Child, NotStarted, adopt_orphans, end_as, end_by, take_signals
from sidecar.workload.gates import Open, Shut, Until, gate
from sidecar.workload.thread_mover import Followers, Moved, mine
from state import ack
from state.cpuset import CPUSet
from state.errors import ProjectionError, ProjectionMissing
from state.inotify import Ear, Inotify
from state.mistakes import Seconds, SignalName
from state.own_directory import default_directory
from state.projection import Projection
from state.watch import POLL_SECONDS, SHORT_POLL_SECONDS, ProjectionWatch

WAIT_SECONDS: Final = 2.0
"""The daemon writes within about ten milliseconds of a start; without a daemon, no start should hang for long."""

THREADS: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "GOMAXPROCS",
    "RAYON_NUM_THREADS",
    "TOKIO_WORKER_THREADS",
)
"""Variables from which a library or run time takes, once, how many threads compute at a time. Not among them are sizes
of pools that wait rather than compute (UV_THREADPOOL_SIZE), and what would keep a program from following by itself
(PYTHON_CPU_COUNT: without it os.process_cpu_count is right at each call)."""

_RETRY_SECONDS: Final = (0.05, 1.0)
"""How soon to look again at threads that are not yet where they should be: those that the program has bound itself, or
makes faster than they are moved. At first, and, twice as long each time, at last."""

_SIGNALS_A_TURN: Final = 64
"""Signals between two looks at the projection and at ended children, however many signals come."""

_LOOK_SECONDS: Final = 0.001
"""Longer than it takes to find out that nothing has changed."""

_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)

_DESCRIPTION = """Run a program on the CPUs of its container, and follow their changes. Its threads, and those of all
that it starts, are moved off CPUs that are about to be taken, which is then acknowledged, and onto CPUs that come.
A thread that the program binds to CPUs itself is left there."""

_EPILOG = f"""set, unless they are set already, to the number of CPUs at the start:
  {" ".join(THREADS)}

exit code: the program's; 127 if it is not found, 126 if it cannot be started, 128+n if it was ended by signal n;
1 if what --wait names never comes, or not in time

examples:
  cpuset-sidecar exec -- ./server --port 80
  cpuset-sidecar exec --wait alone --timeout 60 -- ./server
  cpuset-sidecar exec --signal HUP --threads-env WORKERS -- ./server
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its arguments."""
    parser = subparsers.add_parser(
        "exec",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="cpuset-sidecar exec [options] -- PROGRAM [ARGUMENT ...]",
    )
    parser.add_argument(
        "--threads-env",
        metavar="NAME",
        action="append",
        default=[],
        help="one more variable for the number of CPUs; may be repeated",
    )
    parser.add_argument(
        "--signal",
        type=typed("--signal", _signal),
        metavar="NAME",
        help="send this signal after each change, if the program handles it",
    )
    parser.add_argument(
        "--dir",
        metavar="DIR",
        help="the projection directory; by default $CPUSET_SIDECAR_DIR, or /run/cpuset-sidecar/by-id/$HOSTNAME",
    )
    parser.add_argument("--no-ack", action="store_true", help="do not acknowledge: always use the whole grace period")
    parser.add_argument(
        "--wait",
        type=typed("--wait", _awaited),
        default=WAIT_SECONDS,
        metavar="WHEN|SECONDS",
        help="alone, settled or granted: start only once that is so and the daemon vouches for it; seconds: "
        f"wait so long for the projection, and start then in any case (default: {WAIT_SECONDS:g})",
    )
    parser.add_argument(
        "--timeout",
        type=typed("--timeout", duration(0.001, 86400)),
        metavar="SECONDS",
        help="with --wait WHEN: exit with 1 if that takes longer",
    )
    parser.add_argument("--verbose", action="store_true", help="report on stderr what is done at each change")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="PROGRAM", help="the program and its arguments")
    parser.set_defaults(func=lambda args: run(args, parser))


def run(args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Run the program to its end. Return the exit code."""
    words: list[str] = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not words:
        parser.error("no program given: write cpuset-sidecar exec -- PROGRAM [ARGUMENT ...]")
    if args.timeout is not None and not isinstance(args.wait, Until):
        parser.error("--timeout goes with --wait alone, settled or granted")
    blocked = take_signals()
    # Given by its path: the program starts even where there can be none.
    with ProjectionWatch(args.dir or default_directory(os.environ), ear=_signalling_ear) as watch:
        try:
            return _Run(args, words, watch).to_the_end(blocked)
        except NotStarted as error:
            _say(str(error))
            return error.code


def environment_for(cpus: int | None, given: Mapping[str, str], more: Sequence[str] = ()) -> dict[str, str]:
    """Return the program's environment: the given one, and the number of CPUs, if known, in each variable that is not
    set.
    """
    if cpus is None:
        return dict(given)
    return {**dict.fromkeys((*THREADS, *more), str(cpus)), **given}


class _Run:
    """One program, from its start to its end. One task does everything, woken by signals: inotify's too (SIGIO)."""

    def __init__(self, args: argparse.Namespace, words: Sequence[str], watch: ProjectionWatch) -> None:
        self._words = words
        self._watch = watch
        self._until: Until | None = args.wait if isinstance(args.wait, Until) else None
        self._wait_seconds: float = (args.timeout or math.inf) if self._until else args.wait
        self._signal: int | None = args.signal
        self._acknowledges: bool = not args.no_ack
        self._verbose: bool = args.verbose
        self._threads_env: Sequence[str] = args.threads_env
        self._followers = Followers()
        self._told: Projection | None = None
        self._wanted: CPUSet | None = None
        """The CPUs last asked for, of which the program was signalled."""
        self._owes = False
        """Whether `leaving` must still be left and acknowledged."""
        self._follow_at = math.inf
        """When threads must be moved next."""
        self._retry_seconds = _RETRY_SECONDS[0]
        self._said: set[str] = set()
        self._noted = ""
        self._look_at = 0.0

    def to_the_end(self, blocked: set[int]) -> int:
        """Start the program once its CPUs are known or the wait is over; follow until it ends."""
        adopt_orphans()
        start_by = time.monotonic() + self._wait_seconds
        child: Child | None = None
        while True:
            self._look()
            self._follow(child)
            if child is None and self._may_start(is_over=time.monotonic() >= start_by):
                child = self._start(blocked)
            # Never past the start; and soon, if something is still to be done.
            until = min(self._look_at, self._follow_at) if child else min(self._look_at, start_by)
            pause = max(0.0, until - time.monotonic())
            for _ in range(_SIGNALS_A_TURN):
                if (heard := signal.sigtimedwait(TAKEN, pause)) is None:
                    break
                if child is None and heard.si_signo in _ENDING:
                    return end_by(heard.si_signo)
                self._hear(heard, child)
                pause = 0.0
            if child is not None and (status := child.reap()) is not None:
                return end_as(status)

    def _may_start(self, *, is_over: bool) -> bool:
        """Return whether the program may start, `is_over` after the wait. Raise NotStarted if it never may."""
        if self._until is None:
            return self._told is not None or is_over
        match gate(self._watch.directory, self._until):
            case Open(told):
                self._hear_of(told)
                self._follow(None)
                return True
            case Shut(reason, is_for_good):
                if is_over or is_for_good:
                    raise NotStarted(
                        f"never {self._until}: {reason}" if is_for_good else f"not {self._until} in time: {reason}", 1
                    )
                self._say_once(f"waiting to be {self._until}: {reason}")
        return False

    def _start(self, blocked: set[int]) -> Child:
        if self._told is None:
            self._say_once(
                f"{self._watch.trouble or 'the CPUs are unknown'}; starting the program anyway, and watching"
            )
        count = None if self._wanted is None else len(self._wanted)
        return Child(self._words, environment_for(count, os.environ, self._threads_env), blocked)

    def _hear(self, heard: signal.struct_siginfo, child: Child | None) -> None:
        """Act on a signal sent to this process: look for changes, or pass it on to the program."""
        number, from_kernel = heard.si_signo, heard.si_code > 0
        if number == signal.SIGIO and from_kernel:
            self._look_at = 0.0
        elif child is not None and number != signal.SIGCHLD:
            child.pass_on(number, from_kernel=from_kernel)

    def _look(self) -> None:
        """Read the projection if it changed, or if it is time to look again."""
        if time.monotonic() < self._look_at:
            return
        newest: Projection | None = None
        # To its end, so that all that was heard is forgotten, and the next event signals again.
        while (found := self._watch.wait(_LOOK_SECONDS)) is not None:
            newest = found
        is_short = isinstance(self._watch.trouble, ProjectionMissing)
        self._look_at = time.monotonic() + (SHORT_POLL_SECONDS if is_short else POLL_SECONDS)
        if newest is not None:
            self._hear_of(newest)
        elif self._wanted is not None and self._followers.were_moved():
            self._hurry()

    def _hear_of(self, told: Projection) -> None:
        if told.cpus:
            self._told = told
            self._owes = bool(told.leaving)
            self._hurry()

    def _hurry(self) -> None:
        self._follow_at, self._retry_seconds = 0.0, _RETRY_SECONDS[0]

    def _follow(self, child: Child | None) -> None:
        """Move the threads, signal, and acknowledge, in this order."""
        told = self._told
        if told is None or time.monotonic() < self._follow_at:
            return
        # Without any CPU left there is nowhere to go: the kernel will move all threads at once.
        wanted = told.cpus - told.leaving or told.cpus
        moved = self._followers.follow(wanted, told.cpus, told.leaving)
        self._note(_outcome(told, moved))
        if wanted != self._wanted:
            if self._wanted is not None and child is not None and self._signal is not None:
                self._send(child, self._signal)
            self._wanted = wanted
        if self._owes and moved.is_complete and not moved.on_leaving:
            self._owes = False
            self._acknowledge(told.generation)
        self._follow_at = math.inf
        if self._owes or not moved.is_complete:
            self._follow_at = time.monotonic() + self._retry_seconds
            self._retry_seconds = min(2 * self._retry_seconds, _RETRY_SECONDS[1])

    def _send(self, child: Child, number: int) -> None:
        if child.catches(number):
            child.send(number)
        else:
            self._note(f"not sent: the program has no handler for {signal.Signals(number).name}, which might end it")

    def _acknowledge(self, generation: int) -> None:
        if not self._acknowledges:
            return
        try:
            ack.write(self._watch.directory, generation)
        except ProjectionError as error:
            self._say_once(f"CPUs were left, but this cannot be acknowledged: {error}")
        else:
            self._note(f"acknowledged {generation}")

    def _note(self, text: str) -> None:
        if self._verbose and text != self._noted:
            self._noted = text
            _say(text)

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            _say(text)


def _outcome(told: Projection, moved: Moved) -> str:
    words = [f"CPUs {told.cpus}", f"leaving {told.leaving}"] if told.leaving else [f"CPUs {told.cpus}"]
    threads = [f"{moved.following} followed to {mine()}"]
    if moved.own:
        threads.append(f"{moved.own} bound by the program")
    if moved.on_leaving:
        threads.append(f"{moved.on_leaving} not off yet")
    return f"{', '.join(words)}; threads: {', '.join(threads)}"


def _signalling_ear() -> Ear:
    """Return an ear that sends us SIGIO when there is something to hear (fcntl(2), O_ASYNC; inotify(7) from Linux
    2.6.25).
    """
    ear = Inotify()
    fcntl.fcntl(ear.fd, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(ear.fd, fcntl.F_SETFL, fcntl.fcntl(ear.fd, fcntl.F_GETFL) | os.O_ASYNC)
    return ear


def _signal(value: object) -> int | SignalName:
    """Return the number of `HUP`, `SIGHUP` or `1`; a flaw if the program could not be sent it."""
    name = str(value).strip().upper().removeprefix("SIG")
    with contextlib.suppress(KeyError, ValueError):
        number = int(name) if name.isdecimal() else signal.Signals[f"SIG{name}"]
        if signal.Signals(number) in TAKEN:
            return int(number)
    return SignalName()


def _awaited(value: object) -> Until | float | Seconds:
    found = choice(Until)(value)
    if isinstance(found, Until):
        return found
    seconds = duration(0, 3600)(value)
    return Seconds(seconds.low, seconds.high, found.words) if isinstance(seconds, Seconds) else seconds


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"cpuset-sidecar exec: {printable(text)}\n")
        sys.stderr.flush()
