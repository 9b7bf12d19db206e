"""Finding: one place where a promise of the pages is broken; and what lasts longer than the pages allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from tests.blackbox.asked import CPUs
from tests.blackbox.chronicle import Chronicle, Stage

ORDERS: Final = 0.5
"""Seconds in which all orders of one decision take effect, also for a container that is being started meanwhile."""

LOOKS: Final = 0.1
"""Seconds after which a look has shown what was started, or where the kernel put what lost its last CPU."""

LONGEST_NOTICE: Final = 21.0
"""Seconds: the longest notice that a scenario has, and the orders after it."""

AFTERMATH: Final = 31.0
"""Seconds: what follows from a hotplug or a reload may come as late, after a notice or the end of a start that is held
("up to 30 s", start-strictly), and the orders after that.
"""


class Finding(NamedTuple):
    """A broken promise, when, of which container, and what was seen."""

    promise: str
    at: float
    container: str
    seen: str


Promise = Callable[[Chronicle], Iterator[Finding]]


class Lasting(NamedTuple):
    """CPUs for which something was so from `began` on, for `seconds` without a break."""

    names: tuple[str, ...]
    began: float
    seconds: float
    cpus: CPUs


def lasting(
    chronicle: Chronicle, seen: Callable[[Stage], Mapping[tuple[str, ...], CPUs]], allowed: float
) -> Iterator[Lasting]:
    """Yield what is so of the same CPU for longer than `allowed` seconds, while the sidecar runs."""
    begun: dict[tuple[tuple[str, ...], int], float] = {}
    for stage in chronicle.stages:
        now = {(names, cpu) for names, cpus in seen(stage).items() for cpu in cpus} if stage.is_watched else set()
        begun = {each: begun.get(each, stage.at) for each in now}
        found: dict[tuple[tuple[str, ...], float], set[int]] = {}
        for (names, cpu), at in begun.items():
            if stage.until - at > allowed:
                found.setdefault((names, at), set()).add(cpu)
        for (names, at), cpus in found.items():
            yield Lasting(names, at, stage.until - at, frozenset(cpus))


def listed(cpus: CPUs) -> str:
    """Return CPUs as text."""
    return ",".join(map(str, sorted(cpus)))
