"""Roles: what one container after the other is, from the labels of compose, Swarm and units of Podman.

A redeploy makes a new container for the same service and number, the same task slot, or the same unit: its successor.
Users who create containers may write these labels too, so a role alone gives a container nothing (`books/vacancies`).
"""

from __future__ import annotations

from typing import Final

from sidecar.decide.container.swarm_task import TASK_NAME_LABEL
from sidecar.decide.facts import ContainerView
from sidecar.readers import truth

_PROJECT: Final = "com.docker.compose.project"
_SERVICE: Final = "com.docker.compose.service"
_NUMBER: Final = "com.docker.compose.container-number"
_ONE_OFF: Final = "com.docker.compose.oneoff"
"""`True` on a container of `docker compose run`, which is numbered as if it were one of the service."""

_UNIT: Final = "PODMAN_SYSTEMD_UNIT"
"""The unit of systemd that makes the container (with `--replace`). Several containers may have one unit."""

LABELS: Final = (_UNIT, _PROJECT, _SERVICE, _NUMBER, _ONE_OFF)
"""The labels kept of a container of compose or of a unit."""


def role_of(view: ContainerView) -> str:
    """Return the role of a container: `compose PROJECT SERVICE NUMBER`, `task SERVICE.SLOT` or `unit UNIT NAME`; "" if
    it has none.
    """
    labels = view.labels
    if task := labels.get(TASK_NAME_LABEL):
        # SERVICE.SLOT.ID, where the id is the task's own.
        slot = task.rpartition(".")[0]
        return f"task {slot}" if slot else ""
    if _PROJECT in labels:
        named = [labels.get(label, "") for label in (_PROJECT, _SERVICE, _NUMBER)]
        is_replaceable = all(named) and truth(labels.get(_ONE_OFF, "no")) is False
        # No name of a project or a service has a space.
        return " ".join(("compose", *named)) if is_replaceable else ""
    return f"unit {labels[_UNIT]} {view.name}" if labels.get(_UNIT) else ""
