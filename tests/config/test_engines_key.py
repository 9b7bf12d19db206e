"""The key `engines`: several engines of one host, each once, and what cannot stand beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.config.config import Config, load
from sidecar.engines.address import addresses
from sidecar.failures import ConfigError


def from_text(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "sidecar.toml"
    file.write_text(text)
    return load(str(file), {}, {})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            'engines = ["docker", "podman"]',
            [("docker", "unix:///var/run/docker.sock"), ("podman", "unix:///run/podman/podman.sock")],
        ),
        (
            'engines = "podman=/run/p.sock,docker=tcp://127.0.0.1:2375"',
            [("podman", "unix:///run/p.sock"), ("docker", "tcp://127.0.0.1:2375")],
        ),
        (
            'engines = ["podman:1000", "docker"]',
            [("podman:1000", "unix:///run/user/1000/podman/podman.sock"), ("docker", "unix:///var/run/docker.sock")],
        ),
        ("", [("", "auto")]),
    ],
)
def test_each_has_a_name_and_an_address(tmp_path: Path, text: str, found: list[tuple[str, str]]) -> None:
    """Its usual one, or the one that is written; an only engine may be any."""
    config = from_text(tmp_path, text)
    assert addresses(config.engine, config.engines) == found


@pytest.mark.parametrize(
    "value",
    [
        '["docker"]',
        '["docker", "docker=/a.sock"]',
        '["docker", "lxc"]',
        '["docker", "podman=auto"]',
        "7",
        '["docker", "podman:me"]',
    ],
)
def test_what_is_no_list_of_engines_is_refused_with_what_is(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match=r'write two engines, each once, like \["docker", "podman"\]'):
        from_text(tmp_path, f"engines = {value}")


@pytest.mark.parametrize("line", ['engine = "/a.sock"', 'hand = "/lane"', 'shared_slice = "pool.slice"'])
def test_what_is_about_one_engine_contradicts_it(tmp_path: Path, line: str) -> None:
    key = line.partition(" ")[0]
    with pytest.raises(ConfigError, match=f"{key} is about one engine, and engines names several"):
        from_text(tmp_path, f'engines = ["docker", "podman"]\n{line}\n')


def test_all_that_answer_can_be_asked_for(tmp_path: Path) -> None:
    assert from_text(tmp_path, 'engines = "auto"').engines == ("auto",)
