"""The one program that `exec` runs: it gets our signals, its orphans are reaped, and we end as it ends.

1. All signals that can be blocked are, and sigtimedwait(2) takes them one by one: none interrupts anything, none is
   lost, and each shows its sender. Blocked signals wait even for the first process of a container, which has no default
   actions, and even where they are ignored (signal(7), pid_namespaces(7)).
2. What is typed at a terminal goes to its whole foreground process group, the program included, and comes from the
   kernel (si_code above 0). It is not passed on, so that a Ctrl-C is one. The program keeps our process group, so that
   it may read from the terminal.
3. Orphans become our children: those of the first process of a PID namespace do, and those of others with
   PR_SET_CHILD_SUBREAPER (prctl(2)). Each is reaped.
4. When the program is ended by a signal, so are we, by the same one. The first process of a container cannot be, and
   returns 128 and the signal's number instead, as a shell does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final

# Faults in our own code, and the stop of a background process that uses the terminal: these act on us.
_ACT: Final = ("SIGSEGV", "SIGFPE", "SIGILL", "SIGBUS", "SIGTRAP", "SIGSYS", "SIGABRT", "SIGTTIN", "SIGTTOU")

TAKEN: Final = frozenset(signal.valid_signals()) - {signal.Signals[name] for name in (*_ACT, "SIGKILL", "SIGSTOP")}
"""The signals of rule 1."""

TYPED: Final = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH})
"""What a terminal sends to its foreground process group (termios(3))."""

# Python ignores these from its start on, but a program expects the default (as in subprocess).
_RESTORED: Final = (signal.SIGPIPE, signal.SIGXFSZ)

_PR_SET_CHILD_SUBREAPER: Final = 36

NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126


class NotStarted(Exception):
    """The program cannot be started. `code` is what a shell would return: 127 not found, 126 not executable; or 1 if it
    may not start.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def take_signals() -> set[int]:
    """Block the signals of rule 1 from now on. Return the previously blocked ones, with which the program starts."""
    # The parent may have ignored SIGCHLD, and children would vanish without a status (wait(2)).
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, TAKEN))


def adopt_orphans() -> None:
    """Adopt orphans (rule 3)."""
    if os.getpid() != 1:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Child:
    """The program, running."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], blocked: set[int]) -> None:
        """Start it with our files, terminal and CPUs. NotStarted."""
        try:
            self.pid: Final = os.posix_spawnp(
                words[0], list(words), dict(environment), setsigmask=blocked, setsigdef=_RESTORED
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotStarted(f"cannot start {words[0]}: there is no such program", NOT_FOUND) from error
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise NotStarted(f"cannot start {words[0]}: {why}", NOT_EXECUTABLE) from error

    def send(self, number: int) -> None:
        """Send it a signal. Does nothing if it has ended."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)

    def pass_on(self, number: int, *, from_kernel: bool) -> None:
        """Return the next signal sent to us (rules 1 and 2)."""
        if not (from_kernel and number in TYPED and self._is_in_our_group()):
            self.send(number)
        if number == signal.SIGTSTP:
            self._stop_as_it_stops()

    def catches(self, number: int) -> bool:
        """Return whether it has a handler for this signal. Most signals end a program that has none (signal(7))."""
        try:
            with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as file:
                lines = dict(line.split(":", 1) for line in file if ":" in line)
        except OSError:
            return False
        return bool(int(lines.get("SigCgt", "0"), 16) >> (number - 1) & 1)

    def reap(self) -> int | None:
        """Reap all ended children. Return the wait status of the program itself once it has ended."""
        ended = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return ended
            if pid == 0:
                return ended
            if pid == self.pid:
                ended = status

    def _stop_as_it_stops(self) -> None:
        """Stop, so that a shell that waits for us sees it; SIGCONT wakes us, and is passed on.

        By SIGTSTP and its default action, not by SIGSTOP: where no shell could continue the group, in a session of its
        own or as the first process of a container, the kernel stops neither of us: the group is orphaned (setpgid(2)).
        """
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})

    def _is_in_our_group(self) -> bool:
        with contextlib.suppress(ProcessLookupError):
            return os.getpgid(self.pid) == os.getpgrp()
        return True


def end_as(status: int) -> int:
    """Return the exit code for a wait status, or end by the signal that ended the program, if possible (4)."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else end_by(-code)


def end_by(number: int) -> int:
    """End by this signal. Return the exit code if that is impossible (4)."""
    if os.getpid() != 1:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            # Only the program may leave a core file: ours would replace it.
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if number != signal.SIGKILL:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
            os.kill(os.getpid(), number)
    return 128 + number
