"""What a daemon has imported that uses no option, by a real one: nothing of what only other hosts need. Not timed."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Final

import pytest

from tests.support.daemon.quiet_engine import flags, quiet_engine, started

NOT_USED: Final = (
    # Packages of other commands, of the workload's side, of metrics, and of the host's units.
    "rich",
    "anyio",
    "prometheus_client",
    "jeepney",
    "argcomplete",
    "textual",
    # What the libraries at hand bring along for them.
    "xml",
    "wsgiref",
    "socketserver",
    "html",
    "unittest",
    "multiprocessing",
    "sqlite3",
    # What compares misspelt words with known ones.
    "difflib",
    # Rooms and modules of this program that an option, another command or a first question asks for.
    "sidecar.simulation",
    "sidecar.kubelet",
    "sidecar.workload",
    "sidecar.cli.cmd_status",
    "sidecar.cli.doctor",
    "sidecar.cli.setup",
    "sidecar.cli.top",
    "sidecar.api.metrics",
    "sidecar.api.exposition",
    "sidecar.api.page_relay",
    "sidecar.hooks.hook_runner",
    "sidecar.host.machine.machine_file",
    "sidecar.host.machine.hwloc",
    "sidecar.restoring",
    "sidecar.runtime.bundle",
    "sidecar.runtime.front",
)
"""With all that is below them."""

USED: Final = (
    "trio",
    "aiodocker",
    "h11",
    "sidecar.allocator",
    "sidecar.api.web_app",
    "sidecar.engines.docker.docker_engine",
)
"""What it has: the names above are those of modules, and it was looked at late enough."""

_TELLS = """
import os, signal, sys, threading, time
def tell():
    while "sidecar.api.connections" not in sys.modules or not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    time.sleep(0.2)
    with open(sys.argv[2], "w") as out:
        out.write(" ".join(sys.modules))
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=tell, daemon=True).start()
from sidecar.__main__ import main
sys.exit(main(["run", *sys.argv[3:]]))
"""


@pytest.mark.timeout(180)
def test_a_host_that_uses_no_option_imports_nothing_for_it(tmp_path: Path) -> None:
    """Ready, and with its API served: what is imported is in memory for as long as the daemon runs."""
    found, log = tmp_path / "found", tmp_path / "log"
    with quiet_engine(tmp_path) as engine:
        words = [str(tmp_path / "state" / "status.json"), str(found), *flags(tmp_path, engine)]
        daemon = started(words, log, ("-c", _TELLS))
        try:
            assert daemon.wait(150) == 0, log.read_text()
        finally:
            daemon.send_signal(signal.SIGKILL)
            daemon.wait()
    modules = found.read_text().split()
    assert [
        each for each in modules if each.startswith(tuple(f"{name}." for name in NOT_USED)) or each in NOT_USED
    ] == []
    assert [each for each in USED if each not in modules] == []
