"""Pods of Podman: for which of a pod's containers a label is. Pure.

`podman kube play` gives the labels of a pod to each of its containers. The label `cpuset.for` names the one that is
meant; for all others the labels of the sidecar beside it are as if they were absent.
"""

from __future__ import annotations

from typing import Final

import msgspec

from sidecar.decide.container.labels import ROWS
from sidecar.decide.facts import ContainerView

FOR: Final = "cpuset.for"


def addressed(view: ContainerView) -> ContainerView:
    """Return the container with the labels that are meant for it."""
    wanted = view.labels.get(FOR)
    if wanted is None or is_named(view.name, wanted):
        return view
    return msgspec.structs.replace(
        view, labels={name: text for name, text in view.labels.items() if name == FOR or name not in ROWS}
    )


def is_named(name: str, wanted: str) -> bool:
    """Return whether a container of this name is meant: `kube play` calls the container `voice` of a pod `phone`
    `phone-voice`.
    """
    return name == wanted or bool(wanted and name.endswith(f"-{wanted}"))
