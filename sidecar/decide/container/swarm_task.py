"""What Docker Swarm makes of containers: tasks, which never start again, and CPUs that its scheduler set aside.

A task that ended is replaced by a new container, on any node, and the old one is kept for a while, to be read. Nothing
brings it back, so it is not waited for: its CPUs may be the only ones on which the new one fits.

The scheduler counts a generic resource (`KIND`), which a service reserves, and hands no CPUs out; the label
`cpuset.exclusive` of the container does that here. Where the two do not say the same, nodes get more than fits.
"""

from __future__ import annotations

from typing import Final

from sidecar.decide.facts import ContainerView, Phase
from state.mistakes import Mistake, SetAside

KIND: Final = "exclusive-cpu"
"""The generic resource by which nodes advertise how many CPUs they can give exclusively."""

TASK_LABEL: Final = "com.docker.swarm.task.id"

LABELS: Final = (TASK_LABEL, "com.docker.swarm.service.name", "com.docker.stack.namespace")
"""The labels of a task that are kept: who it is, for people and for `unmanaged`."""

_OVER: Final = (Phase.EXITED, Phase.DEAD, Phase.REMOVING)


def is_task(view: ContainerView) -> bool:
    """Whether Swarm made it."""
    return TASK_LABEL in view.labels


def is_over(view: ContainerView) -> bool:
    """Whether it is a task that has ended: nothing starts it again."""
    return view.phase in _OVER and is_task(view)


def mismatch(view: ContainerView, asked: int) -> Mistake | None:
    """How what the scheduler set aside for a task differs from how many CPUs the task asks for; None if not."""
    if not is_task(view) or view.set_aside == asked:
        return None
    return Mistake("cpuset.exclusive", str(asked or ""), SetAside(view.set_aside, asked))
