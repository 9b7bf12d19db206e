"""Pods of Podman: for which of a pod's containers a label is, and to what all of a pod is limited. Pure.

`podman kube play` gives the labels and annotations of a pod to each of its containers.

1. A label with a name after it (`cpuset.exclusive/voice`) is for the container of that name alone, and counts before
   one without. `podman generate kube` adds one more name: then all of them have to fit.
2. `cpuset.for` names the container that all those without a name are for. For others they are as if they were absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sidecar.decide.container.labels import ROWS, mistake, split
from sidecar.decide.container.place import cpus_of
from sidecar.decide.facts import ContainerView
from state.cpuset import CPUSet
from state.mistakes import Mistake, NotInPod, NotItsName

FOR: Final = "cpuset.for"

_SHOWN: Final = 4
"""So many names of containers are in a warning."""


def addressed(view: ContainerView) -> ContainerView:
    """Return the container with the labels that are meant for it."""
    # 1. By name.
    named = {label: split(label) for label in view.labels if split(label)[1]}
    own = {
        label: view.labels[full]
        for full, (label, names) in named.items()
        if all(is_named(view.name, each) for each in names)
    }
    # 2. All others.
    wanted = view.labels.get(FOR)
    is_meant = wanted is None or is_named(view.name, wanted)
    if is_meant and not named:
        return view
    others = {
        label: text
        for label, text in view.labels.items()
        if label not in named and (is_meant or (label == FOR and not own) or label not in ROWS)
    }
    return msgspec.structs.replace(view, labels={**others, **own})


def named_in_vain(view: ContainerView, names: Sequence[str]) -> tuple[Mistake, ...]:
    """Return the mistakes of labels that are for a container which its pod has not: all of its containers may have
    them. `names` are those that it has; none are known while it is being made. What is in no pod has its own.
    """
    meant = [(label, wanted) for label in sorted(view.labels) if (wanted := split(label)[1])]
    if FOR in view.labels and any(label in ROWS and label != FOR for label in view.labels):
        meant.append((FOR, (view.labels[FOR],)))
    return tuple(
        mistake(label, wanted[-1], NotInPod(tuple(names[:_SHOWN]), len(names)) if view.pod else NotItsName(view.name))
        for label, wanted in meant
        if names and not any(all(is_named(name, each) for each in wanted) for name in names)
    )


def confinement(view: ContainerView, online: CPUSet) -> CPUSet:
    """Return the online CPUs to which all of its pod is confined; all of them if it is in none, or that is not."""
    return cpus_of(view.pod_cpuset, online) & online or online


def is_named(name: str, wanted: str) -> bool:
    """Return whether a container of this name is meant: `kube play` calls the container `voice` of a pod `phone`
    `phone-voice`.
    """
    return name == wanted or bool(wanted and name.endswith(f"-{wanted}"))
