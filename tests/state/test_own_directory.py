"""The default directory of a workload's projection, and whether it can ever appear."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from state.own_directory import default_directory, may_come, own_id

ID = "5e342cd1107016eeb1134d51029b89ce39df7fed66a15dbc856a9b273ceba820"
POD = "b09d1edaab44e8a4f103fc69780f8d795fa945e6e7a3699c75ef48a8876a5b9e"
MOUNTED = f"241 232 254:0 /run/vfs-containers/{ID}/userdata/.containerenv /run/.containerenv rw - ext4 /dev/vda rw"
NOWHERE = "/nonexistent"


def test_the_directory_comes_from_the_environment() -> None:
    assert default_directory({"CPUSET_SIDECAR_DIR": "/x", "HOSTNAME": "h"}) == "/x"
    assert default_directory({"HOSTNAME": "0123456789abcdef"}) == "/run/cpuset-sidecar/by-id/0123456789ab"
    assert default_directory({}, proc=NOWHERE) == f"/run/cpuset-sidecar/by-id/{os.uname().nodename[:12]}"


@pytest.mark.parametrize(
    ("cgroup", "mountinfo", "expected"),
    [
        (f"3:cpuset:/libpod_parent/{POD}/libpod-{ID}", "", ID),
        (f"0::/machine.slice/machine-libpod_pod_{POD}.slice/libpod-{ID}.scope/container", "", ID),
        (f"9:pids:/\n0::/system.slice/docker-{ID}.scope", "", ID),
        (f"3:cpuset:/docker/{ID}", "", ID),
        ("0::/", MOUNTED, ID),
        ("0::/user.slice/user-0.slice/session-1.scope", "1 2 0:1 / / rw - ext4 /dev/vda rw", ""),
        ("0::/", "short", ""),
        ("", "", ""),
    ],
)
def test_a_container_finds_its_own_id(cgroup: str, mountinfo: str, expected: str, tmp_path: Path) -> None:
    """Not that of its pod; where its cgroup is hidden, Podman's mount tells. On a host there is none."""
    (tmp_path / "cgroup").write_text(f"{cgroup}\n")
    (tmp_path / "mountinfo").write_text(f"{mountinfo}\n")
    assert own_id(str(tmp_path)) == expected


def test_in_a_pod_the_id_tells_and_not_the_host_name(tmp_path: Path) -> None:
    """The host name is the pod's. A host name that is an id tells as long as there is no directory of the own id."""
    (tmp_path / "cgroup").write_text(f"3:cpuset:/libpod_parent/{POD}/libpod-{ID}\n")
    root, other = str(tmp_path / "root"), "0123456789ab"
    assert default_directory({"HOSTNAME": "phone"}, root, str(tmp_path)) == f"{root}/by-id/{ID[:12]}"
    assert default_directory({"HOSTNAME": other}, root, str(tmp_path)) == f"{root}/by-id/{other}"
    (tmp_path / "root" / "by-id" / ID[:12]).mkdir(parents=True)
    assert default_directory({"HOSTNAME": other}, root, str(tmp_path)) == f"{root}/by-id/{ID[:12]}"


def test_a_directory_of_its_own_in_the_place_of_all_of_them_is_found(tmp_path: Path) -> None:
    """As a strict start mounts it, with any host name."""
    assert default_directory({"HOSTNAME": "h"}, str(tmp_path), NOWHERE) == f"{tmp_path}/by-id/h"
    (tmp_path / "status.json").write_text("{}")
    assert default_directory({"HOSTNAME": "h"}, str(tmp_path)) == str(tmp_path)
    assert default_directory({"CPUSET_SIDECAR_DIR": "/x"}, str(tmp_path)) == "/x"


def test_a_directory_that_no_container_can_have_never_comes(tmp_path: Path) -> None:
    assert not may_come("/run/cpuset-sidecar/by-id/pc")
    assert may_come("/run/cpuset-sidecar/by-id/0123456789ab")
    assert may_come("/run/cpus")
    (tmp_path / "by-id" / "pc").mkdir(parents=True)
    assert may_come(str(tmp_path / "by-id" / "pc"))
