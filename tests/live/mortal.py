"""`cpuset-sidecar`, killed at one step of an order with two legs, as soon as a file is there. At a step that is of one
container, its id must be in the file: the first order may be to one that is just born. One that changes nothing is no
step either: beside an id is the cpuset that the kernel has.

STOP_AT=STEP STOP_IF=FILE python -m tests.live.mortal run --config FILE
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from sidecar.__main__ import main
from sidecar.apply.executor import Executor
from sidecar.apply.hand_orders import HandOrders
from sidecar.decide.facts import CpusetApplied, CpusetFailed
from sidecar.decide.orders import ApplyCpuset, HoldAnswers, WriteCpuset


def die(container: str = "", becomes: object = None) -> None:
    """End by SIGKILL, if the file is there and has the id of the container that this step is of, which `becomes`
    another cpuset than it has there.
    """
    armed = Path(os.environ["STOP_IF"])
    if armed.exists() and container in (text := armed.read_text()) and f"{container} {becomes}\n" not in text:
        os.kill(os.getpid(), signal.SIGKILL)


def answers_sent() -> None:
    """The hand is told its answers, and does not hold them yet."""
    honest = HandOrders.hold

    def hold(self: HandOrders, order: HoldAnswers) -> None:
        die()
        honest(self, order)

    HandOrders.hold = hold  # type: ignore[method-assign]


def answers_held() -> None:
    """The hand holds its answers, and that is not reported."""
    honest = HandOrders.hold

    def hold(self: HandOrders, order: HoldAnswers) -> None:
        honest(self, order)
        die()

    HandOrders.hold = hold  # type: ignore[method-assign]


def written() -> None:
    """The hand wrote one cgroup; neither are the others written, nor does the engine know."""
    honest = HandOrders.write_many

    def write_many(self: HandOrders, orders: Sequence[WriteCpuset]) -> None:
        for order in orders:
            honest(self, (order,))
            die(order.container.id, order.update.cpus)

    HandOrders.write_many = write_many  # type: ignore[method-assign]


def recording() -> None:
    """The kernel has it, and the record is about to be sent."""
    honest = Executor._outcome

    async def outcome(self: Executor, order: ApplyCpuset) -> Any:
        die(order.container.id)
        return await honest(self, order)

    Executor._outcome = outcome  # type: ignore[method-assign]


def recorded() -> None:
    """The engine answered the record, and no book has that."""
    honest = Executor._outcome

    async def outcome(self: Executor, order: ApplyCpuset) -> CpusetApplied | CpusetFailed:
        found = await honest(self, order)
        die(order.container.id)
        return found

    Executor._outcome = outcome  # type: ignore[method-assign]


STEPS: Final[dict[str, Callable[[], None]]] = {
    each.__name__: each for each in (answers_sent, answers_held, written, recording, recorded)
}


if __name__ == "__main__":
    STEPS[os.environ["STOP_AT"]]()
    sys.exit(main())
