"""The project of a container, in compose or on a swarm. Pure."""

from __future__ import annotations

from typing import Final

from sidecar.decide.container.rules import PROJECT
from sidecar.decide.facts import ContainerView

_STACK: Final = "com.docker.stack.namespace"
"""The label by which Swarm names a task's project."""


def project_of(view: ContainerView) -> str:
    """Return the name of its project; "" if it has none."""
    return view.labels.get(PROJECT, "") or view.labels.get(_STACK, "")
