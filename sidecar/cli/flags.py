"""Flags that several commands share: the configuration's keys, `--json`, `--format` and `-o wide`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from sidecar.cli.arguments import given_flags, typed
from sidecar.cli.row_template import Fields, template_reader
from sidecar.config.config import DEFAULT_FILE, Config, load, load_over
from sidecar.config.keys import KEYS
from sidecar.config.running_settings import overridden, read_settings
from sidecar.failures import Misuse
from sidecar.readers import word
from sidecar.status.status_file import is_daemon_running
from sidecar.words.settings_text import daemon_on, last_daemon_on
from state import codec
from state.topology import Topology


def add_config(parser: argparse.ArgumentParser, keys: Iterable[str] = ("state_dir",)) -> None:
    """Add `--config`, and a flag for each of these keys."""
    group = parser.add_argument_group(
        "configuration", "Flags win over CPUSET_SIDECAR_* variables, which win over the file."
    )
    group.add_argument("--config", metavar="FILE", help=f"the TOML file (default: {DEFAULT_FILE}, if it exists)")
    for key in keys:
        name, row = f"--{key.replace('_', '-')}", KEYS[key]
        means = f"{row.meaning} (default: {row.default or 'none'}{f'; like {row.example}' if not row.default else ''})"
        group.add_argument(name, dest=f"config_{key}", metavar="VALUE", help=means)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def add_format(parser: argparse.ArgumentParser, fields: Fields[Any], example: str) -> None:
    """Add `--format`, with templates of these fields."""
    parser.add_argument(
        "--format",
        type=template_reader(fields),
        metavar="TEMPLATE",
        help=f"a line for each, as '{example}'; 'table {example}' with a head; or json",
    )


def check_format(args: argparse.Namespace, *others: str) -> None:
    """Raise Misuse if `--format` is given beside one of these other flags, which also say what is printed."""
    if args.format and (given := [name for name in others if getattr(args, name)]):
        raise Misuse(f"--format says what is printed, and so does --{given[0]}: leave one of them out")


def add_wide(parser: argparse.ArgumentParser) -> None:
    """Add `-o wide`."""
    parser.add_argument(
        "-o", "--output", type=typed("--output", word("wide")), metavar="wide", help="a table with all columns"
    )


def add_no_color(parser: argparse.ArgumentParser) -> None:
    """Add `--no-color`."""
    parser.add_argument("--no-color", action=_NoColor, nargs=0, help="no colours, as with NO_COLOR=1")


class _NoColor(argparse.Action):
    """Is the same as the variable, so that also another command that is started has none."""

    def __call__(self, *_: object) -> None:
        os.environ["NO_COLOR"] = "1"


def config_of(
    args: argparse.Namespace, machine: Callable[[], Topology | None] = lambda: None, *, serves: bool = False
) -> Config:
    """Return the configuration under these flags. ConfigError, also with what does not fit the `machine`, or prevents a
    daemon that `serves` from doing so.
    """
    return load(args.config, os.environ, given_flags(args), machine, serves=serves)


def daemons_config(
    args: argparse.Namespace, machine: Callable[[], Topology | None] = lambda: None
) -> tuple[Config, str]:
    """Return the configuration of the daemon that runs on the state directory, with what the flags override, and whose
    it is, in words.

    Without a running daemon, or with `--config`, it is the command's own: "". Raise ConfigError.
    """
    state_dir = _state_dir(args)
    running = None if args.config or not is_daemon_running(state_dir) else read_settings(state_dir)
    if running is None:
        return config_of(args, machine), ""
    config = _over(running, args, state_dir, machine)
    return config, daemon_on(config.state_dir, overridden(config))


def last_daemons_config(args: argparse.Namespace) -> Config:
    """Return the configuration of the last daemon of the state directory, with what the flags override.

    If none is recorded, or with `--config`, it is the command's own. Raise ConfigError.
    """
    state_dir = _state_dir(args)
    last = None if args.config else read_settings(state_dir)
    return config_of(args) if last is None else _over(last, args, state_dir)


def next_daemons_config(args: argparse.Namespace, root: str = "/") -> tuple[Config, str]:
    """Return the configuration of the daemon that the host is set up for, and whose it is, in words ("" for the
    command's own): the one that runs, with what the flags override, or else the one that will run.

    That one will have what is given here, and otherwise most probably what the last daemon of the state directory had.
    `root` is where the host's file system is. Raise ConfigError.
    """
    own = config_of(args)
    seen = own.state_dir if root == "/" else os.path.join(root, own.state_dir.lstrip("/"))
    last = None if args.config else read_settings(seen)
    if last is None:
        return own, ""
    is_running = is_daemon_running(seen)
    given = own.flags if is_running else own.origins
    fields = {field: getattr(own, field) for key in given if key in KEYS for field in KEYS[key].fields}
    config = msgspec.structs.replace(last, **{**fields, "state_dir": own.state_dir, "flags": own.flags})
    return config, (daemon_on if is_running else last_daemon_on)(own.state_dir, overridden(config))


def _state_dir(args: argparse.Namespace) -> str:
    """Return the state directory that is asked about."""
    return load(args.config, os.environ, {"state_dir": given_flags(args)["state_dir"]}).state_dir


def _over(
    running: Config, args: argparse.Namespace, state_dir: str, machine: Callable[[], Topology | None] = lambda: None
) -> Config:
    """Return a daemon's configuration, with what the flags set. Its directory may have another name here than there."""
    return load_over(msgspec.structs.replace(running, state_dir=state_dir), given_flags(args), machine)


def print_json(value: object) -> None:
    """Print one JSON document on stdout."""
    sys.stdout.write(codec.encode(value).decode() + "\n")
