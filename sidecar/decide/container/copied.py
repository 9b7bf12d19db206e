"""Which cpuset of a container that is seen first is no pin of people: the sidecar's own, which came to it. Pure.

The sidecar remembers the originals of each container that it places, and changes nothing before. There are two ways in
which a cpuset of the sidecar's comes to a container of which nothing is remembered:

1. Its start was answered, and its engine shows what the runtime wrote into the bundle. Before that, the bundle had what
   the container was created with.
2. It was copied from another container, as by `podman container clone`, or the records were lost after (1). The command
   that created it names no cpuset, and that which it has is the shared pool, or the CPUs of a grant. People who pin a
   running container to exactly these before the sidecar sees it are taken for the same.
"""

from __future__ import annotations

import msgspec

from sidecar.decide.container.container import Container
from sidecar.decide.container.originals import originals_of
from sidecar.decide.container.place import cpus_of
from sidecar.decide.container.start import Answered
from sidecar.decide.facts import ContainerView
from state.cpuset import EMPTY
from state.model import Originals, State


def copied(state: State, before: Container | None, view: ContainerView) -> Originals | None:
    """Return the originals of a container of which none are remembered, if its cpuset is the sidecar's own; None if it
    has none, or one of its own. `before` is what was known of it before this look, if anything.
    """
    cpus = cpus_of(view.cpuset, EMPTY)
    if not cpus or view.is_glance or view.key in state.originals:
        return None
    # 1. Answered.
    if before is not None and isinstance(before.start, Answered) and before.start.cpus == cpus:
        was = before.view.cpuset if before.view.is_glance else view.cpuset
        return msgspec.structs.replace(originals_of(view), cpuset=was) if was != view.cpuset else None
    # 2. Copied.
    ours = (state.shared, state.vacated, *(each.cpus for each in state.assignments.values()))
    if view.names_no_cpuset and cpus in ours:
        return msgspec.structs.replace(originals_of(view), cpuset="")
    return None
