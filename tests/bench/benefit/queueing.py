"""Server: requests that wait in one line for worker threads, which share the speed that the CPUs give them.

Between two events every busy thread runs at one speed, so it is enough to count *virtual* time, which passes at that
speed: a request ends when as much of it has passed as the request needs.

1. The next event is an arrival, or the end of the request with the least virtual end, or the end of this stretch.
2. Until then, virtual time passes at the speed of as many busy threads as there are.
3. An arriving request takes an idle thread, which must be woken, or waits in line. A thread that is done takes the
   first in line, without sleeping.
4. With fewer threads than before, no request is interrupted: none begins until enough have ended.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from typing import Final

from tests.bench.benefit.load import Requests

_NEVER: Final = math.inf


class Server:
    """One server and all of its requests. `responses` holds (arrived, seconds until it was answered) as they end.

    `busy` counts thread-seconds, `served` seconds of CPU time that were worked off, `overhead` those that waking added.
    """

    def __init__(self, requests: Requests) -> None:
        self.now = 0.0
        self.responses: list[tuple[float, float]] = []
        self.busy = 0.0
        self.served = 0.0
        self.overhead = 0.0
        self._requests = requests
        self._next = 0
        self._virtual = 0.0
        self._running: list[tuple[float, float]] = []
        self._line: deque[int] = deque()

    @property
    def active(self) -> int:
        """Return how many threads are busy."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Return how many requests are in line."""
        return len(self._line)

    @property
    def is_done(self) -> bool:
        """Return whether all requests that will ever come are answered."""
        return self._next == len(self._requests.at) and not self._running and not self._line

    def advance(self, until: float, threads: int, speeds: Sequence[float], late: Sequence[float] = (0.0,)) -> None:
        """Let time pass. With n busy threads each runs at `speeds[n]`, 1 being a CPU of its own; there are speeds for
        all that may be busy. `late` are the seconds that a thread waits for its CPU when it is woken, by its luck.
        """
        at, work, luck = self._requests
        running, line, now, virtual = self._running, self._line, self.now, self._virtual
        # 4. More threads than before begin at once.
        while line and len(running) < threads:
            first = line.popleft()
            heapq.heappush(running, (virtual + work[first], at[first]))
        while True:
            # 1. What comes next.
            count = len(running)
            speed = speeds[count]
            arrives = at[self._next] if self._next < len(at) else _NEVER
            ends = now + (running[0][0] - virtual) / speed if count else _NEVER
            then = min(arrives, ends, until)
            # 2. Until then.
            self.busy += count * (then - now)
            self.served += count * (then - now) * speed
            virtual += (then - now) * speed
            now = then
            if ends <= then:
                # 3. The first in line.
                arrived = running[0][1]
                if line and count <= threads:
                    first = line.popleft()
                    heapq.heapreplace(running, (virtual + work[first], at[first]))
                else:
                    heapq.heappop(running)
                self.responses.append((arrived, now - arrived))
            elif arrives <= then:
                # 3. An idle thread, or in line.
                first = self._next
                self._next += 1
                if count < threads:
                    waits = late[int(luck[first] * len(late))] * speeds[count + 1]
                    self.overhead += waits
                    heapq.heappush(running, (virtual + work[first] + waits, at[first]))
                else:
                    line.append(first)
            else:
                break
        self.now, self._virtual = now, virtual
