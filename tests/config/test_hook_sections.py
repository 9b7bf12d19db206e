"""Hooks in the configuration's file: a command or a webhook, and every mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.config.config import load
from sidecar.config.hook_sections import Hook, is_address
from sidecar.config.running_settings import changed_in_vain, read_settings, write_settings
from sidecar.failures import ConfigError


def test_a_hook_is_a_command_or_a_webhook(tmp_path: Path) -> None:
    """With the changes that it is for, and its limit; commands that answer for the daemon know it, too."""
    path = tmp_path / "c.toml"
    path.write_text(
        """
policy = "none"

[[hook]]
command = ["/usr/local/bin/tell", "ops team", "$(id)"]
on = ["refused", "warning"]
timeout = "500ms"

[[hook]]
name = "chat"
webhook = "https://chat.example.com/hooks/42?room=7"
"""
    )
    config = load(str(path), {}, {})
    assert config.hooks == (
        Hook(
            name="1",
            command=("/usr/local/bin/tell", "ops team", "$(id)"),
            on=("refused", "warning"),
            timeout_seconds=0.5,
        ),
        Hook(name="chat", webhook="https://chat.example.com/hooks/42?room=7"),
    )
    write_settings(tmp_path, config)
    assert read_settings(tmp_path) == config
    path.write_text("\n\n" + path.read_text())
    assert changed_in_vain(load(str(path), {}, {}), config) == ()
    path.write_text("")
    assert changed_in_vain(load(str(path), {}, {}), config) == ("hooks",)


MISTAKES = [
    ("", "line 1: hook is '{}': write either command"),
    ('command = ["/a"]\nwebhook = "http://a"', "line 1: hook is 'command, webhook': write either command"),
    ("command = []", "line 2: command is []: write a list of words"),
    ('command = ["tell"]', "line 2: command is ['tell']: write a list of words that begins with the absolute path"),
    ('command = "/bin/tell"', "line 2: command is '/bin/tell': write a list of words"),
    ('command = ["/a", 3]', "line 2: command is ['/a', 3]: write a list of words"),
    ('webhook = "ftp://a/b"', "line 2: webhook is 'ftp://a/b': write an address"),
    ('webhook = "http://user@a/b"', "line 2: webhook is 'http://user@a/b': write an address"),
    ('webhook = "http://a"\non = ["refusd"]', "line 3: on has 'refusd'; did you mean 'refused'?"),
    ('webhook = "http://a"\ntimeout = "2m"', "line 3: timeout is '2m': write a duration from 100ms to 1m"),
    ('webhook = "http://a"\nname = "a\\nb"', "line 3: name is "),
    (
        'webhook = "http://a"\nname = "chat"\n[[hook]]\ncommand = ["/a"]\nname = "chat"',
        "line 6: name is 'chat': another hook has that name, by its number if it has no other: write one of its own",
    ),
    ('webhook = "http://a"\nname = "2"\n[[hook]]\nwebhook = "http://b"', "line 4: name is '2': another hook"),
    ('webhok = "http://a"', "line 2: unknown key 'webhok'; did you mean 'webhook'?"),
]


@pytest.mark.parametrize(("text", "words"), MISTAKES, ids=[words for _, words in MISTAKES])
def test_a_mistake_in_a_hook_names_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text(f"[[hook]]\n{text}\n")
    with pytest.raises(ConfigError) as error:
        load(str(path), {}, {})
    assert error.value.sentences[0].startswith(f"{path}, {words}"), error.value.sentences


def test_there_are_sixteen_hooks_at_most(tmp_path: Path) -> None:
    """Each may run a process."""
    path = tmp_path / "c.toml"
    path.write_text('[[hook]]\nwebhook = "http://a"\n' * 16)
    assert len(load(str(path), {}, {}).hooks) == 16
    path.write_text('[[hook]]\nwebhook = "http://a"\n' * 17)
    with pytest.raises(ConfigError, match="line 33: hook is '17': there are 16 hooks at most"):
        load(str(path), {}, {})


@pytest.mark.parametrize("text", ["hook = 3", "[hook]\nname = 'a'", "hook = [3]"])
def test_hooks_are_a_list_of_tables(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"line 1: hook is no list of tables: write each as \[\[hook\]\]"):
        load(str(path), {}, {})


def test_no_variable_and_no_flag_makes_a_hook() -> None:
    """A command runs with the daemon's rights: it comes from the owner's file alone."""
    with pytest.raises(ConfigError, match="unknown key"):
        load(None, {"CPUSET_SIDECAR_HOOK": "/bin/sh"}, {})


@pytest.mark.parametrize("address", ["http://[::1]:80/", "https://a.b/c?d=e", "http://127.0.0.1:8080"])
def test_an_address_may_have_a_port_and_a_query(address: str) -> None:
    assert is_address(address)


@pytest.mark.parametrize(
    "address", ["http://", "http://a:0/", "http://a:99999/", "http://a/b\r\nx: y", "http://a/ b", "//a", "http://[::1/"]
)
def test_what_could_not_be_asked_is_no_address(address: str) -> None:
    assert not is_address(address)
