"""install-runtime on a host whose Podman has a configuration of its own: it is kept, or the command says what is in the
way.
"""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from tests.cli.setup.test_cmd_install_runtime import Host, host

__all__ = ["host"]

CONF = "etc/containers/containers.conf"
MORE = "etc/containers/containers.conf.d"
PODMAN = ("--for", "podman")


def write(host: Host, path: str, content: str) -> None:
    (host.root / path).parent.mkdir(parents=True, exist_ok=True)
    (host.root / path).write_text(content)


def dropped(host: Host) -> Any:
    return tomllib.loads((host.root / MORE / "50-cpuset-sidecar.conf").read_text())["engine"]


def test_hooks_and_runtimes_of_before_stay_in_force(host: Host) -> None:
    """The drop-in adds to them, again each time, and does not take its own words for theirs."""
    write(host, CONF, '[engine]\nhooks_dir = ["/opt/mine"]\nruntime_supports_json = ["runc", "mine"]\n')
    assert host.install(*PODMAN) == 0
    assert dropped(host)["runtime_supports_json"] == ["runc", "mine", "cpuset"]
    assert "hooks_dir" not in dropped(host)
    assert host.install(*PODMAN, "--hook") == 0
    assert dropped(host)["hooks_dir"] == ["/opt/mine", "/etc/containers/oci/hooks.d"]
    write(host, f"{MORE}/10-more.conf", '[engine]\nhooks_dir = ["/opt/more"]\n')
    (host.root / CONF).unlink()
    assert host.install(*PODMAN, "--hook") == 0
    assert dropped(host)["hooks_dir"] == ["/opt/more", "/etc/containers/oci/hooks.d"]
    assert dropped(host)["runtime_supports_json"] == ["crun", "runc", "kata", "runsc", "youki", "krun", "cpuset"]


@pytest.mark.parametrize("words", [(), PODMAN, (*PODMAN, "--hook", "--default")])
@pytest.mark.parametrize("path", [CONF, f"{MORE}/99-mine.conf"])
@pytest.mark.parametrize(
    ("content", "word"),
    [
        ('[engine.runtimes]\ncpuset = ["/theirs"]\n', "has another runtime 'cpuset', ['/theirs']: nothing was changed"),
        ("[engine\n", "cannot be understood"),
        ("[engine]\nruntime = 'a\n", "cannot be understood"),
        ("x = " + "[" * 3000, "cannot be understood: it is nested too deeply: nothing was changed"),
    ],
    ids=["another cpuset", "no TOML", "an open text", "deep"],
)
def test_what_is_in_the_way_in_podmans_files_is_said_and_nothing_is_written(
    host: Host, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], path: str, content: str, word: str
) -> None:
    """With the file's name."""
    write(host, path, content)
    before = host.files()
    assert host.install(*words) == 1
    said = capsys.readouterr().err
    assert f"{host.root / path} " in said
    assert word in said
    assert host.files() == before


def test_a_later_file_of_podman_is_named(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run says so too."""
    write(host, f"{MORE}/99-mine.conf", '[engine]\nhooks_dir = ["/opt/mine"]\n')
    for words in (("--dry-run",), ()):
        assert host.install(*PODMAN, "--hook", *words) == 0
        said = capsys.readouterr().out
        assert (
            f"{host.root / MORE}/99-mine.conf is read later, and has no /etc/containers/oci/hooks.d in hooks_dir"
            in said
        )


def test_podmans_files_do_not_keep_docker_from_being_set_up(host: Host) -> None:
    """Nor from its removal."""
    write(host, CONF, "[engine")
    assert host.install("--for", "docker") == 0
    assert host.install("--remove") == 0
    assert (host.root / CONF).read_text() == "[engine"


def test_directories_that_were_made_go_and_others_stay(host: Host) -> None:
    """A directory that was there before stays, though it is empty."""
    (host.root / MORE).mkdir(parents=True)
    folders = {path for path in (host.root / "etc").rglob("*") if path.is_dir()}
    assert host.install(*PODMAN, "--hook", "--default") == 0
    assert (host.root / "etc/containers/oci/hooks.d").is_dir()
    assert host.install(*PODMAN, "--hook") == 0
    assert host.install(*PODMAN, "--remove") == 0
    assert {path for path in (host.root / "etc").rglob("*") if path.is_dir()} == folders
