"""The compiled front's decisions in a process, built with ASan and UBSan: one input after the other."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import IO, Final

from tests.support.host.front_program import FLAGS, SOURCES, compiler

ID: Final = "d" * 64
SANITIZED: Final = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
_MOST_INPUTS: Final = 2000
"""After so many a driver is replaced: a front ends after one, and frees nothing."""


class Driver:
    """The compiled parts, in a process that is replaced now and then. Its files are in a folder in memory."""

    def __init__(self) -> None:
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = Path(tempfile.mkdtemp(prefix="cpuset-front-", dir=tempfile.tempdir or memory))
        self.root = self.folder / "root"
        (self.root / "by-id" / "x").mkdir(parents=True)
        (self.root / "by-id" / "link").symlink_to("/etc")
        (self.folder / ID).mkdir()
        self.books = self.folder / ID / "config.v2.json"
        sources = [str(path) for path in SOURCES.glob("*.c") if path.name != "front.c"]
        own = str(Path(__file__).with_name("front_driver.c"))
        command = [compiler() or "", *FLAGS, *SANITIZED, f"-I{SOURCES}", "-o", f"{self.folder}/driver", own, *sources]
        subprocess.run([*command, "-lyajl_s"], check=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._count = 0

    def ask(self, letter: str, *fields: bytes, answers: int = 1) -> list[tuple[str, bytes]]:
        """Return the outcomes of an input, and their texts; a second one comes only if the first is fine."""
        if self._process is None or self._count >= _MOST_INPUTS:
            self.close()
            environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=0"}
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                [f"{self.folder}/driver"], stdin=pipe, stdout=pipe, stderr=pipe, env=environment
            )
            self._count = 0
        self._count += 1
        into, out = self._process.stdin, self._process.stdout
        assert into is not None
        assert out is not None
        try:
            into.write(letter.encode() + b"".join(b"%d\n%s" % (len(field), field) for field in fields))
            into.flush()
            found = [self._read(out)]
            while len(found) < answers and found[0][0] == "=":
                found.append(self._read(out))
        except (EOFError, BrokenPipeError):
            said = self._process.communicate()[1].decode("utf-8", "replace")
            self._process = None
            raise AssertionError(f"the driver ended: {said}") from None
        return found

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def remove(self) -> None:
        """End the process, and remove what is here."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def _read(out: IO[bytes]) -> tuple[str, bytes]:
        head = out.readline()
        if not head:
            raise EOFError
        return chr(head[0]), out.read(int(head[1:]))


@cache
def driver() -> Driver:
    """Return the driver of this process."""
    made = Driver()
    atexit.register(made.remove)
    return made


def can_be_built() -> bool:
    """Return whether it can be built here."""
    return compiler() is not None and os.path.exists("/usr/include/yajl/yajl_parse.h")
