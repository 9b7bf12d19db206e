"""The command `exec` as a process that stands before another: signals, terminal, exit codes, orphans, PID 1."""

from __future__ import annotations

import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.workload.execs import (
    EVERY,
    PATIENCE_SECONDS,
    PROGRAM,
    ROOT,
    Told,
    await_program,
    complaint,
    descendants,
    eventually,
    executing,
    line,
    needs_root,
)

AT_ONCE = ("--wait", "0")

COUNTING = """
import signal
heard = []
signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
def end(*_):
    print(len(heard) > 0, flush=True)
    raise SystemExit(5)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
while True: signal.pause()
"""


def command(*words: str) -> list[str]:
    return [sys.executable, "-W", "error", "-c", PROGRAM, "exec", *AT_ONCE, "--dir", "/nonexistent", "--", *words]


def run(*words: str, under: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*under, *command(*words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.mark.parametrize("code", [0, 1, 2, 77, 255])
def test_the_exit_code_is_the_programs(code: int) -> None:
    """Even of one that ends at once."""
    assert run("sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("name", ["TERM", "KILL", "INT", "USR1", "SEGV", "RTMIN"])
def test_a_program_that_dies_of_a_signal_makes_us_die_of_it(name: str) -> None:
    """So that a waiting parent sees the same as without us."""
    number = signal.Signals[f"SIG{name}"]
    program = f"import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.kill(os.getpid(), {number})"
    assert run(sys.executable, "-c", "import signal; signal.signal(2, signal.SIG_DFL);" + program).returncode == -number


def test_a_program_that_there_is_not_is_127() -> None:
    """By name and by path."""
    for words in (["no-such-program-anywhere"], ["/no/such/program"], ["/etc/passwd/program"]):
        done = run(*words)
        assert done.returncode == 127
        assert f"cannot start {words[0]}: there is no such program" in done.stderr


def test_a_program_that_cannot_be_executed_is_126(tmp_path: Path) -> None:
    """No permission, a directory, or not a program at all."""
    plain = tmp_path / "plain"
    plain.write_text("neither a program nor a script")
    assert run(str(plain)).returncode == 126
    plain.chmod(0o755)
    assert "Exec format error" in (done := run(str(plain))).stderr
    assert done.returncode == 126
    assert run(str(tmp_path)).returncode == 126


@pytest.mark.parametrize(
    "words",
    [[], ["--"], ["--signal", "NOPE", "--", "true"], ["--signal", "KILL", "true"], ["--wait", "-1", "--", "true"]],
    ids=" ".join,
)
def test_wrong_usage_is_2(words: list[str]) -> None:
    """With a sentence."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "exec", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 2
    assert "usage: cpuset-sidecar exec" in done.stderr


def test_options_behind_the_program_are_the_programs() -> None:
    """With and without the two dashes."""
    assert run("echo", "--signal", "--", "--json").stdout == "--signal -- --json\n"
    assert run("sh", "-c", 'echo "$@"', "sh", "--help").stdout == "--help\n"


def test_signals_are_passed_on_and_an_end_is_the_programs_to_choose() -> None:
    """Its own exit code, in answer to our SIGTERM."""
    with executing(sys.executable, "-c", COUNTING, options=AT_ONCE) as process:
        assert line(process) == "ready"
        process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGINT)
        assert line(process) == "interrupted"
        process.terminate()
        assert line(process) == "True"
        assert process.wait(PATIENCE_SECONDS) == 5


def test_a_storm_of_signals_harms_nothing() -> None:
    """Thousands, of all kinds that a program can survive."""
    with executing(sys.executable, "-c", COUNTING, options=AT_ONCE) as process:
        assert line(process) == "ready"
        for _ in range(1000):
            for number in (signal.SIGUSR1, signal.SIGCHLD, signal.SIGCONT, signal.SIGWINCH, signal.SIGURG):
                process.send_signal(number)
        process.terminate()
        assert line(process) == "True"
        assert process.wait(PATIENCE_SECONDS) == 5


def test_a_program_that_ignores_sigterm_goes_on_and_so_do_we() -> None:
    """Until it is killed."""
    script = "trap '' TERM; echo ready; while :; do read line && echo $line; done"
    with executing("sh", "-c", script, options=AT_ONCE, stdin=subprocess.PIPE) as process:
        assert process.stdin
        assert line(process) == "ready"
        process.terminate()
        process.stdin.write("still here\n")
        process.stdin.flush()
        assert line(process) == "still here"
        [child] = descendants(process.pid)
        os.kill(child, signal.SIGKILL)
        assert process.wait(PATIENCE_SECONDS) == -signal.SIGKILL


def test_a_program_starts_with_no_signal_blocked_or_ignored() -> None:
    """What we block, and what Python ignores, is not inherited; what was ignored before us (nohup) stays so."""
    done = run("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")
    # glibc's posix_spawn leaves its own two signals, 32 and 33, ignored.
    glibcs = 0b11 << 31
    ours = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
    before = sum(1 << (number - 1) for number in ours if signal.getsignal(number) is signal.SIG_IGN)
    assert [int(row.split()[1], 16) & ~glibcs for row in done.stdout.splitlines()] == [0, before]


def test_a_signal_while_it_waits_for_the_projection_ends_it(tmp_path: Path) -> None:
    """There is no program yet to decide that."""
    with executing("echo", "started", options=("--wait", "1000", "--dir", tmp_path / "none")) as process:
        eventually(lambda: blocks(process.pid, signal.SIGTERM), "waiting")
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == -signal.SIGTERM
        assert line(process) == ""


def blocks(process: int, number: int) -> bool:
    for row in Path(f"/proc/{process}/status").read_text().splitlines():
        if row.startswith("SigBlk"):
            return bool(int(row.split()[1], 16) >> (number - 1) & 1)
    return False


def test_a_change_is_signalled_to_a_program_that_handles_it(tmp_path: Path) -> None:
    """Once for each change of the CPUs that it may use; other changes of the projection do not count."""
    if len(EVERY) < 2:
        pytest.skip("needs two CPUs, to take one away")
    program = COUNTING.replace("heard.append(1)", "print('changed', flush=True)")
    projection = Told(tmp_path)
    projection.tell(EVERY)
    options = ("--signal", "USR1", "--verbose", "--dir", projection.directory)
    with executing(sys.executable, "-c", program, options=options) as process:
        assert line(process) == "ready"
        one = EVERY.lowest()
        rest = type(EVERY).of(one)
        asked = projection.tell(EVERY, leaving=EVERY - rest)
        assert line(process) == "changed"
        projection.await_acknowledgement(asked)
        projection.tell(rest)
        while not complaint(process).endswith(f"CPUs {rest}; threads: 1 followed to {rest}"):
            pass
        process.send_signal(signal.SIGINT)
        assert line(process) == "interrupted"
        projection.tell(EVERY)
        assert line(process) == "changed"


def test_a_program_that_does_not_handle_the_signal_is_spared(tmp_path: Path) -> None:
    """SIGHUP would end it."""
    if len(EVERY) < 2:
        pytest.skip("needs two CPUs, to take one away")
    projection = Told(tmp_path)
    projection.tell(EVERY)
    with executing("sleep", "1000", options=("--signal", "hup", "--verbose", "--dir", projection.directory)) as process:
        complaint(process)
        await_program(process, "sleep")
        projection.tell(type(EVERY).of(EVERY.lowest()))
        complaint(process)
        assert complaint(process).endswith("not sent: the program has no handler for SIGHUP, which might end it")
        assert process.poll() is None


def test_orphans_are_adopted_and_reaped() -> None:
    """None stays a zombie below us, although their parents have not waited for them."""
    script = "for i in 1 2 3 4 5; do (sh -c 'echo $$' &) ; done; echo done; exec sleep 1000"
    with executing("sh", "-c", script, options=AT_ONCE) as process:
        orphans = {line(process) for _ in range(6)} - {"done"}
        assert len(orphans) == 5
        eventually(lambda: len(list(descendants(process.pid))) == 1, "all reaped but the program")
        assert not [orphan for orphan in orphans if Path(f"/proc/{orphan}").exists()]


def test_orphans_that_live_are_ours() -> None:
    """They are moved like all others, so init must not adopt them."""
    with executing("sh", "-c", "(sleep 1000 & echo $!); exec sleep 1000", options=AT_ONCE) as process:
        orphan = int(line(process))
        eventually(lambda: parent_of(orphan) == process.pid, "adopted")


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


UNSHARED = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


@needs_root
def test_as_the_first_process_it_returns_128_and_the_signal() -> None:
    """A signal cannot end PID 1 itself."""
    assert run("sh", "-c", "kill -TERM $$", under=UNSHARED).returncode == 128 + signal.SIGTERM
    assert run("sh", "-c", "exit 9", under=UNSHARED).returncode == 9


@needs_root
def test_as_the_first_process_it_passes_signals_on_and_reaps() -> None:
    """A container's stop reaches the program, and zombies do not pile up."""
    script = "trap 'ps -eo stat= | grep -c ^Z; exit 3' TERM; for i in 1 2 3; do (true & true & exec true) ; done; "
    script += "echo ready; while :; do sleep 0.01; done"
    with subprocess.Popen(
        [*UNSHARED, *command("sh", "-c", script)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert line(process) == "ready"
        [first] = descendants_once(process.pid)
        os.kill(first, signal.SIGTERM)
        assert line(process) == "0"
        assert process.wait(PATIENCE_SECONDS) == 3


def descendants_once(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


class Terminal:
    """A program in a terminal and a session of its own."""

    def __init__(self, *words: str) -> None:
        self.pid, self.screen = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            os.environ["PYTHONPATH"] = str(ROOT)
            os.execvp(words[0], words)
        self.text = ""

    def until(self, wanted: str) -> None:
        """Read until this is on the screen."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while wanted not in self.text:
            assert select.select([self.screen], [], [], max(0.0, deadline - time.monotonic()))[0], self.text
            self.text += os.read(self.screen, 4096).decode()

    def type(self, text: str) -> None:
        """Type this on the keyboard."""
        os.write(self.screen, text.encode())

    def end(self) -> int:
        """Wait for its end; return the wait status."""
        ended: list[int] = []

        def is_over() -> bool:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            ended.extend([status] if pid else [])
            return bool(pid)

        eventually(is_over, f"the end of {self.pid}, which wrote {self.text!r}")
        return ended[0]


def test_a_ctrl_c_reaches_the_program_once_and_the_terminal_is_its_own() -> None:
    """It comes from the terminal, and not also from us."""
    script = """
import signal, sys
count = [0]
signal.signal(signal.SIGINT, lambda *_: count.__setitem__(0, count[0] + 1))
print("tty", sys.stdin.isatty(), flush=True)
text = input("name? ")
print(f"{text} {count[0]} interrupts", flush=True)
"""
    terminal = Terminal(*command(sys.executable, "-c", script))
    try:
        terminal.until("tty True")
        terminal.until("name? ")
        terminal.type("\x03")
        terminal.until("^C")
        terminal.type("voice\n")
        terminal.until("voice 1 interrupts")
        assert terminal.end() == 0
    finally:
        os.close(terminal.screen)


READS = ("sh", "-c", "echo ready; read text; echo got $text")


def test_a_ctrl_z_stops_both_and_both_go_on() -> None:
    """The shell that runs us sees us stopped, and continues both."""
    terminal = Terminal("sh", "-i")
    try:
        terminal.type(shlex.join(command(*READS)) + "\n")
        terminal.until("\nready")
        [program] = descendants_once(terminal.pid)
        [child] = descendants_once(program)
        terminal.type("\x1a")
        eventually(lambda: state(program) == state(child) == "T", "both stopped")
        terminal.type("fg\n")
        eventually(lambda: "T" not in (state(program), state(child)), "both went on")
        terminal.type("on\n")
        terminal.until("\ngot on")
        terminal.type("exit\n")
        assert terminal.end() == 0
        assert not Path(f"/proc/{child}").exists()
    finally:
        os.close(terminal.screen)


def test_a_ctrl_z_that_no_shell_could_undo_stops_neither() -> None:
    """In a session of our own, such as that of `docker exec -it`."""
    terminal = Terminal(*command(*READS))
    try:
        terminal.until("ready")
        terminal.type("\x1a")
        terminal.until("^Z")
        terminal.type("on\n")
        terminal.until("got on")
        assert terminal.end() == 0
    finally:
        os.close(terminal.screen)


def state(process: int) -> str:
    """Return the state of a process as proc_pid_stat(5) writes it."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0]
