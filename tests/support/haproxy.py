"""HAProxy with the configuration that is shipped, between two Unix sockets, for as long as a test needs it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.live.waiting import eventually

CONFIGURATION: Final = Path(__file__).parents[2] / "compose/proxy/haproxy.cfg"


@contextmanager
def haproxy(engine_socket: Path, proxy_socket: Path) -> Iterator[None]:
    """Run it for the length of the block. Skips the test where the program is missing."""
    if shutil.which("haproxy") is None:
        pytest.skip("needs the program haproxy (Debian: apt-get install haproxy); `make test` as root installs it")
    places = {"ENGINE_SOCKET": str(engine_socket), "PROXY_SOCKET": str(proxy_socket)}
    command = ["haproxy", "-f", str(CONFIGURATION)]
    with subprocess.Popen(command, env={**os.environ, **places}, stderr=subprocess.PIPE, text=True) as process:
        try:
            eventually(lambda: proxy_socket.exists() or process.poll() is not None, "the proxy listens")
            if process.poll() is not None:
                assert process.stderr is not None
                pytest.fail(f"haproxy ended: {process.stderr.read()}")
            yield
        finally:
            process.terminate()
