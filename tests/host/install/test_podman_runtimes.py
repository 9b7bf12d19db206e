"""Which of Podman's runtimes stand behind a front: read from its files, and said in a drop-in of its own."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from sidecar.failures import ConfigError
from sidecar.host.install.fronts import Front
from sidecar.host.install.podman_runtimes import PodmanRuntimes, drop_in, front_before, left_out, see_that_free
from sidecar.host.install.runtime_files import Places

PLACES = Places()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Provide a host with two runtimes, and a third at an unusual place."""
    for path in ("usr/bin/crun", "usr/sbin/runc", "opt/kata"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("#!/bin/sh\n")
        (tmp_path / path).chmod(0o755)
    return tmp_path


def write(root: Path, path: str, content: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(content)


def told(fronts: list[Front]) -> Any:
    content = drop_in(PLACES, fronts).content
    assert content is not None
    return tomllib.loads(content.decode())["engine"]["runtimes"]


def test_without_files_it_is_podmans_own_choice(root: Path) -> None:
    """crun, or else runc."""
    assert PodmanRuntimes(str(root), PLACES).usual() == "crun"
    (root / "usr/bin/crun").unlink()
    assert PodmanRuntimes(str(root), PLACES).usual() == "runc"


def test_later_files_count_and_ours_does_not(root: Path) -> None:
    """The default, and the paths of each name for itself; what we wrote before is not what was there before."""
    write(root, "usr/share/containers/containers.conf", '[engine]\nruntime = "runc"\n[engine.runtimes]\na = ["/a"]\n')
    write(root, "etc/containers/containers.conf", '[engine.runtimes]\nkata = ["/none", "/opt/kata"]\n')
    write(root, "etc/containers/containers.conf.d/10.conf", '[engine]\nruntime = "kata"\n')
    write(root, PLACES.podman_fronts[1:], '[engine.runtimes]\nkata = ["/front", "/opt/kata"]\n')
    found = PodmanRuntimes(str(root), PLACES)
    assert (found.usual(), found.real("kata"), found.real("runc")) == ("kata", "/opt/kata", "/usr/sbin/runc")
    front = front_before(found, "kata")
    assert told([front]) == {"kata": [PLACES.front("podman", "kata"), "/opt/kata", "/none"]}


def test_the_front_is_first_and_the_real_one_next(root: Path) -> None:
    """So Podman calls the real one if the front is gone. Without fronts the file goes."""
    front = front_before(PodmanRuntimes(str(root), PLACES), "crun")
    assert told([front]) == {"crun": [PLACES.front("podman", "crun"), "/usr/bin/crun"]}
    assert drop_in(PLACES, []).content is None


@pytest.mark.parametrize(
    ("content", "name", "word"),
    [
        ('[engine]\nruntime = "/opt/kata"\n', "", "default runtime is the path /opt/kata"),
        ("[engine", "", "cannot be understood"),
        ("", "youki", "the program of Podman's runtime youki is missing"),
        ("", "a/b", "cannot be wrapped: its name"),
        ('[engine]\nruntime = "cpuset"\n', "", "asks by itself"),
    ],
)
def test_what_cannot_stand_behind_a_front_is_said(root: Path, content: str, name: str, word: str) -> None:
    """Before anything is changed."""
    write(root, "etc/containers/containers.conf", content)

    def asked() -> None:
        found = PodmanRuntimes(str(root), PLACES)
        front_before(found, name or found.usual())

    with pytest.raises(ConfigError, match=word):
        asked()


@pytest.mark.parametrize(
    "content", ['engine = "x"', "[engine]\nruntimes = 7\nruntime = 8", '[engine.runtimes]\nx = "y"']
)
def test_what_podman_itself_would_not_understand_is_no_default(root: Path, content: str) -> None:
    """It is passed over."""
    write(root, "etc/containers/containers.conf", content)
    assert PodmanRuntimes(str(root), PLACES).usual() == "crun"


USUAL = ["crun", "runc", "kata", "runsc", "youki", "krun"]


def test_a_list_of_a_later_file_replaces_that_of_an_earlier_one(root: Path) -> None:
    """Ours does not count; without any, Podman's own lists do."""
    found = PodmanRuntimes(str(root), PLACES)
    assert (found.supports_json, found.hooks_dirs) == (USUAL, ["/usr/share/containers/oci/hooks.d"])
    write(root, "usr/share/containers/containers.conf", '[engine]\nruntime_supports_json = ["a"]\nhooks_dir = ["/a"]\n')
    write(root, "etc/containers/containers.conf", '[engine]\nruntime_supports_json = ["runc", "mine"]\n')
    write(root, "etc/containers/containers.conf.d/20.conf", '[engine]\nhooks_dir = ["/b"]\n')
    write(root, "etc/containers/containers.conf.d/10.conf", '[engine]\nhooks_dir = ["/c"]\n')
    write(root, "etc/containers/containers.conf.d/90.txt", '[engine]\nhooks_dir = ["/d"]\n')
    write(root, PLACES.podman_settings[1:], '[engine]\nruntime_supports_json = ["ours"]\nhooks_dir = ["/ours"]\n')
    found = PodmanRuntimes(str(root), PLACES)
    assert (found.supports_json, found.hooks_dirs) == (["runc", "mine"], ["/b"])


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        (('["/a", {append=true}]', '["/b"]'), ["/usr/share/containers/oci/hooks.d", "/a", "/b"]),
        (('["/a", {append=true}]', '["/b", {append=false}]'), ["/b"]),
        (('["/a"]', '[{append=true}, "/a", "/b"]'), ["/a", "/b"]),
        (("[]", "7"), ["/usr/share/containers/oci/hooks.d"]),
    ],
)
def test_a_list_that_appends_does_so_from_then_on(root: Path, lists: tuple[str, str], expected: list[str]) -> None:
    """As containers.conf(5) says of `{append=true}`."""
    for number, each in enumerate(lists):
        write(root, f"etc/containers/containers.conf.d/{number}.conf", f"[engine]\nhooks_dir = {each}\n")
    assert PodmanRuntimes(str(root), PLACES).hooks_dirs == expected


def test_a_later_file_that_says_otherwise_is_named(root: Path) -> None:
    """Podman would not take what is installed."""
    later = root / "etc/containers/containers.conf.d/60.conf"
    front = front_before(PodmanRuntimes(str(root), PLACES), "crun")
    lists = 'runtime_supports_json = ["cpuset"]\nhooks_dir = ["/etc/containers/oci/hooks.d"]\n'
    ours = {
        PLACES.podman_settings: f"[engine]\n{lists}".encode(),
        PLACES.podman_fronts: drop_in(PLACES, [front]).content,
    }

    def said() -> list[str]:
        after = PodmanRuntimes(str(root), PLACES, ours)
        return list(left_out(after, PLACES, [front], with_hook=True))

    assert said() == []
    lists = 'runtime_supports_json = ["crun"]\nhooks_dir = ["/mine"]\n'
    write(root, "etc/containers/containers.conf.d/60.conf", f'[engine]\n{lists}[engine.runtimes]\ncrun = ["/mine"]\n')
    assert [each.partition(":")[0] for each in said()] == [
        f"{later} is read later, and has no cpuset in runtime_supports_json",
        f"{later} is read later, and has no /etc/containers/oci/hooks.d in hooks_dir",
        f"{later} is read later, and has its own paths of the runtime crun, which starts around its front",
    ]


def test_the_name_of_the_strict_runtime_must_be_free(root: Path) -> None:
    """Or name its program: ours is not asked about."""
    path = root / "etc/containers/containers.conf"
    write(root, PLACES.podman_settings[1:], '[engine.runtimes]\ncpuset = ["/of/another/prefix"]\n')
    see_that_free(PodmanRuntimes(str(root), PLACES), PLACES)
    write(root, "etc/containers/containers.conf", f'[engine.runtimes]\ncpuset = ["{PLACES.runtime}"]\n')
    see_that_free(PodmanRuntimes(str(root), PLACES), PLACES)
    write(root, "etc/containers/containers.conf", '[engine.runtimes]\ncpuset = ["/theirs"]\n')
    with pytest.raises(ConfigError, match=f"{path} has another runtime 'cpuset', .'/theirs'.: nothing was changed"):
        see_that_free(PodmanRuntimes(str(root), PLACES), PLACES)
