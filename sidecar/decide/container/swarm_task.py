"""Containers of Docker Swarm: tasks, which never start again, and CPUs that Swarm's scheduler set aside.

Swarm replaces a task that ended by a new container, on any node, and keeps the old one for a while for inspection. It
never starts again, so its CPUs do not linger: they are vacant at once, and the new container takes them over.

The scheduler counts a generic resource (`KIND`), which a service reserves, but assigns no CPUs; the container's label
`cpuset.exclusive` does that here. If the two numbers differ, a node may get more tasks than fit.
"""

from __future__ import annotations

from typing import Final

from sidecar.decide.facts import ContainerView, Phase
from state.mistakes import Mistake, SetAside

KIND: Final = "exclusive-cpu"
"""The generic resource with which nodes advertise how many exclusive CPUs they can grant."""

TASK_LABEL: Final = "com.docker.swarm.task.id"

TASK_NAME_LABEL: Final = "com.docker.swarm.task.name"

LABELS: Final = (TASK_LABEL, TASK_NAME_LABEL, "com.docker.swarm.service.name", "com.docker.stack.namespace")
"""The labels kept of a task: its identity, for people and for `unmanaged`."""

_OVER: Final = (Phase.EXITED, Phase.DEAD, Phase.REMOVING)


def is_task(view: ContainerView) -> bool:
    """Return whether Swarm created it."""
    return TASK_LABEL in view.labels


def is_over(view: ContainerView) -> bool:
    """Return whether it is a task that has ended, which nothing starts again."""
    return view.phase in _OVER and is_task(view)


def mismatch(view: ContainerView, asked: int) -> Mistake | None:
    """Return the mistake of a task that asks for another number of CPUs than the scheduler set aside; else None."""
    if not is_task(view) or view.set_aside == asked:
        return None
    return Mistake("cpuset.exclusive", str(asked or ""), SetAside(view.set_aside, asked))
