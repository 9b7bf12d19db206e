"""The default directory of a workload's projection, and whether it can ever appear."""

from __future__ import annotations

import os
from pathlib import Path

from state.own_directory import default_directory, may_come


def test_the_directory_comes_from_the_environment() -> None:
    assert default_directory({"CPUSET_SIDECAR_DIR": "/x", "HOSTNAME": "h"}) == "/x"
    assert default_directory({"HOSTNAME": "0123456789abcdef"}) == "/run/cpuset-sidecar/by-id/0123456789ab"
    assert default_directory({}) == f"/run/cpuset-sidecar/by-id/{os.uname().nodename[:12]}"


def test_a_directory_of_its_own_in_the_place_of_all_of_them_is_found(tmp_path: Path) -> None:
    """As a strict start mounts it, with any host name."""
    assert default_directory({"HOSTNAME": "h"}, str(tmp_path)) == f"{tmp_path}/by-id/h"
    (tmp_path / "status.json").write_text("{}")
    assert default_directory({"HOSTNAME": "h"}, str(tmp_path)) == str(tmp_path)
    assert default_directory({"CPUSET_SIDECAR_DIR": "/x"}, str(tmp_path)) == "/x"


def test_a_directory_that_no_container_can_have_never_comes(tmp_path: Path) -> None:
    assert not may_come("/run/cpuset-sidecar/by-id/pc")
    assert may_come("/run/cpuset-sidecar/by-id/0123456789ab")
    assert may_come("/run/cpus")
    (tmp_path / "by-id" / "pc").mkdir(parents=True)
    assert may_come(str(tmp_path / "by-id" / "pc"))
