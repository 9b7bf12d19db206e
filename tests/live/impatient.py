"""`cpuset-sidecar` with shorter timeouts for its engine, so that tests of an engine that hangs last seconds.

python -m tests.live.impatient run --config FILE
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Final

from sidecar.__main__ import main
from sidecar.engines import open_engine
from sidecar.engines.answer_bounds import Patience
from tests.live.waiting import PATIENCE

LOOK_SECONDS: Final = 2.0 * PATIENCE
UPDATE_SECONDS: Final = 3.0 * PATIENCE


if __name__ == "__main__":
    open_engine.Patience = partial(Patience, look=LOOK_SECONDS, introduction=2 * LOOK_SECONDS, update=UPDATE_SECONDS)  # type: ignore[assignment, attr-defined]
    sys.exit(main())
