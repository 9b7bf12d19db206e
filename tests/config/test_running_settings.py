"""The settings of a daemon, as other commands read them: its own, unless a flag says otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.config.config import Config, load, load_over
from sidecar.config.running_settings import (
    NAME,
    after_reload,
    changed_in_vain,
    overridden,
    read_settings,
    write_settings,
)
from sidecar.decide.settings import PolicyName
from sidecar.failures import ConfigError

DAEMON = {
    "policy": "dynamic",
    "reserved": "0,4",
    "options": "full-pcpus-only",
    "projections": "/run/other",
    "engine": "unix:///run/x.sock",
    "load_low": "0.2",
    "unmanaged": "db-*",
    "grace": "500ms",
}


def test_every_setting_is_read_as_it_was_written(tmp_path: Path) -> None:
    """With its source, for messages."""
    config = load(None, {}, DAEMON)
    write_settings(tmp_path, config)
    assert read_settings(tmp_path) == config
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"policy": 3}', b"\xff"])
def test_settings_that_cannot_be_read_are_none(tmp_path: Path, content: bytes | None) -> None:
    """Commands then go by their own."""
    if content is not None:
        (tmp_path / NAME).write_bytes(content)
    assert read_settings(tmp_path) is None
    assert read_settings(tmp_path / "nowhere") is None


def test_a_later_versions_keys_are_ignored(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b'{"policy": "static", "reserved_count": 1, "colour": "red"}')
    assert read_settings(tmp_path) == Config(policy=PolicyName.STATIC, reserved_count=1)


def test_a_flag_overrides_and_a_contradiction_with_the_rest_is_a_mistake() -> None:
    """A flag alone may say what makes sense only with the daemon's other settings."""
    running = load(None, {}, DAEMON)
    made = load_over(running, {"reserved": "count:2", "policy": "static", "linger": None})
    assert (made.reserved, made.reserved_count, made.policy.value) == (None, 2, "static")
    assert (made.projections, made.unmanaged) == ("/run/other", ("db-*",))
    assert made.origins["reserved"] == "the flag --reserved"
    assert overridden(made) == ("policy", "reserved")
    with pytest.raises(ConfigError, match=r"load_low is 0\.2 and load_high 0\.1"):
        load_over(running, {"load_high": "0.1"})


def test_a_reload_changes_what_needs_no_restart() -> None:
    before = load(None, {}, DAEMON)
    read = load(None, {}, {**DAEMON, "engine": "auto", "linger": "1s"})
    assert changed_in_vain(read, before) == ("engine",)
    made = after_reload(read, before)
    assert (made.engine, made.linger_seconds) == ("unix:///run/x.sock", 1.0)
