"""How a container reads its projection: by which name, and when its mount goes stale."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.decide.container.labels import read_labels
from sidecar.decide.container.mounts import is_single_file_mount, projection_name
from sidecar.decide.facts import ContainerView, Mount, Phase
from sidecar.decide.settings import Settings


def view(labels: dict[str, str] | None = None, **fields: Any) -> ContainerView:
    return ContainerView(id="a" * 64, name="web", phase=Phase.CREATED, labels=labels or {}, **fields)


@pytest.mark.parametrize(
    ("labels", "mounts", "name"),
    [
        ({}, (), None),
        ({"cpuset.projection": "game"}, (), "game"),
        ({}, (Mount(source="/run/cpuset-sidecar/by-name/game"),), "game"),
        ({}, (Mount(source="cpusets", subpath="by-name/game"),), "game"),
        ({}, (Mount(source="cpusets", subpath="/by-name/game"),), "game"),
        ({"cpuset.projection": "a"}, (Mount(source="/run/cpuset-sidecar/by-name/b"),), "a"),
        ({}, (Mount(source="/run/cpuset-sidecar"),), None),
        ({}, (Mount(source="/run/cpuset-sidecar/by-id/0123456789ab"),), None),
        ({}, (Mount(source="/run/cpuset-sidecar/by-name/a/b"),), None),
        ({}, (Mount(source="/run/cpuset-sidecar/by-name/.."),), None),
        ({}, (Mount(source="/elsewhere/by-name/game"),), None),
    ],
)
def test_the_name_of_a_projection(labels: dict[str, str], mounts: tuple[Mount, ...], name: str | None) -> None:
    """By its label, or because it mounts this very directory, as a bind or a volume's subpath."""
    assert projection_name(view(labels, mounts=mounts), Settings()) == name


def test_a_root_with_a_slash_at_its_end_is_the_same_root() -> None:
    one = view(mounts=(Mount(source="/srv/cpus/by-name/game"),))
    assert projection_name(one, Settings(projections="/srv/cpus/")) == "game"


@pytest.mark.parametrize("name", ["", ".", "..", "../up", "a/b", "/etc", "-x", "a\0b", "a\nb", "a" * 65, "é"])
def test_a_name_that_leads_elsewhere_is_none(name: str) -> None:
    """And it is reported as a mistake."""
    labels = {"cpuset.projection": name}
    assert projection_name(view(labels), Settings()) is None
    assert [each.label for each in read_labels(labels).mistakes] == ["cpuset.projection"]


@pytest.mark.parametrize("file", ["cpuset", "status.json"])
def test_a_single_file_mount_is_noticed(file: str) -> None:
    one = view(mounts=(Mount(source=f"/run/cpuset-sidecar/by-name/game/{file}"),))
    assert is_single_file_mount(one, Settings())
    assert not is_single_file_mount(view(), Settings())
    assert not is_single_file_mount(view(mounts=(Mount(source="/etc/cpuset"),)), Settings())
