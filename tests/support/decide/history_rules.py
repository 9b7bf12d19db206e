"""Rules of the configuration in a history, which come and go; and releases of one container, ordered by people."""

from __future__ import annotations

from typing import Final

from sidecar.decide.books.give_up import obstacle
from sidecar.decide.facts import GiveUpRequested
from sidecar.decide.settings import Rule
from sidecar.decide.world import replace
from tests.support.decide.durations import otherwise_timed
from tests.support.decide.real import Real
from tests.support.decide.reality import Reality

_ODD: Final = "c*[13579]"

_RULES: Final = (
    (Rule(name=_ODD, labels={"cpuset.exclusive": "1", "cpuset.on-shortage": "wait"}),),
    (Rule(name="*", labels={"cpuset.exclusive": "1", "cpuset.priority": "9"}),),
    (
        Rule(name=_ODD, labels={"cpuset.exclusive": "3", "cpuset.min": "1", "cpuset.max": "5"}),
        Rule(name="c*", labels={"cpuset.exclusive": "1", "cpuset.on-shortage": "stop"}),
    ),
    (Rule(project="[12]", labels={"cpuset.exclusive": "1"}), Rule(name="*", labels={"cpuset.on-shortage": "wait"})),
    (),
)
"""By name and by project: for containers without labels, and beside labels."""


def change_rules(reality: Reality, how: int) -> None:
    """Read a configuration with other rules, or with none and then with the same again. What people released rests,
    whatever it asks for from then on.
    """
    before, rules = reality.settings, _RULES[how % len(_RULES)]
    reality.read_settings(replace(otherwise_timed(before, how), rules=rules))
    if not rules and how % 2 == 0:
        reality.read_settings(replace(reality.settings, rules=before.rules))


def give_up(reality: Reality, real: Real) -> None:
    """Release the CPUs of a container until its next start. A start that is held asks again."""
    has_cpus = obstacle(reality.world, real.key) is None
    reality.feed(GiveUpRequested(real.key, reality.stamp()))
    if has_cpus and real.held is None:
        reality.given_up[real.key] = real.starts


def rename(reality: Reality, real: Real) -> None:
    """Give it a new name: another rule may match it then."""
    reality.created += 1
    real.name = f"c{reality.created}"
