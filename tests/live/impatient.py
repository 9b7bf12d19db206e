"""`cpuset-sidecar` with less patience for its engine, so that tests of an engine that hangs last seconds.

python -m tests.live.impatient run --config FILE
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from sidecar import daemon
from sidecar.__main__ import main
from sidecar.engines.docker import Patience, open_docker
from sidecar.ports import Engine
from tests.live.waiting import PATIENCE

LOOK_SECONDS: Final = 2.0 * PATIENCE
UPDATE_SECONDS: Final = 3.0 * PATIENCE


@asynccontextmanager
async def open_engine(address: str, labels: frozenset[str] = frozenset()) -> AsyncIterator[Engine]:
    """The same engine, with a fifth and a tenth of the patience."""
    patience = Patience(look=LOOK_SECONDS, update=UPDATE_SECONDS)
    async with open_docker(address, patience, labels=labels) as engine:
        yield engine


if __name__ == "__main__":
    daemon.open_engine = open_engine
    sys.exit(main())
