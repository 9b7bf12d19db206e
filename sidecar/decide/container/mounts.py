"""How a container reads its projection: by which name below `by-name`, and whether it mounts what goes stale."""

from __future__ import annotations

from sidecar.decide.container.labels import is_directory_name
from sidecar.decide.facts import ContainerView
from sidecar.decide.settings import Settings


def projection_name(view: ContainerView, settings: Settings) -> str | None:
    """The name of its directory below `by-name`, from its label or its mounts; None where it has none."""
    name = view.labels.get("cpuset.projection", "")
    if is_directory_name(name):
        return name
    root = f"{settings.projections.rstrip('/')}/by-name/"
    for mount in view.mounts:
        for path, start in ((mount.source, root), (mount.subpath.lstrip("/"), "by-name/")):
            if path.startswith(start) and is_directory_name(path[len(start) :]):
                return path[len(start) :]
    return None


def is_single_file_mount(view: ContainerView, settings: Settings) -> bool:
    """Whether it mounts one projected file instead of a directory, which stays stale for ever."""
    root = settings.projections.rstrip("/") + "/"
    return any(m.source.startswith(root) and m.source.endswith(("/cpuset", "/status.json")) for m in view.mounts)
