"""The half of `cpuset-runc` that asks: before a container begins, the sidecar decides on which CPUs it starts.

It runs on the host, under any Python from 3.9 on, as `python3 -I -S`, and imports nothing outside the standard library,
nor any part of it that costs milliseconds: every start of a container waits for it.

1. The arguments of the OCI runtime are read as runc and crun read them: the log, the bundle, the container's id.
2. The sidecar is asked over its Unix socket. If nothing answers, it is asked again for `patience` seconds: a sidecar
   that starts with the machine, or restarts, gets that time. A sidecar that died over the answer is asked again.
3. An answer with CPUs goes into the bundle's `config.json`, with the mount of the container's own projection, by one
   rename; unknown parts of the file stay as they were. An answer without CPUs leaves the bundle alone.
4. The real runtime replaces this process, with the same arguments.

Every failure is a refusal: the container does not start, and the reason is where the engine looks for it: in a line of
the log that the engine named, and on stderr. Containers with other runtimes are not affected.

A front of the kind `usual` stands before a runtime that containers have without having chosen this one: the engine's
default, or one that was wrapped by its name. There only a decision is a refusal. What this program does not understand
goes to the real runtime byte for byte as it came, and so does a container that asks for no CPUs while nothing answers.
One that asks for CPUs is refused without a sidecar, as if it had chosen this runtime. A container that surely asks for
nothing is not asked for at all: it starts by the standing order (`standing`), and so does any other that asks for no
CPUs while nothing answers.

Before both kinds, a container that holds CPUs starts on these while nothing answers, if the sidecar has written down
what it would answer (`owner_start`).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import errno
import fcntl
import os
import sys
import time

from . import owner_start, standing
from .bundle import (
    MOST_BYTES,
    OURS,
    SWARMS,
    StartRefused,
    apply,
    dumped,
    id_in,
    loaded,
    mount,
    question,
    replace,
    table,
    text,
)
from .exec_place import ExecCall, place
from .socket_client import ANOTHER, HOOK, USUAL, KeptFromStarting, RuntimeSettings, asked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VALUED = frozenset(("log", "log-format", "log-level", "root", "criu", "rootless", "cgroup-manager", "bundle", "b"))
VALUED |= {"console-socket", "pidfd-socket", "pid-file", "preserve-fds", "config", "f"}
VALUED |= {"image-path", "work-path", "parent-path", "manage-cgroups-mode", "empty-ns", "lsm-profile"}
VALUED |= {"lsm-mount-context"}
"""Options of runc and crun, and of their commands that begin a container, that are followed by a separate value."""

BEGINNING = ("create", "restore", "run")
"""The commands that begin a container: one from a checkpoint runs at once."""

ASKING = "cpuset.exclusive"
"""The label, and the annotation, with which a container asks for CPUs; with a slash and a name for one of a pod."""

NONE = ("", "false", "no", "off", "0")
"""The values with which it asks for none."""

NOT_STARTED = "not started: "
"""With which reasons begin: not where the container starts all the same."""

INHERITS = "runc"
"""The runtime that hands the lock of the standing order on to no container."""


class Called:
    """The arguments of the runtime; `words` are all of them."""

    def __init__(self, words: list[str]) -> None:
        options, rest = _split(words)
        self.words = words
        self.log = options.get("log", "").removeprefix("file:")
        self.is_json = options.get("log-format", "") == "json"
        self.command = rest[0] if rest else ""
        more, names = _split(rest[1:])
        self.container = names[0] if names else ""
        self.bundle = os.path.realpath(more.get("bundle") or more.get("b") or ".")
        self.config = os.path.join(self.bundle, more.get("config") or more.get("f") or "config.json")


def main(words: list[str]) -> int:
    """Begin a container as an OCI runtime, or a process in one: five settings, and the words of the call. Returns only
    if it is refused.
    """
    if (call := ExecCall(words[5:])).container:
        return join(words[0], os.path.join(_starts(words[1]), standing.EXEC), call, words[5:])
    called, is_strict, lock = Called([]), words[4] != USUAL, -1
    try:
        called = Called(words[5:])
        lock = change_bundle(RuntimeSettings(*words[:5]), called)
    except StartRefused as refused:
        reason, is_refused = str(refused), is_strict or isinstance(refused, KeptFromStarting)
    except Exception as error:
        reason, is_refused = f"cpuset-runc failed: {type(error).__name__}: {error}", is_strict
    else:
        reason, is_refused = "", False
    if reason and not is_refused:
        _warn(called, f"it starts as the engine has it: {reason.removeprefix(NOT_STARTED)}")
    if not is_refused:
        try:
            become(words[0], called.words, lock)
        except OSError as error:
            reason = f"{words[0]} cannot be run: {error.strerror}"
    reason = f"cpuset-sidecar: {reason}"
    _log(called, "error", reason)
    sys.stderr.write(reason + "\n")
    return 1


def join(real: str, folder: str, call: ExecCall, words: list[str]) -> int:
    """Begin a process in a container that runs. Returns only if the runtime cannot be run."""
    place(folder, call)
    try:
        become(real, words, -1)
    except OSError as error:
        sys.stderr.write(f"cpuset-runc: {real} cannot be run: {error.strerror}\n")
        return 127 if error.errno == errno.ENOENT else 126
    return 0


def become(real: str, words: list[str], lock: int) -> None:
    """Become the real runtime; with a lock of the standing order, hold that until the runtime has ended. Raise OSError
    if it cannot be run.
    """
    if lock >= 0 and os.path.basename(real) != INHERITS:
        child = os.posix_spawnp(real, [real, *words], os.environ)
        _signal_to(child)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
    if lock >= 0:
        # Out of the way of the descriptors that the engine hands on.
        fcntl.fcntl(lock, fcntl.F_DUPFD, standing.HIGH)
    os.execvp(real, [real, *words])  # noqa: S606 - that is what it is for


def _signal_to(child: int) -> None:
    """Pass on what ends a runtime."""

    def told(number: int, _: object) -> None:
        os.kill(child, number)

    for number in (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM):
        _signal.signal(number, told)


def hook(words: list[str]) -> int:
    """Do the same as a precreate hook: a `config.json` comes on stdin, and goes to stdout. Return the exit code."""
    try:
        content = sys.stdin.buffer.read(MOST_BYTES + 1)
        spec = loaded(content)
        container = id_in(text(table(spec, "linux"), "cgroupsPath"))
        changed, told = changed_spec(
            RuntimeSettings(words[0], words[1], words[2], words[3], HOOK), question(container, spec), spec
        )
        for line in told:
            _tell_the_host(line)
        sys.stdout.buffer.write(dumped(spec) if changed else content)
        sys.stdout.buffer.flush()
    except StartRefused as refused:
        reason = str(refused)
    except Exception as error:
        reason = f"the precreate hook failed: {type(error).__name__}: {error}"
    else:
        return 0
    _tell_the_host(reason)
    sys.stderr.write(f"cpuset-sidecar: {reason}\n")
    return 1


def change_bundle(settings: RuntimeSettings, called: Called) -> int:
    """Change the bundle of this call's container by the answer to its question, or by the standing order. Return the
    lock of that, -1 for none. Raise StartRefused.
    """
    if called.command not in BEGINNING:
        cure = f"; {ANOTHER}" if settings.is_strict else ""
        raise StartRefused(
            f"not started: the call of the runtime is not understood ({dumped(called.command).decode()} stands where a "
            f"command is expected){cure}"
        )
    config = os.path.realpath(called.config)
    try:
        with open(config, "rb", buffering=0) as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise StartRefused(f"the bundle cannot be read: {config}: {error.strerror}") from error
    spec = loaded(content)
    body = question(called.container, spec)
    change = changed_or_owned if settings.is_strict else changed_or_ordered
    changed, told, lock = change(settings, body, spec)
    for line in told:
        _warn(called, line)
    if changed:
        replace(config, dumped(spec))
    return lock


def changed_or_ordered(
    settings: RuntimeSettings, body: dict[str, Any], spec: dict[str, Any]
) -> tuple[bool, list[str], int]:
    """Do the same for a container that did not choose this runtime: by the standing order if it surely asks for
    nothing, or if there is no answer and it asks for no CPUs. Return the lock of that as well.
    """
    folder = _starts(settings.socket)
    # The group above may have other CPUs than the order, so a sidecar is asked first.
    is_sure = surely_asks_nothing(body) and not lies_in_another(body["cgroup"])
    if is_sure and (found := standing.taken(folder)):
        order, lock = found
        if order.asks == standing.ASK_LABELLED:
            return _by_order(folder, order, body, spec), [], lock
        # Whoever answers may wait until nobody holds it.
        os.close(lock)
    try:
        return changed_or_owned(settings, body, spec)
    except KeptFromStarting:
        raise
    except StartRefused:
        if found := standing.taken(folder):
            return _by_order(folder, found[0], body, spec), [], found[1]
        if last := standing.kept(folder):
            return _by_order(folder, last, body, spec), [], -1
        raise


def changed_or_owned(
    settings: RuntimeSettings, body: dict[str, Any], spec: dict[str, Any]
) -> tuple[bool, list[str], int]:
    """Change the spec by the answer; by the one that was written down for this container if there is none at once, and
    as long as that stands. Return the lock of that as well, -1 for none. Raise StartRefused.
    """
    folder, id = _starts(settings.socket), body["id"]
    if not owner_start.counts(folder, id):
        return (*changed_spec(settings, body, spec), -1)
    try:
        return (*changed_spec(settings, body, spec, waits=False), -1)
    except KeptFromStarting:
        raise
    except StartRefused:
        found = owner_start.taken(folder, id)
    if found is None:
        # A sidecar has begun meanwhile.
        return (*changed_spec(settings, body, spec), -1)
    answer, order, lock = found
    standing.note(folder, id, order)
    return (*_applied(settings, body, spec, answer), lock)


def lies_in_another(cgroup: str) -> bool:
    """Return whether a container's cgroup will be inside that of another one, or of a pod, or of what is called like
    one: its path has two ids.
    """
    words = cgroup.replace(":", "/").replace("-", "/").replace(".", "/").split("/")
    return sum(len(word) == 64 and not word.strip("0123456789abcdef") for word in words) > 1


def surely_asks_nothing(body: dict[str, Any]) -> bool:
    """Return whether a container has no CPUs of its own, and its labels are known and mean nothing here."""
    if body["cpus"] or body["mems"] or "labels" not in body:
        return False
    return not any(key.startswith((OURS, SWARMS)) for key in (*body["annotations"], *body["labels"]))


def _by_order(folder: str, order: standing.Order, body: dict[str, Any], spec: dict[str, Any]) -> bool:
    cpus = standing.within(body["cpus"], order) if body["cpus"] else order.cpus
    if lies_in_another(body["cgroup"]) and not (cpus := standing.within_above(cpus, body["cgroup"])):
        # It can have none of them there.
        return False
    apply(spec, {"cpus": cpus})
    standing.note(folder, body["id"], order)
    return True


def changed_spec(
    settings: RuntimeSettings, body: dict[str, Any], spec: dict[str, Any], *, waits: bool = True
) -> tuple[bool, list[str]]:
    """Change the spec according to the answer. Return whether it changed, and warnings. Raise StartRefused; at once
    if nothing answers, and it does not wait or asks for no CPUs.
    """
    if not settings.is_strict:
        body["strict"] = False
    is_needed = waits and (settings.is_strict or asks(body))
    return _applied(settings, body, spec, asked(settings, dumped(body), is_needed=is_needed))


def _applied(
    settings: RuntimeSettings, body: dict[str, Any], spec: dict[str, Any], answer: dict[str, Any]
) -> tuple[bool, list[str]]:
    update = answer.get("update")
    if update is None:
        return False, []
    apply_update(spec, update)
    told = []
    projection = answer.get("projection")
    if isinstance(projection, dict) and settings.projections and (settings.is_strict or asks(body)):
        left_out = mount(spec, settings.projections, text(projection, "directory"), text(projection, "destination"))
        if left_out:
            told.append(f"its projection is not mounted: {left_out}")
    return True, told


def apply_update(spec: dict[str, Any], update: object) -> None:
    """Change the spec by this part of an answer. Raise StartRefused."""
    if not isinstance(update, dict):
        raise StartRefused("the sidecar's answer cannot be understood")
    apply(spec, update)


def asks(body: dict[str, Any]) -> bool:
    """Return whether a container asks for CPUs, as far as its question tells."""
    known = [*body["annotations"].items(), *body.get("labels", {}).items()]
    asked = (value for key, value in known if key.partition("/")[0] == ASKING)
    return any(value.strip(" \t\n\v\f\r").lower() not in NONE for value in asked)


def _starts(socket: str) -> str:
    """Return the folder of the standing order."""
    return os.path.join(os.path.dirname(socket), standing.FOLDER)


# Reading the arguments.


def _split(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the options at the beginning, by name without dashes, and what follows them."""
    options: dict[str, str] = {}
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "-":
        word = words[place]
        place += 1
        if word == "--":
            break
        name, is_given, value = word.lstrip("-").partition("=")
        if not is_given and name in VALUED and place < len(words):
            value = words[place]
            place += 1
        options[name] = value
    return options, words[place:]


# Messages for people.


def _warn(called: Called, line: str) -> None:
    """Write a line into the log that the engine named, and into the host's: Docker throws its own away."""
    _log(called, "warning", f"cpuset-sidecar: {line}")
    _tell_the_host(f"{called.container[:12]}: {line}")


def _log(called: Called, level: str, message: str) -> None:
    """Write a line for the engine, into the log that it named, in the requested format."""
    if not called.log or ":" in called.log.partition("/")[0]:
        return  # No log, or one of crun's that are no files.
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if called.is_json:
        line = dumped({"level": level, "msg": message, "time": at})
    else:
        line = f'time="{at}" level={level} msg={dumped(message).decode()}'.encode()
    try:
        opened = os.open(called.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(opened, line + b"\n")
        finally:
            os.close(opened)
    except OSError:
        pass


def _tell_the_host(message: str) -> None:
    """Write a line into the host's log, if there is one."""
    sender = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    try:
        sender.settimeout(0.1)
        sender.connect("/dev/log")
        sender.send(f"<28>cpuset-runc: {message}".encode())
    except OSError:
        pass
    finally:
        sender.close()
