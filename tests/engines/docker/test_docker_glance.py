"""A glance from Docker's list: as recorded, hostile, and without the container."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sidecar.decide.facts import Mount, Phase
from sidecar.engines.docker.docker_glance import glance_of, params_of
from sidecar.failures import ContainerGone, EngineFailed

ID = "a" * 64

LISTED: dict[str, Any] = {
    "Id": ID,
    "Names": ["/web/alias", "/voice"],
    "Image": "bb:1",
    "Command": "sleep 1000",
    "Created": 1795374500,
    "Ports": [],
    "Labels": {"cpuset.exclusive": "2", "com.docker.compose.service": "voice", "maintainer": "x"},
    "State": "created",
    "Status": "Created",
    "HostConfig": {"NetworkMode": "none"},
    "NetworkSettings": {"Networks": {}},
    "Mounts": [
        {"Type": "bind", "Source": "/run/cpuset-sidecar/by-name/voice", "Destination": "/x", "RW": False},
        {"Type": "volume", "Name": "told", "Source": "/var/lib/docker/volumes/told/_data", "Destination": "/y"},
        {"Type": "tmpfs", "Source": "", "Destination": "/z"},
    ],
}
"""As Docker 20.10 answers."""


def body(*listed: Any) -> bytes:
    return json.dumps(listed).encode()


def test_the_list_is_asked_for_one_container_stopped_or_not() -> None:
    assert params_of(ID) == {"all": "1", "filters": f'{{"id":["{ID}"]}}'}


def test_a_glance_has_name_labels_phase_and_mounts_and_no_limits() -> None:
    """A name with a slash inside is a link's, not the container's."""
    view = glance_of(body({"Id": "b" * 64}, LISTED), ID)
    assert (view.id, view.name, view.phase, view.is_glance) == (ID, "voice", Phase.CREATED, True)
    assert view.labels == {"cpuset.exclusive": "2", "com.docker.compose.service": "voice"}
    assert view.mounts == (Mount(source="/run/cpuset-sidecar/by-name/voice"),)
    assert (view.cpuset, view.nano_cpus, view.cpu_quota, view.memory, view.pid) == ("", 0, 0, 0, 0)
    assert glance_of(body(LISTED), ID, frozenset({"maintainer"})).labels["maintainer"] == "x"


@pytest.mark.parametrize("state", [None, "", "a later word"])
def test_a_state_that_is_not_known_is_that_of_a_start(state: object) -> None:
    """Only containers that are about to start are glanced at."""
    assert glance_of(body({**LISTED, "State": state}), ID).phase is Phase.CREATED


@pytest.mark.parametrize(
    "changed",
    [
        {"Names": None, "Labels": None, "Mounts": None, "State": None},
        {"Names": ["", "/"], "Mounts": [{}, {"Source": "/" + "x" * 5000, "Destination": "/x"}]},
        {"Labels": {"cpuset.exclusive": {"not": "text"}}},
    ],
)
def test_junk_is_passed_over(changed: dict[str, Any]) -> None:
    """Users write names, labels and paths."""
    view = glance_of(body({**LISTED, **changed}), ID)
    assert view.id == ID
    assert len(view.name) <= 256


def test_a_container_that_is_not_listed_is_gone() -> None:
    """Another one whose id begins alike is not it."""
    with pytest.raises(ContainerGone):
        glance_of(body({**LISTED, "Id": "b" * 64}), ID)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"[{", b"\xff"])
def test_what_is_no_list_is_a_failure(content: bytes) -> None:
    with pytest.raises(EngineFailed):
        glance_of(content, ID)
