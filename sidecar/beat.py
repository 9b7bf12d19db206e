"""The beat: what is done every so often is done at common times, so that an idle daemon is woken once for all of it.

Ten tasks that pause for five seconds each wake a daemon ten times in these. Each wake-up costs a switch of the
processor and a round of trio's loop, mostly more than what is done in it. So a task that looks at something every
period waits for the next beat of that period instead: the next multiple of it on trio's clock. Beats of one second, of
two, of five and of ten fall together where they can.

1. A beat comes at most a period after it was waited for, mostly sooner: no promise of a page becomes longer by it. It
   is for tasks that may be early, and not for pauses that something needs in full, as between two attempts.
2. Two looks in turn are a period apart, but for what delays the daemon.
3. Where something can be waited for, as an event of the kernel's, that is better than any beat.
"""

from __future__ import annotations

import math

import trio


def next_beat(now: float, period_seconds: float) -> float:
    """Return the time of the first beat of this period after `now`, both in seconds of trio's clock."""
    due = (math.floor(now / period_seconds) + 1) * period_seconds
    # A quotient may be rounded either way.
    due = due - period_seconds if due - now > period_seconds else due
    return due if due > now else due + period_seconds


async def beat(period_seconds: float) -> float:
    """Wait for the next beat of this period. Return the time at which it was due."""
    due = next_beat(trio.current_time(), period_seconds)
    await trio.sleep_until(due)
    return due
