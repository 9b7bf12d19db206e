"""How a container reads its projection: its directory's name below `by-name`, and whether its mount goes stale."""

from __future__ import annotations

from sidecar.decide.container.labels import is_directory_name
from sidecar.decide.container.rules import ruled
from sidecar.decide.facts import ContainerView
from sidecar.decide.settings import Settings


def projection_name(view: ContainerView, settings: Settings) -> str | None:
    """Return the name of its directory below `by-name`, from its label or its mounts; None if it has none."""
    name = ruled(view, settings.rules)[0].labels.get("cpuset.projection", "")
    return name if is_directory_name(name) else mounted_name(view, settings)


def mounted_name(view: ContainerView, settings: Settings) -> str | None:
    """Return the name of the first directory below `by-name` that it mounts; None if it mounts none."""
    root = f"{settings.projections.rstrip('/')}/by-name/"
    for mount in view.mounts:
        for path, start in ((mount.source, root), (mount.subpath.lstrip("/"), "by-name/")):
            if path.startswith(start) and is_directory_name(path[len(start) :]):
                return path[len(start) :]
    return None


def is_single_file_mount(view: ContainerView, settings: Settings) -> bool:
    """Return whether it mounts a projected file instead of the directory: such a mount stays stale indefinitely."""
    root = settings.projections.rstrip("/") + "/"
    return any(m.source.startswith(root) and m.source.endswith(("/cpuset", "/status.json")) for m in view.mounts)
