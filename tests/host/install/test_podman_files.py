"""Podman's drop-in adds to what is in force without it, and knows which directories were made for it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from sidecar.host.install.podman_files import (
    directories_made,
    is_known_to_podman,
    podman_files,
    podman_gone,
    remove_made,
)
from sidecar.host.install.runtime_files import Places, carry_out

PLACES = Places()


def engine(content: bytes | None) -> Any:
    assert content is not None
    return tomllib.loads(content.decode())["engine"]


def test_what_is_in_force_is_kept_and_ours_is_added() -> None:
    """Without a hook nothing is said of hooks; a prefix with other letters and quotes is still TOML."""
    places = Places('/opt/"ä"')
    (only,) = podman_files(places, with_hook=False, supports_json=["mine"])
    assert engine(only.content) == {
        "runtime_supports_json": ["mine", "cpuset"],
        "runtimes": {"cpuset": ['/opt/"ä"/bin/cpuset-runc']},
    }
    *_, last = podman_files(places, with_hook=True, hooks_dirs=["/mine", "/etc/containers/oci/hooks.d"])
    assert engine(last.content)["hooks_dir"] == ["/mine", "/etc/containers/oci/hooks.d"]


def test_directories_that_were_made_for_it_go_with_it(tmp_path: Path) -> None:
    """Those that were there before stay, and so do those that hold something else since."""
    root = str(tmp_path)
    (tmp_path / "etc/containers/oci").mkdir(parents=True)
    made = directories_made(root, PLACES, PLACES.podman_settings, PLACES.podman_hook)
    assert made == ["/etc/containers/containers.conf.d", "/etc/containers/oci/hooks.d"]
    carry_out(root, list(podman_files(PLACES, with_hook=True, made=made)))
    assert directories_made(root, PLACES, PLACES.podman_settings, PLACES.podman_hook) == made
    (tmp_path / "etc/containers/oci/hooks.d/mine.json").write_text("{}")
    carry_out(root, list(podman_gone(root, PLACES)))
    remove_made(root, made)
    assert (tmp_path / "etc/containers/oci/hooks.d/mine.json").exists()
    assert not (tmp_path / "etc/containers/containers.conf.d").exists()
    (tmp_path / "etc/containers/oci/hooks.d/mine.json").unlink()
    remove_made(root, made)
    assert [path.name for path in (tmp_path / "etc/containers").iterdir()] == ["oci"]


@pytest.mark.parametrize("line", ["[", "7", '{"a": 1}', "[7]"])
def test_a_line_that_people_changed_records_nothing(tmp_path: Path, line: str) -> None:
    """Then directories stay."""
    path = tmp_path / PLACES.podman_settings[1:]
    path.parent.mkdir(parents=True)
    path.write_text(f"# Directories made for it: {line}\n[engine]\n")
    assert directories_made(str(tmp_path), PLACES, PLACES.podman_settings) == []


def test_a_file_that_names_another_prefix_is_another_installations(tmp_path: Path) -> None:
    """It is not ours to remove."""
    root, other = str(tmp_path), Places("/opt")
    carry_out(root, list(podman_files(other, with_hook=True)))
    assert (is_known_to_podman(root, other), is_known_to_podman(root, PLACES)) == (True, False)
    assert [each.path for each in podman_gone(root, PLACES)] == [PLACES.hook]
    assert {each.path for each in podman_gone(root, other)} == {other.hook, other.podman_hook, other.podman_settings}
