"""What is wrong with labels that name a container of a pod: only the World knows which there are."""

from __future__ import annotations

from sidecar.decide.container.container import Container
from sidecar.decide.container.pods import named_in_vain
from sidecar.decide.world import World
from sidecar.words.mistaken import sentence


def named_none(world: World, container: Container) -> tuple[str, ...]:
    """Return a sentence for each label of a container that is for one which its pod does not have; in none, for another
    than itself.
    """
    view = container.view
    if not view.labels:
        return ()
    views = (each.view for each in world.containers.values()) if view.pod else (view,)
    names = sorted(each.name for each in views if each.pod == view.pod and not each.is_infra)
    return tuple(map(sentence, named_in_vain(view, names)))
