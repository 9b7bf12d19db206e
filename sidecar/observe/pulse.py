"""The pulse of an engine: it is asked for a sign of life as often as leases are renewed, whatever else is asked of it.

An engine that hangs keeps its event stream open and sends nothing (decision 0033), and nothing else asks an idle one
before the next inventory, which may be an hour away. Leases vouch that the engine is reached (decision 0042), so they
need a proof of their own, and a recent one. A ping takes no lock and reads nothing, so its answer is late only when the
engine is.

A pulse that is not answered within the patience of a look is a lost connection, as an inventory without an answer is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from sidecar.beat import beat
from sidecar.board import Board
from sidecar.failures import EngineError, EngineUnavailable
from sidecar.ports import Engine
from state.lease import RENEW_SECONDS

PULSE_SECONDS: Final = RENEW_SECONDS
"""Between two: so each renewal of a lease finds a proof that is as fresh."""


async def keep_pulse(engine: Engine, board: Board, lose: Callable[[EngineUnavailable], None]) -> None:
    """Ask until cancelled, and show on the board when the engine lived. `lose` gives its event stream up, if there is
    one.
    """
    while True:
        await beat(PULSE_SECONDS)
        # The answer proves nothing of the time after the question.
        asked_at = trio.current_time()
        try:
            await engine.ping()
        except EngineUnavailable as error:
            lose(error)
            continue
        except EngineError:
            # A proxy may refuse what it does not know: that is an answer as well.
            pass
        board.heard[engine.name] = asked_at
