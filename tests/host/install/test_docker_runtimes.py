"""Which of Docker's runtimes stand behind a front: what its configuration says then, and after, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.failures import ConfigError
from sidecar.host.install.docker_runtimes import (
    DEFAULT_KEY,
    STOCK,
    TABLE,
    default_in,
    front_before,
    ways_around,
    with_front,
    without_calls,
    without_name,
)
from sidecar.host.install.fronts import DEFAULT_NAME, KEEPS_SCRIPT, Front, recorded_fronts
from sidecar.host.install.runtime_files import Places

PLACES = Places()
NVIDIA = "/usr/bin/nvidia-container-runtime"


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Provide a host with runc and one runtime more."""
    for path in ("usr/sbin/runc", NVIDIA[1:]):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("#!/bin/sh\n")
        (tmp_path / path).chmod(0o755)
    return str(tmp_path)


def before(root: str, settings: dict[str, Any], name: str, *records: Front, flag: str | None = None) -> Front:
    return front_before(root, PLACES, settings, name, records, flag)


def test_dockers_own_runtime_gets_a_name_more_and_is_the_default_again(root: str) -> None:
    """It is in no table; between the two its name is said, which dockerd needs at a reload."""
    settings: dict[str, Any] = {"debug": True}
    front = before(root, settings, default_in(settings, None))
    assert (front.name, front.real, front.default) == (DEFAULT_NAME, "/usr/sbin/runc", None)
    installed = with_front(settings, front, PLACES)
    assert installed == {
        "debug": True,
        TABLE: {DEFAULT_NAME: {"path": PLACES.front("docker", DEFAULT_NAME)}},
        DEFAULT_KEY: DEFAULT_NAME,
    }
    first = without_calls(installed, [front], PLACES)
    assert first == {**installed, DEFAULT_KEY: STOCK}
    assert without_name(first, front, is_used=True) == {"debug": True, TABLE: installed[TABLE]}
    assert without_name(first, front, is_used=False) == settings


def test_a_runtime_of_the_table_keeps_its_name_and_the_default_is_not_touched(root: str) -> None:
    """Its arguments go behind the front with it, and everything else of its entry stays. It has some as before, for
    which dockerd keeps the script by which living containers are called.
    """
    entry = {"path": NVIDIA, "runtimeArgs": ["--debug"], "x": 1}
    settings: dict[str, Any] = {DEFAULT_KEY: "nvidia", TABLE: {"nvidia": entry}}
    front = before(root, settings, default_in(settings, None))
    assert (front.name, front.real, front.args) == ("nvidia", NVIDIA, ("--debug",))
    installed = with_front(settings, front, PLACES)
    path = PLACES.front("docker", "nvidia")
    assert installed == {
        DEFAULT_KEY: "nvidia",
        TABLE: {"nvidia": {"path": path, "runtimeArgs": [KEEPS_SCRIPT], "x": 1}},
    }
    assert without_calls(installed, [front], PLACES) == settings


def test_what_another_program_changed_in_an_entry_since_stays(root: str) -> None:
    """Only the path, and the arguments, are as they were."""
    settings: dict[str, Any] = {TABLE: {"nvidia": {"path": NVIDIA}}}
    front = before(root, settings, "nvidia")
    installed = with_front(settings, front, PLACES)
    changed = {TABLE: {"nvidia": {**installed[TABLE]["nvidia"], "theirs": 1}}}
    assert without_calls(changed, [front], PLACES) == {TABLE: {"nvidia": {"path": NVIDIA, "theirs": 1}}}
    rewritten = {TABLE: {"nvidia": {"path": "/their/new/path"}}}
    assert without_calls(rewritten, [front], PLACES) == rewritten


@given(
    st.sampled_from([None, STOCK, "nvidia"]),
    st.booleans(),
    st.lists(st.sampled_from(["default", "nvidia"]), max_size=4),
)
def test_whatever_was_installed_in_any_order_goes_without_a_trace(
    default: str | None, has_args: bool, order: list[str]
) -> None:
    """The settings are those of before, however often and in which order runtimes were wrapped."""
    entry: dict[str, Any] = {"path": "/bin/true", **({"runtimeArgs": ["-v"]} if has_args else {})}
    settings: dict[str, Any] = {TABLE: {"nvidia": entry}, **({DEFAULT_KEY: default} if default else {})}
    now, fronts = dict(settings), dict[str, Front]()
    for word in order:
        name = default_in(now, None) if word == "default" else word
        if name == STOCK:
            was = fronts[DEFAULT_NAME].default if DEFAULT_NAME in fronts else default
            fronts[DEFAULT_NAME] = Front(engine="docker", name=DEFAULT_NAME, real="/bin/true", default=was)
            now = with_front(now, fronts[DEFAULT_NAME], PLACES)
        elif name != DEFAULT_NAME:
            fronts[name] = before("/", now, name, *fronts.values())
            now = with_front(now, fronts[name], PLACES)
    now = without_calls(now, fronts.values(), PLACES)
    for front in fronts.values():
        if front.name == DEFAULT_NAME:
            now = without_name(now, front, is_used=False)
    assert now == settings


def test_a_second_time_what_stands_behind_is_known_by_its_record(root: str) -> None:
    """Not the front itself; without the record nothing is guessed."""
    settings: dict[str, Any] = {TABLE: {"nvidia": {"path": NVIDIA}}}
    front = before(root, settings, "nvidia")
    installed = with_front(settings, front, PLACES)
    assert before(root, installed, "nvidia", front) == front
    with pytest.raises(ConfigError, match=r"nvidia\.json is missing"):
        before(root, installed, "nvidia")


@pytest.mark.parametrize(
    ("settings", "name", "flag", "word"),
    [
        ({TABLE: {"x": {"path": "/nowhere"}}}, "x", None, "the program of the runtime x, /nowhere, is missing"),
        ({TABLE: {"k": {"runtimeType": "io.containerd.kata.v2"}}}, "k", None, "the runtime k is a shim"),
        ({}, "io.containerd.runsc.v1", None, "the runtime io.containerd.runsc.v1 is a shim"),
        ({}, "nvidia", None, "has no runtime 'nvidia' with a path"),
        ({TABLE: {"nvidia": "x"}}, "nvidia", None, "has no runtime 'nvidia' with a path"),
        (
            {TABLE: {"a": {"path": NVIDIA, "runtimeArgs": "x"}}},
            "a",
            None,
            "of the runtime 'a' is not a list of texts",
        ),
        ({TABLE: {DEFAULT_NAME: {"path": "/theirs"}}}, STOCK, None, "has another runtime 'cpuset-default'"),
        ({}, STOCK, "runc", "dockerd runs with --default-runtime runc"),
        ({TABLE: {"../x": {"path": NVIDIA}}}, "../x", None, "cannot be wrapped: its name"),
        ({TABLE: {"cpuset": {"path": NVIDIA}}}, "cpuset", None, "the runtime cpuset asks by itself"),
    ],
)
def test_what_cannot_stand_behind_a_front_is_said(
    root: str, settings: dict[str, Any], name: str, flag: str | None, word: str
) -> None:
    """Before anything is changed."""
    with pytest.raises(ConfigError, match=word):
        before(root, settings, name, flag=flag)


def test_a_default_that_is_no_text_is_said() -> None:
    """Somebody wrote the file by hand."""
    with pytest.raises(ConfigError, match="is not a text"):
        default_in({DEFAULT_KEY: ["runc"]}, None)


def test_ways_around_are_named_with_what_they_are(root: str) -> None:
    """Docker's own runtime is one as soon as it is not the default any more."""
    settings: dict[str, Any] = {TABLE: {"nvidia": {"path": NVIDIA}, "kata": {"runtimeType": "x"}, "cpuset": {}}}
    front = before(root, settings, "nvidia")
    assert list(ways_around(settings, [front])) == ["runc", "kata (a shim)"]


def test_a_record_that_cannot_be_read_is_said(root: str) -> None:
    """It says what an engine had before: it is not guessed."""
    folder = Path(root) / "etc/cpuset-sidecar/fronts/docker"
    assert recorded_fronts(root, PLACES, "docker") == []
    folder.mkdir(parents=True)
    (folder / "x.json").write_text("{")
    with pytest.raises(ConfigError, match="is not the record of a runtime"):
        recorded_fronts(root, PLACES, "docker")
