"""install-runtime for one of two engines: what the other one uses stays, and goes where it went."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from sidecar.cli.setup import cmd_install_runtime
from tests.cli.setup.test_cmd_install_runtime import Host, host

__all__ = ["host"]

DOCKER = ("--for", "docker")
PODMAN = ("--for", "podman")
HERE = ("--socket", "/srv/a/api.sock", "--projections", "/srv/a/told")
DROP_IN = "etc/containers/containers.conf.d/50-cpuset-sidecar.conf"
RUNTIME = "usr/local/bin/cpuset-runc"
STRICT = {"cpuset": {"path": f"/{RUNTIME}"}}


def changed(host: Host, before: dict[str, bytes]) -> list[str]:
    """Return the files that are not as they were."""
    after = host.files()
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


@pytest.mark.parametrize(("one", "other"), [(PODMAN, DOCKER), (DOCKER, PODMAN)])
@pytest.mark.parametrize("words", [(), ("--default",)])
def test_a_removal_for_one_engine_leaves_what_the_other_one_had_alone(
    host: Host, capsys: pytest.CaptureFixture[str], one: Sequence[str], other: Sequence[str], words: Sequence[str]
) -> None:
    """Byte for byte, with its fronts, whichever was there first; and the note says what stays, and for whom."""
    host.daemon_json.write_text("{}")
    assert host.install(*other, *words) == 0
    before = host.files()
    assert host.install(*one, *words) == 0
    capsys.readouterr()
    assert host.install(*one, "--remove") == 0
    assert changed(host, before) == []
    assert (
        f"/{RUNTIME}, its program and its settings stay: {other[1].capitalize()} uses them" in capsys.readouterr().out
    )


def test_the_last_engine_takes_along_what_both_used(host: Host) -> None:
    """Then nothing is left; and `auto` removes both."""
    host.daemon_json.write_text('{"debug":true }')
    before = host.files()
    assert host.install("--default", "--hook") == 0
    assert host.install(*DOCKER, "--remove") == 0
    assert host.daemon_json.read_text() == '{"debug":true }'
    assert (host.root / RUNTIME).exists()
    assert host.install(*PODMAN, "--remove") == 0
    assert host.files() == before
    assert host.install("--default", "--hook") == 0
    assert host.install("--remove") == 0
    assert host.files() == before


def test_the_default_of_one_engine_goes_alone(host: Host) -> None:
    """The other one's default stays behind its front."""
    host.daemon_json.write_text("{}")
    assert host.install("--default") == 0
    before = host.files()
    assert host.install(*PODMAN, "--remove", "--default") == 0
    assert {path for path in changed(host, before) if "podman" not in path} == {
        "etc/containers/containers.conf.d/51-cpuset-sidecar-fronts.conf"
    }
    assert host.settings()["default-runtime"] == "cpuset-default"
    assert host.install(*PODMAN, "--default") == 0
    assert host.files() == before
    assert host.install(*DOCKER, "--remove", "--default") == 0
    assert host.settings() == {"runtimes": STRICT}
    assert {path for path in changed(host, before) if "docker" not in path} == set()


def test_a_dry_removal_for_one_engine_names_only_its_files(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """And says so in JSON."""
    assert host.install("--default") == 0
    before = host.files()
    capsys.readouterr()
    assert host.install(*PODMAN, "--remove", "--dry-run", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["written"] == []
    assert told["removed"] == [
        "/etc/containers/containers.conf.d/51-cpuset-sidecar-fronts.conf",
        *(f"/{path}" for path in ("usr/local/lib/cpuset-sidecar/fronts/podman/runc",)),
        *(f"/etc/cpuset-sidecar/fronts/podman/runc.{ending}" for ending in ("conf", "json")),
        f"/{DROP_IN}",
    ]
    assert host.files() == before
    assert host.install(*PODMAN, "--remove", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {**told, "is_dry": False}


@pytest.mark.parametrize(
    "content",
    ['{"runtimes": {"mine": {"path": "/usr/local/bin/cpuset-runc"}}}', '{"runtimes": '],
    ids=["under another name", "that cannot be understood"],
)
def test_a_configuration_of_docker_that_may_call_it_keeps_it(host: Host, content: str) -> None:
    """Docker is not told anything; what it may call stays."""
    assert host.install(*PODMAN) == 0
    host.daemon_json.write_text(content)
    assert host.install(*PODMAN, "--remove") == 0
    assert host.daemon_json.read_text() == content
    assert (host.root / RUNTIME).exists()
    assert not (host.root / DROP_IN).exists()


def test_what_another_prefix_has_in_podman_stays(host: Host) -> None:
    """The drop-in names the program of one prefix, and goes with that one."""
    assert host.install(*DOCKER, *HERE) == 0
    assert host.install(*PODMAN, "--prefix", "/opt/strict", "--socket", "/srv/b/api.sock") == 0
    drop_in = host.files()[DROP_IN]
    assert b'cpuset = ["/opt/strict/bin/cpuset-runc"]' in drop_in
    assert host.install("--remove") == 0
    assert not (host.root / RUNTIME).exists()
    assert host.files()[DROP_IN] == drop_in
    assert host.install("--remove", "--prefix", "/opt/strict") == 0
    assert DROP_IN not in host.files()


def test_containers_of_the_other_engine_are_no_reason_to_stay(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their runtime stays. Where it would go, they keep it."""
    host.daemon_json.write_text("{}")
    assert host.install() == 0
    monkeypatch.setattr(cmd_install_runtime, "monitored", lambda runtime: ["voice"])
    assert host.install(*PODMAN, "--remove") == 1
    assert host.install(*DOCKER, "--remove") == 0
    assert host.settings() == {}
    assert host.install(*DOCKER) == 0
    (host.root / DROP_IN).unlink()
    assert host.install(*DOCKER, "--remove") == 1


@pytest.mark.parametrize(("one", "other"), [(PODMAN, DOCKER), (DOCKER, PODMAN)])
@pytest.mark.parametrize(
    ("words", "word"),
    [
        (("--socket", "/srv/b/api.sock"), "socket from /srv/a/api.sock to /srv/b/api.sock"),
        (("--projections", "/srv/b"), "projections from /srv/a/told to /srv/b"),
        (("--runtime", "/bin/other"), "real from /usr/sbin/runc to /bin/other"),
    ],
)
def test_a_second_engine_does_not_redirect_the_first(
    host: Host,
    capsys: pytest.CaptureFixture[str],
    one: Sequence[str],
    other: Sequence[str],
    words: tuple[str, str],
    word: str,
) -> None:
    """It is refused before anything is written, with the cure. For both at once it is a change."""
    there = {"--socket": HERE[1], "--projections": HERE[3]} | {words[0]: words[1]}
    elsewhere = [each for pair in there.items() for each in pair]
    host.program("bin/other")
    host.daemon_json.write_text("{}")
    assert host.install(*other, *HERE) == 0
    before = host.files()
    assert host.install(*one, *elsewhere) == 1
    said = capsys.readouterr().err
    assert f"is {other[1].capitalize()}'s as well, and would change for it: {word}: nothing was changed" in said
    assert f"another --prefix, or remove that first (--for {other[1]} --remove)" in said
    assert host.files() == before
    assert host.install(*one, *HERE) == 0
    assert host.install(*other, *elsewhere) == 1
    assert host.install(*elsewhere) == 0
    assert host.install(*one, "--remove") == 0
    assert host.install(*other, *HERE) == 0
    assert host.files() == before


def test_a_removal_that_finds_nothing_says_why(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is set up then."""
    before = host.files()
    for words, why in (((), "nothing of it is installed"), (("--default",), "no such front is installed")):
        assert host.install("--remove", *words) == 0
        assert f"nothing to change: {why}\n" in capsys.readouterr().out
    assert host.files() == before
