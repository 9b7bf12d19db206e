"""A workbench for the runtime: it is installed below a folder, asks a sidecar with the answers of the test, and becomes
a program that records its call.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sidecar.host.install.podman_files import podman_files
from sidecar.host.install.runtime_files import Installation, Places, carry_out, runtime_files

ID = "0123456789ab" + "c" * 52

Answer = tuple[int, object] | bytes | None
"""A status and a document; or raw bytes; or None, to hang up without a word."""


class FakeSidecar:
    """Answers questions on a Unix socket, in a thread, one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: list[Answer] = []
        """What is answered, in turn; the last one again and again."""
        self.asked: list[Any] = []
        self.heads: list[str] = []
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to listen."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._serve, args=(self._listener,))
        self._thread.start()

    def close(self) -> None:
        """Stop, and wait until its thread has ended."""
        if self._listener is None or self._thread is None:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(30)
        self.path.unlink(missing_ok=True)
        self._listener = None

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(EOFError, ConnectionError):
                head, body = _request(connection)
                self.heads.append(head)
                self.asked.append(json.loads(body))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if isinstance(answer, bytes):
                    connection.sendall(answer)
                elif answer is not None:
                    connection.sendall(_response(*answer))


class Workbench:
    """Everything below one folder. `create` calls the runtime as engines do."""

    def __init__(self, folder: Path, *, patience: float = 0.3, program: bytes | None = None) -> None:
        self.folder = folder
        self.program = program
        self.places = Places(str(folder / "usr local"), str(folder / "containers"))
        self.sidecar = FakeSidecar(folder / "api.sock")
        self.projections = folder / "projections"
        self.projections.mkdir()
        self.bundle = folder / "bundle"
        self.bundle.mkdir()
        self.log = folder / "log.json"
        self.called = folder / "called.json"
        self.real = folder / "real runtime"
        self.real.write_text(_REAL.format(python=sys.executable, called=str(self.called)))
        self.real.chmod(0o755)
        self.install(patience=patience)

    def install(self, **changed: Any) -> None:
        """Install, with these settings changed."""
        settings = {
            "real": str(self.real),
            "python": sys.executable,
            "socket": str(self.sidecar.path),
            "projections": str(self.projections),
            "patience": 0.3,
            "program": self.program,
        }
        made = Installation(**{**settings, **changed})
        carry_out("/", [*runtime_files(self.places, made), *podman_files(self.places, with_hook=True)])

    def put(self, spec: object, *, raw: bytes | None = None) -> None:
        """Write the bundle's config.json."""
        (self.bundle / "config.json").write_bytes(json.dumps(spec).encode() if raw is None else raw)

    def spec(self) -> Any:
        """Return the bundle's present config.json."""
        return json.loads((self.bundle / "config.json").read_bytes())

    def answer(self, *answers: Answer) -> None:
        """Start a sidecar with this answer."""
        self.sidecar.answers = list(answers)
        self.sidecar.start()

    def call(self, *words: str, program: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
        """Call the runtime, or another front, with these arguments."""
        command = [program or self.places.runtime, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)

    def create(self, *before: str, after: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        """Call `create` as containerd does."""
        self.called.unlink(missing_ok=True)
        options = before or ("--root", "/run/x", "--log", str(self.log), "--log-format", "json", "--systemd-cgroup")
        return self.call(*options, "create", "--bundle", str(self.bundle), "--pid-file", "/run/x/pid", *after, ID)

    def became(self) -> list[str] | None:
        """Return the arguments that the real runtime was called with; None if it was not."""
        try:
            found: list[str] = json.loads(self.called.read_text())
        except FileNotFoundError:
            return None
        return found

    def logged(self) -> list[dict[str, str]]:
        """Return the lines of the log that the engine named."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def hook(self, spec: object) -> subprocess.CompletedProcess[str]:
        """Call the precreate hook."""
        return subprocess.run(
            [self.places.hook], input=json.dumps(spec), capture_output=True, text=True, timeout=60, check=False
        )


def granted(cpus: str = "2-3", **more: Any) -> Answer:
    """Return an answer with CPUs."""
    update = {"cpus": cpus, "quota": None, "mems": None, **more}
    projection = {"directory": f"by-id/{ID[:12]}", "destination": "/run/cpuset-sidecar"}
    return 200, {"update": update, "exclusive": True, "projection": projection}


def until(is_so: Callable[[], object]) -> None:
    """Wait for another process, 20 s at most."""
    for _ in range(2000):
        if is_so():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not come to be")


def _request(connection: socket.socket) -> tuple[str, bytes]:
    content = b""
    while b"\r\n\r\n" not in content:
        content += _more(connection)
    head, _, body = content.partition(b"\r\n\r\n")
    size = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    parts, got = [body], len(body)
    while got < size:
        parts.append(_more(connection))
        got += len(parts[-1])
    return head.decode(), b"".join(parts)


def _more(connection: socket.socket) -> bytes:
    if more := connection.recv(65536):
        return more
    raise EOFError


def _response(status: int, document: object) -> bytes:
    body = json.dumps(document).encode()
    return f"HTTP/1.1 {status} \r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


_REAL = """#!{python}
import json, sys
open({called!r}, "w").write(json.dumps(sys.argv[1:]))
"""
