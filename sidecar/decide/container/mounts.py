"""How a container reads its projection: its directory's name below `by-name`, and whether its mount goes stale."""

from __future__ import annotations

from typing import Final

from sidecar.decide.container.labels import is_directory_name
from sidecar.decide.container.rules import ruled
from sidecar.decide.facts import ContainerView, Mount
from sidecar.decide.settings import Settings

_BY_NAME: Final = "by-name/"
_FILES: Final = ("/cpuset", "/status.json")


def may_show_projection(mount: Mount) -> bool:
    """Return whether a mount may have to do with a projection, wherever those are: no other is kept."""
    return _BY_NAME in mount.source or _BY_NAME in mount.subpath or mount.source.endswith(_FILES)


def projection_name(view: ContainerView, settings: Settings) -> str | None:
    """Return the name of its directory below `by-name`, from its label or its mounts; None if it has none."""
    name = ruled(view, settings.rules)[0].labels.get("cpuset.projection", "")
    return name if is_directory_name(name) else mounted_name(view, settings)


def mounted_name(view: ContainerView, settings: Settings) -> str | None:
    """Return the name of the first directory below `by-name` that it mounts; None if it mounts none."""
    root = f"{settings.projections.rstrip('/')}/{_BY_NAME}"
    for mount in view.mounts:
        for path, start in ((mount.source, root), (mount.subpath.lstrip("/"), _BY_NAME)):
            if path.startswith(start) and is_directory_name(path[len(start) :]):
                return path[len(start) :]
    return None


def is_single_file_mount(view: ContainerView, settings: Settings) -> bool:
    """Return whether it mounts a projected file instead of the directory: such a mount stays stale indefinitely."""
    root = settings.projections.rstrip("/") + "/"
    return any(m.source.startswith(root) and m.source.endswith(_FILES) for m in view.mounts)
