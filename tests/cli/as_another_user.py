"""Run as a program: commands as a user who may read nothing of root's. Prints what each of them wrote, as JSON.

Everything is imported first: the interpreter may lie where that user cannot read. Without root the commands run as they
are, and the directories of the test are closed to their owner.
"""

from __future__ import annotations

import json
import os
import pkgutil
import signal
import sys
import tempfile
import traceback
from importlib import import_module
from typing import Any

NOBODY = 65534
PATIENCE_SECONDS = 20


def main(commands: list[list[str]]) -> None:
    """Run each command in a child, and print the results in their order."""
    for package in ("sidecar", "state"):
        for module in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
            # The reflex and the replacer are libraries, and no modules of Python.
            if not module.name.endswith(("__main__", "runtime.front", "hand.reflex", "projection.replacer")):
                import_module(module.name)
    for name in (
        "sidecar.__main__",
        "encodings.ascii",
        "encodings.idna",
        "encodings.unicode_escape",
        "encodings.utf_8_sig",
        "importlib.readers",
        "importlib.resources",
        "webbrowser",
        "trio",
        "aiohttp",
        "rich.cells",
        "anyio._backends._asyncio",
        "anyio._backends._trio",
    ):
        import_module(name)
    print(json.dumps([ran(command) for command in commands]))


def ran(command: list[str]) -> dict[str, Any]:
    """Return the exit code of a command, and its output and errors together."""
    with tempfile.TemporaryFile() as written:
        child = os.fork()
        if not child:
            os._exit(_as_nobody(command, written.fileno()))
        _, status = os.waitpid(child, 0)
        written.seek(0)
        return {"code": os.waitstatus_to_exitcode(status), "said": written.read().decode(errors="replace")}


def _as_nobody(command: list[str], written: int) -> int:
    signal.alarm(PATIENCE_SECONDS)
    os.dup2(written, 1)
    os.dup2(written, 2)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    try:
        code = sys.modules["sidecar.__main__"].main(command)
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # what the test looks for
        traceback.print_exc()
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    return int(code or 0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
