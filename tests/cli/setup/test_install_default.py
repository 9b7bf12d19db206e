"""install-runtime --default and --wrap on a host that is a folder, without running engines."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from sidecar.__main__ import main
from sidecar.cli.setup import cmd_install_runtime, docker_users, dockerd_process, podman_side
from sidecar.host.install.fronts import KEEPS_SCRIPT
from sidecar.observe.front_records import recorded
from tests.cli.setup.test_cmd_install_runtime import Host, host

__all__ = ["host"]

CALLED: Final = frozenset({("docker", "cpuset-default")})
NONE: Final = frozenset[tuple[str, str]]()
FRONTS = "usr/local/lib/cpuset-sidecar/fronts"
DOCKER = ("--for", "docker")


def containers_on_disk(host: Host, at: str = "var/lib/docker", **runtimes: str) -> None:
    """Record containers of an engine that does not run, by name with their runtimes."""
    for name, runtime in runtimes.items():
        folder = host.root / at / "containers" / name
        folder.mkdir(parents=True)
        (folder / "hostconfig.json").write_text(json.dumps({"Runtime": runtime}))
        (folder / "config.v2.json").write_text(json.dumps({"Name": f"/{name}"}))


def test_both_engines_start_everything_through_a_front(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """Docker's own runtime has a further name; Podman's keeps its own."""
    assert host.install("--default") == 0
    front = f"/{FRONTS}/docker/cpuset-default"
    assert host.settings() == {
        "runtimes": {"cpuset": {"path": "/usr/local/bin/cpuset-runc"}, "cpuset-default": {"path": front}},
        "default-runtime": "cpuset-default",
    }
    assert os.access(host.root / front[1:], os.X_OK)
    files = host.files()
    settings = files["etc/cpuset-sidecar/fronts/docker/cpuset-default.conf"].decode()
    assert "real=/usr/sbin/runc\n" in settings
    podman = files["etc/containers/containers.conf.d/51-cpuset-sidecar-fronts.conf"].decode()
    assert podman.splitlines()[1:] == ["[engine.runtimes]", f'"runc" = ["/{FRONTS}/podman/runc", "/usr/sbin/runc"]']
    assert "not wrapped, and so a way around: runc" in capsys.readouterr().out


def test_the_state_directory_has_each_record_as_well(host: Host) -> None:
    """A sidecar in a container sees no other. It comes with the next call where there was no such directory yet, moves
    with the socket, says when a front passes everything on, and goes without a trace.
    """
    assert host.install("--default", *DOCKER) == 0
    state, other = host.root / "var/lib/cpuset-sidecar", host.root / "srv/other"
    assert not state.exists()
    state.mkdir(parents=True)
    assert host.install("--default", *DOCKER) == 0
    record = "fronts/docker/cpuset-default.json"
    assert (state / record).read_bytes() == (host.root / "etc/cpuset-sidecar" / record).read_bytes()
    assert recorded([f"{state}/fronts"]) == (CALLED, NONE)
    other.mkdir(parents=True)
    assert host.install("--default", "--socket", "/srv/other/api.sock", *DOCKER) == 0
    assert recorded([f"{state}/fronts"]) == (NONE, NONE)
    containers_on_disk(host, plain="cpuset-default")
    assert host.install("--remove") == 0
    assert recorded([f"{other}/fronts"]) == (NONE, CALLED)
    shutil.rmtree(host.root / "var/lib/docker")
    assert host.install("--remove") == 0
    assert not [name for name in host.files() if "fronts/" in name]
    assert list(other.iterdir()) == []


@pytest.mark.parametrize("before", ['{"debug":true }', '{"default-runtime":"runc" }', None])
def test_it_goes_without_a_trace_and_twice_changes_nothing(host: Host, before: str | None) -> None:
    """Byte for byte, whatever was said of the default before."""
    if before:
        host.daemon_json.write_text(before)
    was = host.files()
    assert host.install("--default") == 0
    installed = host.files()
    assert host.install("--default") == 0
    assert host.install() == 0
    assert host.files() == installed
    assert host.install("--remove", "--dry-run") == 0
    assert host.files() == installed
    assert host.install("--remove") == 0
    assert host.files() == was
    assert host.install("--remove") == 0
    assert host.files() == was


def test_the_default_goes_alone_and_the_runtime_by_name_stays(host: Host) -> None:
    """So does a front of another name."""
    host.program("usr/bin/nv")
    host.daemon_json.write_text('{"runtimes": {"nv": {"path": "/usr/bin/nv", "runtimeArgs": ["-x"]}}}')
    assert host.install(*DOCKER) == 0
    strict = host.settings()
    assert host.install(*DOCKER, "--wrap", "nv") == 0
    wrapped = host.settings()
    assert wrapped["runtimes"]["nv"] == {"path": f"/{FRONTS}/docker/nv", "runtimeArgs": [KEEPS_SCRIPT]}
    assert "exec /usr/bin/nv -x" in (host.root / "usr/local/lib/cpuset-sidecar/reals/docker/nv").read_text()
    assert host.install(*DOCKER, "--default") == 0
    assert host.install(*DOCKER, "--remove", "--default") == 0
    assert host.settings() == wrapped
    assert host.install(*DOCKER, "--remove", "--wrap", "nv") == 0
    assert host.settings() == strict
    assert (host.root / "usr/local/bin/cpuset-runc").exists()


def test_what_a_stopped_engine_has_under_the_front_keeps_it(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """It would not start without the entry: the front passes everything on, and a further call ends it."""
    before = host.files()
    assert host.install(*DOCKER, "--default") == 0
    containers_on_disk(host, web="cpuset-default", other="runc")
    assert host.install(*DOCKER, "--remove") == 0
    assert "passes everything on until a further --remove finds none: web" in capsys.readouterr().out
    front = host.root / FRONTS / "docker/cpuset-default"
    assert "kind=passing" in front.read_text()
    assert host.settings() == {"runtimes": {"cpuset-default": {"path": f"/{FRONTS}/docker/cpuset-default"}}}
    assert host.install(*DOCKER) == 0
    assert "kind=passing" in front.read_text()
    (host.root / "var/lib/docker/containers/web/hostconfig.json").write_text('{"Runtime": "runc"}')
    assert host.install(*DOCKER, "--remove") == 0
    left = {path for path in host.files() if not path.startswith("var/lib/docker")}
    assert left == set(before)


def test_an_engine_that_had_its_data_elsewhere_by_a_flag_is_known_while_it_is_stopped(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its flags are not to be seen then: the front's record says where."""
    dockerd = dockerd_process.Dockerd(1 << 30, ("--data-root", "/srv/docker"))
    monkeypatch.setattr(dockerd_process, "find_dockerd", lambda _: dockerd)
    monkeypatch.setattr(dockerd_process.Dockerd, "reload", lambda _: None)
    assert host.install(*DOCKER, "--default") == 0
    monkeypatch.setattr(dockerd_process, "find_dockerd", lambda _: None)
    containers_on_disk(host, "srv/docker", web="cpuset-default", voice="cpuset")
    capsys.readouterr()
    assert host.install(*DOCKER, "--remove") == 0
    told = capsys.readouterr().out
    assert "recreate with another runtime before the next start: voice" in told
    assert "passes everything on until a further --remove finds none: web" in told
    assert host.settings()["runtimes"] == {"cpuset-default": {"path": f"/{FRONTS}/docker/cpuset-default"}}
    assert told.count("dockerd is not visible from here") == 1


@pytest.mark.parametrize("words", [DOCKER, ("--for", "podman"), ()])
def test_what_lives_while_its_engine_is_stopped_keeps_the_runtime(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: Sequence[str]
) -> None:
    """Its shim is there: containers outlive an engine with live-restore."""
    assert host.install(*words) == 0
    before, lives = host.files(), {"/usr/local/bin/cpuset-runc": ["0123456789ab"]}
    monkeypatch.setattr(cmd_install_runtime, "shimmed", lambda at: lives.get(at, []))
    assert host.install(*words, "--remove") == 1
    assert "nothing was removed: 0123456789ab runs under the runtime cpuset" in capsys.readouterr().err
    assert host.files() == before


def test_what_lives_under_a_front_while_its_engine_is_stopped_keeps_it(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though no record of it was found."""
    assert host.install(*DOCKER, "--default") == 0
    lives = {f"/{FRONTS}/docker/cpuset-default": ["0123456789ab"]}
    monkeypatch.setattr(docker_users, "shimmed", lambda at: lives.get(at, []))
    assert host.install(*DOCKER, "--remove") == 0
    assert "passes everything on until a further --remove finds none: 0123456789ab" in capsys.readouterr().out
    assert "kind=passing" in (host.root / FRONTS / "docker/cpuset-default").read_text()


def test_an_engine_that_may_run_unseen_is_not_robbed_of_its_default(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its pid file is there, and its process is not to be seen: it may have the front as its default."""
    assert host.install(*DOCKER, "--default") == 0
    pid_file = host.root / "run/docker.pid"
    pid_file.parent.mkdir()
    pid_file.write_text("999999999")
    words = ("--root", str(host.root), "--engine", "unix:///nonexistent", "--docker-pid", str(pid_file))
    assert main(["install-runtime", *words, *DOCKER, "--remove"]) == 0
    assert "dockerd may still start containers through a front" in capsys.readouterr().out
    assert host.settings()["default-runtime"] == "runc"
    assert host.settings()["runtimes"]["cpuset-default"] == {"path": f"/{FRONTS}/docker/cpuset-default"}
    assert (host.root / FRONTS / "docker/cpuset-default").exists()
    # It may call the runtime by name as well.
    assert host.settings()["runtimes"]["cpuset"] == {"path": "/usr/local/bin/cpuset-runc"}
    assert (host.root / "usr/local/bin/cpuset-runc").exists()
    pid_file.unlink()
    assert host.install(*DOCKER, "--remove") == 0
    assert not host.daemon_json.exists()


@pytest.mark.parametrize(
    ("content", "words", "word"),
    [
        ('{"default-runtime": "nv", "runtimes": {"nv": {"path": "/none"}}}', ("--default",), "/none, is missing"),
        (
            '{"default-runtime": "k", "runtimes": {"k": {"runtimeType": "x"}}}',
            ("--default",),
            "the runtime k is a shim",
        ),
        ('{"runtimes": {"cpuset-default": {"path": "/theirs"}}}', ("--default",), "another runtime 'cpuset-default'"),
        ("{}", ("--wrap", "cpuset-default"), "use --default"),
        ("{}", ("--wrap", "runc"), "cannot be wrapped by its name: use --default"),
        ("{}", ("--wrap", "nv"), "has no runtime 'nv'"),
        ('{"default-runtime": 7}', ("--default",), "is not a text"),
        ("{", ("--default",), "is not JSON"),
    ],
)
def test_what_is_in_the_way_is_said_and_nothing_is_written(
    host: Host, capsys: pytest.CaptureFixture[str], content: str, words: tuple[str, ...], word: str
) -> None:
    """With its cure."""
    host.daemon_json.write_text(content)
    before = host.files()
    assert host.install(*DOCKER, *words) == 1
    assert word in capsys.readouterr().err
    assert host.files() == before


def test_a_name_that_one_engine_alone_has_is_wrapped_there(host: Host) -> None:
    """Where both are set up; where neither has it, it is a mistake."""
    host.program("usr/bin/crun")
    host.daemon_json.write_text('{"runtimes": {"crun": {"path": "/usr/bin/crun"}}}')
    assert host.install("--wrap", "crun") == 0
    assert host.settings()["runtimes"]["crun"]["path"] == f"/{FRONTS}/docker/crun"
    assert (host.root / FRONTS / "podman/crun").exists()


def test_what_podman_runs_under_a_front_keeps_it_until_it_is_gone(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Podman itself calls the real runtime from its next call on."""
    before = host.files()
    assert host.install("--for", "podman", "--default") == 0
    monkeypatch.setattr(podman_side, "monitored", lambda runtime: ["web"])
    assert host.install("--for", "podman", "--remove") == 0
    assert "under the front runc, which stays and passes everything on" in capsys.readouterr().out
    assert "kind=passing" in (host.root / FRONTS / "podman/runc").read_text()
    assert not (host.root / "etc/containers/containers.conf.d/51-cpuset-sidecar-fronts.conf").exists()
    monkeypatch.setattr(podman_side, "monitored", lambda runtime: [])
    assert host.install("--for", "podman", "--remove") == 0
    assert host.files() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a directory away")
def test_a_front_that_another_user_could_replace_is_not_installed(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would run as root at every start."""
    folder: Path = host.root / "usr/local/lib/cpuset-sidecar"
    folder.mkdir(parents=True)
    os.chown(folder, 12345, -1)
    assert host.install(*DOCKER, "--default") == 1
    assert "can be written by user 12345" in capsys.readouterr().err
