"""What a container's own labels may say: those that the owner of the host does not allow are as if they were absent.

A tenant writes the labels of its containers; the owner writes the configuration, and the labels of its rules. So only a
container's own labels need a right (`settings.may`), and none of a unit of the host, whose files the owner writes:

1. `cpuset.manage=off` would let it run on the CPUs of others.
2. `cpuset.priority` would put it before others in the queue.
3. `cpuset.max` above a CPU limit would lift that limit. A container keeps it if its limit stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from sidecar.decide.container.labels import EXEC, mistake, read_labels
from sidecar.decide.container.originals import cpu_limit
from sidecar.decide.facts import ContainerView, ViewKind
from sidecar.decide.settings import PolicyName, Settings, TenantRight
from state.demand import QuotaRule
from state.mistakes import Mistake, NotAllowed, NotOfUnits
from state.model import Originals

OF_CONTAINERS: Final = ("cpuset.mems", "cpuset.quota", "cpuset.projection", "cpuset.for", EXEC)
"""Labels that have no effect on units: the sidecar sets their CPUs alone, they mount no projection, and no runtime has
processes join them.
"""

MANAGE: Final = "cpuset.manage"
_PRIORITY = "cpuset.priority"
_MAX = "cpuset.max"


def as_allowed(
    view: ContainerView, ruled: ContainerView, settings: Settings, originals: Originals
) -> tuple[ContainerView, tuple[Mistake, ...]]:
    """Return the container with the labels that count, and a mistake for each of its own that needs a right which
    tenants do not have. `ruled` is the same container with the labels of its rule as well.
    """
    if view.kind is ViewKind.UNIT:
        unheeded = tuple(
            mistake(name, ruled.labels[name], NotOfUnits()) for name in OF_CONTAINERS if name in ruled.labels
        )
        labels = {name: text for name, text in ruled.labels.items() if name not in OF_CONTAINERS}
        return msgspec.structs.replace(ruled, labels=labels), unheeded
    denied = {
        label: right
        for label, right in _needed(view, ruled, settings, originals)
        if right not in settings.may and label in view.labels
    }
    if not denied:
        return ruled, ()
    own = {name: text for name, text in view.labels.items() if name not in denied}
    mistakes = tuple(mistake(name, view.labels[name], NotAllowed(right.value)) for name, right in denied.items())
    return msgspec.structs.replace(view, labels=own), mistakes


def _needed(
    view: ContainerView, ruled: ContainerView, settings: Settings, originals: Originals
) -> Iterator[tuple[str, TenantRight]]:
    """Yield the labels that need a right, each with that right."""
    # 1.
    if not read_labels(view.labels).values.manage:
        yield MANAGE, TenantRight.OPT_OUT
    # 2.
    yield _PRIORITY, TenantRight.PRIORITY
    # 3.
    is_lifted = read_labels(ruled.labels).values.quota is QuotaRule.LIFT
    if settings.policy is PolicyName.DYNAMIC and cpu_limit(originals) > 0 and is_lifted:
        yield _MAX, TenantRight.LIFT_QUOTA
